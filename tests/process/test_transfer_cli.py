"""`docgraph export` and `docgraph import`: what docgraph keeps goes to files and comes back."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from bson import Binary, ObjectId

from tests.databases import drop
from tests.process.transfer import Commands, Mongo


@pytest.fixture
def commands(mongo_uri: str, mongo_client: Mongo, database: str, tmp_path: Path) -> Commands:
    commands = Commands(mongo_uri, database, mongo_client, tmp_path / "export")
    commands.fill()
    return commands


def test_what_is_exported_comes_back_into_an_empty_database(commands: Commands) -> None:
    before = commands.stored
    told = commands.export()
    assert [line.split("\t") for line in told.stdout.splitlines()[1:]] == [
        ["apps", "1"],
        ["users", "1"],
        ["rules", "1"],
        [f"schemas of {commands.db}", "2"],
        [f"properties of {commands.db}", "1"],
    ]
    drop(commands.mongo, commands.db)

    planned = commands.run("import", "--dry-run")
    assert {line.split("\t")[2:] == ["0", "0"] for line in planned.stdout.splitlines()[1:]} == {
        True
    }
    assert commands.mongo[commands.db].list_collection_names() == []

    commands.run("import")
    assert commands.stored == before
    assert "notes" in commands.mongo[commands.db].list_collection_names()

    again = commands.run("import")
    assert {tuple(line.split("\t")[1:3]) for line in again.stdout.splitlines()[1:]} == {("0", "0")}


def test_the_files_are_for_people_to_read_and_for_nobody_else(commands: Commands) -> None:
    commands.export()

    files = {
        path.relative_to(commands.directory).as_posix()
        for path in commands.directory.rglob("*")
        if path.is_file()
    }
    assert files == {
        "export.json",
        "users.json",
        "rules.json",
        f"properties/{commands.db}.json",
        f"schemas/{commands.db}.json",
        *(f"apps/notes/{name}" for name in ("schema.graphql", "mappings.yml", "app.yml")),
    }
    for path in (commands.directory, *commands.directory.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_what_differs_is_overwritten_only_when_somebody_says_so(commands: Commands) -> None:
    before = commands.stored
    commands.export()
    database = commands.mongo[commands.db]
    database["users"].update_one({"_id": "ann"}, {"$set": {"roles": ["chief"]}})
    database["acl"].delete_many({})
    changed = commands.stored

    refused = commands.run("import", typed="n\n", code=1)
    assert "Overwrite 1 that differ?" in refused.stderr
    assert commands.stored == changed

    commands.run("import", "--keep")
    assert commands.stored == {**changed, "acl": before["acl"]}

    commands.run("import", "--yes")
    assert commands.stored == before


def test_nothing_is_stored_when_a_part_could_not_work(commands: Commands) -> None:
    commands.export()
    rules = commands.directory / "rules.json"
    rules.write_text(rules.read_text().replace("path(", "pathh("))
    drop(commands.mongo, commands.db)

    refused = commands.run("import", code=1)

    assert "pathh" in refused.stderr
    assert "nothing was stored" in refused.stderr
    assert commands.mongo[commands.db].list_collection_names() == []


def test_nothing_is_stored_when_users_are_wrong(commands: Commands) -> None:
    commands.export()
    users = commands.directory / "users.json"
    (ann,) = json.loads(users.read_text())
    users.write_text(json.dumps([ann, ann, {"_id": "bob", "password": 5}]))
    drop(commands.mongo, commands.db)

    refused = commands.run("import", code=1)

    assert "users, ann: is there more than once" in refused.stderr
    assert "user bob: the password must be text" in refused.stderr
    assert commands.mongo[commands.db].list_collection_names() == []


def test_what_is_invalid_is_left_out_and_listed_if_that_is_wanted(commands: Commands) -> None:
    """Also what refers to it: the schema `item` needs `part`."""
    commands.export()
    directory, db = commands.directory, commands.db
    users, rules = directory / "users.json", directory / "rules.json"
    (ann,) = json.loads(users.read_text())
    users.write_text(json.dumps([ann, {"_id": "bob", "password": 5}]))
    (rule,) = json.loads(rules.read_text())
    rules.write_text(json.dumps([rule, {**rule, "_id": "no", "predicate": "pathh('/')"}]))
    schemas = directory / f"schemas/{db}.json"
    item, part = json.loads(schemas.read_text())
    schemas.write_text(json.dumps([item, {**part, "type": 5}]))
    other = {"_id": "other", "schema": "type Query { a: Int", "mappings": {}}
    (directory / "apps.json").write_text(json.dumps([other]))
    drop(commands.mongo, db)

    refused = commands.run("import", code=1)
    assert "--skip-invalid" in refused.stderr
    shown = commands.run("import", "--skip-invalid", "--dry-run")
    assert commands.mongo[db].list_collection_names() == []
    done = commands.run("import", "--skip-invalid")

    assert shown.stdout in done.stdout
    left_out = [line for line in done.stderr.splitlines() if line.startswith("left out: ")]
    for name in (
        "user bob",
        "rule no",
        f"schemas of {db}, part",
        f"schemas of {db}, item",
        "other",
    ):
        assert any(name in line for line in left_out), (name, left_out)
    assert len(left_out) == 5
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0][-1] == "left out"
    counts = {row[0]: row[-1] for row in rows}
    assert counts[f"schemas of {db}"] == "2"
    assert counts["users"] == counts["rules"] == counts["apps"] == "1"
    stored = commands.stored
    assert [[one["_id"] for one in stored[name]] for name in ("users", "gql-apps")] == [
        ["ann"],
        ["notes"],
    ]
    assert len(stored["acl"]) == len(stored["_properties"]) == 1
    assert stored["_schemas"] == []


def test_nothing_is_stored_when_a_json_schema_is_none(commands: Commands) -> None:
    commands.export()
    schemas = commands.directory / f"schemas/{commands.db}.json"
    item, part = json.loads(schemas.read_text())
    drop(commands.mongo, commands.db)
    nowhere = f"http://schema-store/{commands.db}/nowhere"

    for wrong, told in (({"type": 5}, "#/type"), ({"_$ref": nowhere}, "nowhere")):
        schemas.write_text(json.dumps([item, {**part, **wrong}]))
        refused = commands.run("import", "--dry-run", code=1)
        assert f"schemas of {commands.db}, part: " in refused.stderr
        assert told in refused.stderr
        commands.run("import", code=1)
    assert commands.mongo[commands.db].list_collection_names() == []


def test_nothing_is_stored_when_another_app_is_served_at_an_address(commands: Commands) -> None:
    commands.export()
    taken = {"_id": "other", "_uris": ["other", "notes"], "descriptor": {"uri": "notes"}}
    database = commands.mongo[commands.db]
    app = database["gql-apps"].find_one({"_id": "notes"})
    assert app is not None
    drop(commands.mongo, commands.db)
    database["gql-apps"].insert_one({**app, **taken})

    for arguments in (("import", "--dry-run"), ("import",)):
        refused = commands.run(*arguments, code=1)
        assert "app notes: URI collision: it would be served where other is" in refused.stderr
        assert "nothing was stored" in refused.stderr
    assert database.list_collection_names() == ["gql-apps"]


def test_apps_come_back_whatever_their_names_mean_to_a_file_system(commands: Commands) -> None:
    database = commands.mongo[commands.db]
    app = database["gql-apps"].find_one({"_id": "notes"})
    assert app is not None
    odd = ["..", ".", ".hidden", "../up", "a/b", "A/b", "a%2Fb", "Notes", "node_modules", "ä" * 200]
    names: list[Any] = [*odd, "5", 5, ObjectId(), Binary(b"\0\xff", 7)]
    for number, name in enumerate(names):
        address = {"_uris": [f"app{number}"], "descriptor": {"uri": f"app{number}"}}
        database["gql-apps"].insert_one({**app, "_id": name, **address})
    commands.export()
    database["gql-apps"].delete_many({})

    commands.run("import")

    assert {one["_id"] for one in database["gql-apps"].find()} == {"notes", *names}
    directories = [one.name.casefold() for one in (commands.directory / "apps").iterdir()]
    assert len(set(directories)) == len(directories) == len(names) + 1
    assert not (commands.directory / "app.yml").exists()


def test_passwords_that_are_no_hashes_are_hashed_on_their_way_in(commands: Commands) -> None:
    database = commands.mongo[commands.db]
    database["users"].update_one({"_id": "ann"}, {"$set": {"password": "plain enough"}})
    commands.export()
    drop(commands.mongo, commands.db)

    commands.run("import", more=("--set=/dbRealmAuthenticator/bcrypt-complexity=4",))

    stored = database["users"].find_one({"_id": "ann"})
    assert stored is not None
    assert bcrypt.checkpw(b"plain enough", stored["password"].encode())


def test_a_directory_is_written_over_only_if_it_is_an_export(commands: Commands) -> None:
    commands.directory.mkdir()
    other = commands.directory / "mine.txt"
    other.write_text("mine")
    assert "holds something else" in commands.export(code=1).stderr

    other.unlink()
    commands.export()
    commands.mongo[commands.db]["gql-apps"].delete_many({})
    assert "Write over the export" in commands.export(code=1).stderr
    commands.export("--yes")
    assert not (commands.directory / "apps").exists()


def test_links_in_a_former_export_are_removed_and_not_followed(commands: Commands) -> None:
    commands.export()
    other = commands.directory.with_name("other")
    other.mkdir()
    (other / "kept.json").write_text("kept")
    for name, target in (("users.json", other / "kept.json"), ("schemas", other)):
        path = commands.directory / name
        path.rename(other / name)
        path.symlink_to(target)

    commands.export("--yes")

    assert (other / "kept.json").read_text() == "kept"
    assert not any(one.is_symlink() for one in commands.directory.iterdir())


def test_directories_that_cannot_be_had_are_told_in_one_line(commands: Commands) -> None:
    place = commands.directory.parent
    (place / "file").write_text("")
    for name in ("file/export", "x" * 300):
        commands.directory = place / name
        for command in ("export", "import"):
            told = commands.run(command, code=1).stderr
            assert str(commands.directory) in told


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (None, "is no export"),
        ({"format": 99}, "a format that is not known here"),
        ([1], "was written by something else"),
    ],
)
def test_what_cannot_be_read_is_refused(commands: Commands, manifest: Any, told: str) -> None:
    commands.directory.mkdir()
    if manifest is not None:
        (commands.directory / "export.json").write_text(json.dumps(manifest))

    assert told in commands.run("import", code=1).stderr
