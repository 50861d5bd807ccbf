"""`docgraph export` and `import` beside others who write, and with what is stored wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from bson import Binary, Code, Int64, ObjectId
from bson.raw_bson import RawBSONDocument

from tests.databases import drop
from tests.process.transfer import Commands, Mongo

EXPORTS = Path(__file__).parent / "exports"
MAX_TOLD = "what is named above is exported as it is stored"


@pytest.fixture
def commands(mongo_uri: str, mongo_client: Mongo, database: str, tmp_path: Path) -> Commands:
    return Commands(mongo_uri, database, mongo_client, tmp_path / "export")


def test_what_others_change_after_the_question_is_left_and_named(commands: Commands) -> None:
    commands.fill()
    apps, users = (commands.mongo[commands.db][name] for name in ("gql-apps", "users"))
    notes = apps.find_one({"_id": "notes"})
    assert notes is not None
    for name in ("tasks", "later"):
        apps.insert_one({**notes, "_id": name, "_uris": [name], "_etag": ObjectId()})
    commands.export()
    apps.update_many({}, {"$set": {"mappings.Query.notes.limit": 5, "_etag": ObjectId()}})
    apps.delete_one({"_id": "later"})
    users.update_one({"_id": "ann"}, {"$set": {"roles": ["chief"]}})

    process = commands.start_import()
    others = {"mappings.Query.notes.limit": 7}
    apps.update_one({"_id": "notes"}, {"$set": {**others, "_etag": ObjectId()}})
    apps.insert_one({**notes, "_id": "later", "_uris": ["later"], **others})
    users.update_one({"_id": "ann"}, {"$set": {"roles": ["clerk"]}})  # and the etag is not renewed
    told = process.communicate("y\n")[1]

    assert process.returncode == 1
    for one in ("apps: notes", "apps: later", "users: ann"):
        assert f"not changed, because another process wrote it in the meantime: {one}" in told
    assert "stored tasks" in told
    kept = {one["_id"]: one for one in apps.find()}
    assert kept["notes"]["mappings"]["Query"]["notes"]["limit"] == 7
    assert "limit" not in kept["tasks"]["mappings"]["Query"]["notes"]
    assert users.find_one({"_id": "ann"})["roles"] == ["clerk"]  # type: ignore[index]


def test_what_is_stored_wrongly_is_exported_and_named(commands: Commands) -> None:
    database = commands.mongo[commands.db]
    database["gql-apps"].insert_one({"_id": "half", "schema": 5, "_etag": ObjectId()})
    database["gql-apps"].insert_one({"_id": "bad", "schema": "type Q", "mappings": {}})
    database["acl"].insert_one({"_id": {"n": Int64(1)}, "roles": 5, "predicate": "pathh("})
    database["acl"].insert_one({"_id": "code", "roles": [Code("x")], "predicate": "true"})
    database["users"].insert_one({"_id": "eve", "password": 5})
    database["_properties"].insert_one({"_id": "_properties.x", "streams": 5})
    database["_schemas"].insert_one({"_id": "s", "$schema": "nowhere"})

    told = commands.export().stderr

    for one in (
        "app half: ",
        "app half: files of its own cannot hold it: it is in apps.json",
        "app bad: ",
        'rule {"n":1}: ',
        "rule code: roles must hold texts only",
        "user eve: the password must be text",
        f"properties of {commands.db}, _properties.x: ",
        f"schemas of {commands.db}, s: ",
        MAX_TOLD,
    ):
        assert one in told
    (half,) = json.loads((commands.directory / "apps.json").read_text())
    assert half == {"_id": "half", "schema": {"$numberInt": "5"}}
    assert (commands.directory / "apps/bad/schema.graphql").read_text() == "type Q"

    drop(commands.mongo, commands.db)
    refused = commands.run("import", code=1).stderr
    for one in ("apps.json, half: error", "apps/bad: error", 'rule {"n":1}: ', "user eve: "):
        assert one in refused
    assert "remove these entries from the export" in refused
    assert database.list_collection_names() == []


def test_what_does_not_come_back_exactly_is_named_when_it_is_exported(commands: Commands) -> None:
    database = commands.mongo[commands.db]
    unreadable = RawBSONDocument(b"\x19\0\0\0\x02_id\0\x02\0\0\0b\0\x02t\0\x02\0\0\0\xff\0\0")
    database["users"].insert_one(unreadable)
    database["users"].insert_one({"_id": "ann", "seen": {"$date": "never"}})
    database["users"].insert_one({"_id": "ref", "$ref": "users", "$id": "ann"})
    database["users"].insert_one({"_id": "fine", "seen": Binary(b"x", 5), "n": Int64(1)})

    told = commands.export().stderr

    assert "users, b: has values that cannot be read" in told
    assert "users, ann: holds what extended JSON takes for something else" in told
    assert "users, ref: holds what extended JSON takes for something else" in told
    assert "fine" not in told
    assert "there is no database" not in told
    assert "there is no database nowhere" in commands.export("--yes", "--db", "nowhere").stderr


def test_passwords_that_could_not_be_stored_are_named_before_anything_is(
    commands: Commands,
) -> None:
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    passwords = {
        "hash": hashed,
        "weak": "password",
        "long": "x1Ypq" * 20,
        "empty": "",
        "none": None,
    }
    users = [{"_id": name, "password": password} for name, password in passwords.items()]
    _write_export(commands, {"format": 1}, users)
    realm = "--set=/dbRealmAuthenticator/"
    enforced = (f"{realm}enforce-minimum-password-strength=true",)

    refused = commands.run("import", code=1, more=enforced).stderr
    for name, told in (("weak", "too weak"), ("long", "longer than 72"), ("empty", "is empty")):
        assert f"user {name}: " in refused
        assert told in refused
    assert "user hash" not in refused
    assert "user none" not in refused

    plain = commands.run("import", code=1, more=(f"{realm}bcrypt-hashed-password=false",)).stderr
    assert "user hash: the password is a hash, and would be taken for the password itself" in plain
    assert commands.mongo[commands.db].list_collection_names() == []


def test_an_export_of_the_first_format_is_read(commands: Commands) -> None:
    _copy_export(commands, "first-format")

    commands.run("import")

    stored = commands.stored
    assert {name: len(found) for name, found in stored.items()} == dict.fromkeys(stored, 1)
    again = commands.run("import").stdout
    assert {tuple(line.split("\t")[1:]) for line in again.splitlines()[1:]} == {("0", "0", "1")}


def test_a_later_revision_is_read_and_what_is_not_known_is_kept_or_named(
    commands: Commands,
) -> None:
    _copy_export(commands, "first-format", "later-revision")

    told = commands.run("import").stderr

    assert "was written by docgraph 1.9.0, which knows more" in told
    assert "export.json: signature is not known here" in told
    for name in ("quotas.json", f"schemas/{commands.db}.index"):
        assert f"{name}: not imported: it is not known here" in told
    stored = commands.stored
    assert stored["users"][0]["passkeys"] == [{"id": "k1"}]
    assert stored["gql-apps"][0]["owner"] == "ann"
    assert stored["gql-apps"][0]["descriptor"]["colour"] == "blue"


def test_another_format_is_refused_with_the_way_out(commands: Commands) -> None:
    _copy_export(commands, "first-format", "other-format")

    told = commands.run("import", code=1).stderr

    assert "was written by docgraph 2.0.0, in a format that is not known here" in told
    assert "import it with docgraph 2.0.0 or a later version" in told
    assert commands.mongo[commands.db].list_collection_names() == []


def _copy_export(commands: Commands, *names: str) -> None:
    """A stored export, with what others have instead laid over it, for the database of the test."""
    for name in names:
        for file in (EXPORTS / name).rglob("*.*"):
            place = str(file.relative_to(EXPORTS / name)).replace("DATABASE", commands.db)
            target = commands.directory / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(file.read_text().replace("DATABASE", commands.db))


def _write_export(commands: Commands, manifest: dict[str, Any], users: list[Any]) -> None:
    commands.directory.mkdir()
    (commands.directory / "export.json").write_text(json.dumps(manifest))
    (commands.directory / "users.json").write_text(json.dumps(users))
