"""`docgraph apps` and `docgraph explain` as people and machines call them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.cli.demo.data import build_blog
from tests.process.commands import ROOT, run

SCHEMA = "type Query { items(name: String): [Item] } type Item { name: String }"


@dataclass
class Commands:
    """The command line, on a database of this test."""

    uri: str
    db: str
    mongo: MongoClient[dict[str, Any]]

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = run(
            *arguments,
            f"--set=/mclient/connection-string={self.uri}",
            f"--set=/graphql/db={self.db}",
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    @property
    def stored(self) -> list[str]:
        return sorted(str(one["_id"]) for one in self.mongo[self.db]["gql-apps"].find())


@pytest.fixture
def commands(mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str) -> Commands:
    return Commands(mongo_uri, database, mongo_client)


def definition(db: str, id: str, **others: Any) -> dict[str, Any]:
    find = {"name": {"$arg": ["name", {"$exists": True}]}}
    mapping = {"db": db, "collection": "items", "find": find, "sort": {"name": 1}}
    return {"_id": id, "schema": SCHEMA, "mappings": {"Query": {"items": mapping}}, **others}


def save(directory: Path, name: str, content: Any) -> Path:
    path = directory / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


# --- check ----------------------------------------------------------------------------------------


def test_check_of_a_file_needs_no_database_and_says_that_it_asked_none(
    commands: Commands, tmp_path: Path
) -> None:
    """Validation without a server; no database is needed."""
    file = save(tmp_path, "good.json", definition("d", "good"))
    nowhere = Commands("mongodb://127.0.0.1:9/", "d", commands.mongo)

    done = nowhere.run("apps", "check", str(file))

    assert done.stdout == ""
    fine, note = done.stderr.splitlines()
    assert fine == f"{file}: fine"
    assert "the database was not checked: --database" in note


def test_check_names_every_mistake_with_its_place_and_the_way_out(
    commands: Commands, tmp_path: Path
) -> None:
    """Decision 7: errors and warnings; exit code 1 for CI."""
    bad = definition("d", "bad", descriptor={"name": "bad"})
    bad["mappings"]["Query"]["items"]["find"]["name"]["$arg"] = 5
    bad["mappings"]["Query"]["items"]["limit"] = 5000
    bad["mappings"]["Nothing"] = {}
    file = save(tmp_path, "bad.json", bad)

    done = commands.run("apps", "check", str(file), code=1)

    lines = done.stderr.splitlines()
    assert all(line.startswith(f"{file}: ") for line in lines)
    assert f"{file}: error: mappings.Query.items.find.name.$arg: " in done.stderr
    assert f"{file}: error: mappings.Query.items.limit: " in done.stderr
    assert f"{file}: warning: mappings.Nothing: the schema has no such type" in done.stderr
    assert f"{file}: warning: descriptor.name: " in done.stderr
    assert "fine" not in done.stderr


def test_check_of_a_directory_is_machine_readable(commands: Commands, tmp_path: Path) -> None:
    save(tmp_path, "a.json", definition("d", "a", descriptor={"uri": "/shared"}))
    save(tmp_path, "b.json", definition("d", "b", descriptor={"uri": "shared"}))
    save(tmp_path, "c.json", {**definition("d", "c"), "schema": "type Query {"})
    save(tmp_path, "d.json", "{ not json")
    save(tmp_path, "e.json", "[]")
    save(tmp_path, "f.json", definition("d", "f"))
    save(tmp_path, "notes.txt", "not a definition")

    done = commands.run("apps", "check", str(tmp_path), "--json", code=1)

    rows = {Path(row["file"]).name: row for row in json.loads(done.stdout)}
    assert {name: row["valid"] for name, row in rows.items()} == {
        "a.json": True,
        "b.json": False,
        "c.json": False,
        "d.json": False,
        "f.json": True,
    }
    assert rows["b.json"]["errors"] == [
        {
            "where": "descriptor.uri",
            "what": f"the app in {tmp_path / 'a.json'} is served there, too",
            "hint": None,
        }
    ]
    assert rows["c.json"]["errors"][0]["where"].startswith("schema (line 1")
    assert "not valid JSON" in rows["d.json"]["errors"][0]["what"]
    assert f"{tmp_path / 'e.json'}: skipped: a definition is an object" in done.stderr
    assert f"{tmp_path / 'notes.txt'}: skipped: neither JSON nor YAML" in done.stderr


def test_check_of_nothing_and_usage_mistakes(commands: Commands, tmp_path: Path) -> None:
    empty = commands.run("apps", "check", str(tmp_path), code=1)
    assert f"there is no definition in {tmp_path}" in empty.stderr
    assert "does not exist" in commands.run("apps", "check", "/nowhere.json", code=2).stderr


# --- apply, list, show, delete --------------------------------------------------------------------


def test_a_definition_is_applied_listed_shown_changed_and_deleted(
    commands: Commands, tmp_path: Path
) -> None:
    app = definition(commands.db, "items", descriptor={"uri": "/v1/items"})
    file = save(tmp_path, "items.json", app)

    applied = commands.run("apps", "apply", str(file))
    assert applied.stderr.splitlines()[-1] == "stored items"
    stored = commands.mongo[commands.db]["gql-apps"].find_one()
    assert stored is not None
    assert stored["_uris"] == ["items", "v1/items"]
    assert "_$arg" in stored["mappings"]["Query"]["items"]["find"]["name"]
    first = stored["_etag"]

    shown = commands.run("apps", "show", "v1/items")
    assert json.loads(shown.stdout) == app

    commands.run("apps", "apply", str(save(tmp_path, "items.json", shown.stdout)))
    stored = commands.mongo[commands.db]["gql-apps"].find_one()
    assert stored is not None
    assert stored["_etag"] != first

    (row,) = json.loads(commands.run("apps", "list", "--json").stdout)
    assert row == {
        "app": "items",
        "uri": "/v1/items",
        "enabled": True,
        "valid": True,
        "warnings": 0,
        "description": "",
    }
    removed = commands.run("apps", "remove", "items", "--yes")
    assert "docgraph apps history items`, then `apps rollback`" in removed.stderr
    assert commands.stored == []
    for name in ("remove", "delete"):
        assert "there is no app 'items'" in commands.run("apps", name, "items", code=1).stderr
    assert commands.run("apps", "list").stderr == "no apps are stored\n"


def test_apply_of_a_directory_stores_all_or_nothing(commands: Commands, tmp_path: Path) -> None:
    """Decision 4."""
    save(tmp_path, "a.json", definition(commands.db, "a"))
    save(tmp_path, "b.json", {**definition(commands.db, "b"), "schema": ""})
    refused = commands.run("apps", "apply", str(tmp_path), code=1)
    assert "nothing was stored" in refused.stderr
    assert commands.stored == []

    # a collision with what another team stored is found before anything is written, too
    save(tmp_path, "b.json", definition(commands.db, "b"))
    taken = definition(commands.db, "z", descriptor={"uri": "b"})
    commands.mongo[commands.db]["gql-apps"].insert_one(taken)
    collided = commands.run("apps", "apply", str(tmp_path), code=1)
    assert "URI collision" in collided.stderr
    assert commands.stored == ["z"]

    commands.mongo[commands.db]["gql-apps"].delete_many({})
    commands.run("apps", "apply", str(tmp_path))
    assert commands.stored == ["a", "b"]


def test_list_shows_what_is_invalid_or_disabled(commands: Commands) -> None:
    """Decision 8."""
    commands.mongo[commands.db]["gql-apps"].insert_many(
        [
            {"_id": "bad", "schema": "type", "mappings": {}},
            definition("d", "off", descriptor={"enabled": False, "description": "later"}),
            {"_id": 7, "schema": 5},
        ]
    )

    rows = json.loads(commands.run("apps", "list", "--json").stdout)
    table = commands.run("apps", "list").stdout

    assert {row["app"]: (row["enabled"], row["valid"]) for row in rows} == {
        "bad": (True, False),
        "off": (False, True),
        "7": (True, False),
    }
    assert "later" in table


def test_a_database_that_is_away_is_one_clear_line(commands: Commands) -> None:
    away = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=300"
    nowhere = Commands(away, "d", commands.mongo)

    done = nowhere.run("apps", "list", code=1)

    assert done.stderr.startswith("docgraph: ")
    assert len(done.stderr.splitlines()) <= 3


# --- explain --------------------------------------------------------------------------------------


def test_explain_prints_the_plan_and_its_commands(commands: Commands, tmp_path: Path) -> None:
    """What `verbose` tells, at the terminal."""
    documents = build_blog()
    for name in ("authors", "posts"):
        commands.mongo[commands.db][name].insert_many(documents[name])
    text = (ROOT / "src/docgraph/cli/demo/blog.json").read_text()
    blog = text.replace('"db": "docgraph"', f'"db": "{commands.db}"')
    commands.run("apps", "apply", str(save(tmp_path, "blog.json", blog)))

    query = "query ($n: Int) { posts(limit: $n) { title author { name } } }"
    done = commands.run("explain", "blog", query, "--variables", '{"n": 3}')

    assert done.stdout.startswith("query")
    assert "author: find" in done.stdout
    commands_shown = [line for line in done.stdout.splitlines() if " ms " in line]
    assert len(commands_shown) == 2
    assert "find" in commands_shown[0]
    assert f"{commands.db}.posts" in commands_shown[0]
    assert f"depends on {commands.db}.authors: changes by _id (" in done.stdout

    hidden = "{ authors(limit: 1) { email } }"
    refused = commands.run("explain", "blog", hidden, code=1)
    assert "line 1, column 23: Cannot query field 'email' on type 'Author'." in refused.stderr
    assert "email" in commands.run("explain", "blog", hidden, "--role", "admin").stdout


def test_explain_asks_the_database_about_each_command(commands: Commands, tmp_path: Path) -> None:
    items = commands.mongo[commands.db]["items"]
    items.insert_many([{"name": f"n{number % 10}"} for number in range(3000)])
    app = definition(commands.db, "items")
    commands.run("apps", "apply", str(save(tmp_path, "items.json", app)))
    query = '{ items(name: "n1") { name } }'

    slow = commands.run("explain", "items", query, "--db").stdout
    items.create_index([("name", 1), ("_id", 1)])
    told = json.loads(commands.run("explain", "items", query, "--db", "--json").stdout)

    assert "no index, 0 keys and 3000 documents examined, " in slow
    assert "slow: goes through 3000 documents to return " in slow
    assert 'getCollection("items").createIndex({"name": 1' in slow
    (command,) = told["commands"]
    assert command["field"] == "Query.items"
    assert command["indexes"] == ["name_1__id_1"]
    assert (command["good"], command["scan"]) == (True, False)
    assert (command["documentsExamined"], command["returned"]) == (0, 100)  # all in the index
    shown = f"{commands.db}.items: changes by name (1 value); every deletion"
    assert told["dependsOn"] == [shown]
    assert "goes with --db" in commands.run("explain", "items", query, "--json", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nothing", "{ a }"), 1, "there is no app at 'nothing'"),
        (("blog", "{ a }", "--variables", "{"), 2, "--variables"),
        (("blog", "{ a }", "--variables", "[]"), 2, "--variables"),
    ],
)
def test_explain_says_what_is_wrong(
    commands: Commands, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = commands.run("explain", *arguments, code=code)

    assert message in done.stderr


def test_check_with_the_database_and_apply_say_which_collections_are_missing(
    commands: Commands, tmp_path: Path
) -> None:
    """Decision 7; a definition with warnings is not called fine."""
    file = save(tmp_path, "items.json", definition(commands.db, "items"))
    missing = f"{file}: warning: mappings.Query.items.collection: there is no collection"

    alone = commands.run("apps", "check", str(file))
    asked = commands.run("apps", "check", str(file), "--database")
    applied = commands.run("apps", "apply", str(file))

    assert alone.stderr.startswith(f"{file}: fine\nthe database was not checked: ")
    assert "was not checked" not in asked.stderr
    assert missing in asked.stderr
    assert missing in applied.stderr
    assert "fine" not in asked.stderr
    assert f"{file}: works, with warnings" in asked.stderr
    assert commands.stored == ["items"]


def test_check_without_a_path_checks_the_stored_apps(commands: Commands) -> None:
    """Decision 8."""
    nothing = commands.run("apps", "check")
    commands.mongo[commands.db].items.insert_one({"name": "one"})
    bad = definition(commands.db, "bad") | {"schema": "type"}
    commands.mongo[commands.db]["gql-apps"].insert_many([definition(commands.db, "good"), bad])

    done = commands.run("apps", "check", code=1)
    rows = json.loads(commands.run("apps", "check", "--json", code=1).stdout)

    assert nothing.stderr == "no apps are stored\n"
    assert "good: fine" in done.stderr
    assert "bad: error: schema" in done.stderr
    assert {row["app"]: row["valid"] for row in rows} == {"bad": False, "good": True}


# --- definitions as files -------------------------------------------------------------------------


def test_a_stored_app_is_written_as_files_and_applied_again(
    commands: Commands, tmp_path: Path
) -> None:
    app = definition(commands.db, "items", descriptor={"json-mode": "plain"})
    other = save(tmp_path, "other.yml", definition(commands.db, "other"))
    commands.run("apps", "apply", str(save(tmp_path, "items.json", app)), str(other))
    assert commands.stored == ["items", "other"]

    files = tmp_path / "apps" / "items"
    shown = commands.run("apps", "show", "items", "--files", str(files))
    names = ["schema.graphql", "mappings.yml", "app.yml"]
    assert shown.stderr.splitlines() == [f"wrote {files / name}" for name in names]
    assert (files / "schema.graphql").read_text() == SCHEMA

    commands.run("apps", "delete", "items")
    applied = commands.run("apps", "apply", str(tmp_path / "apps"))
    assert applied.stderr.splitlines()[-1] == "stored items"
    assert json.loads(commands.run("apps", "show", "items").stdout) == app


def test_the_json_schema_of_definitions_is_printed() -> None:
    whole = run("apps", "schema")
    part = run("apps", "schema", "mappings")

    assert json.loads(whole.stdout)["required"] == ["schema", "mappings"]
    assert json.loads(part.stdout)["allOf"] == [{"$ref": "#/definitions/mappings"}]
    assert run("apps", "schema", "nothing").returncode == 2


# --- diff, dry runs, pruning ----------------------------------------------------------------------


def store_three(commands: Commands, directory: Path) -> Path:
    """Apps `same`, `shop` and `old` are stored; the files have another `shop`, and `new`."""
    stored = [definition(commands.db, name) for name in ("same", "shop", "old")]
    commands.mongo[commands.db]["gql-apps"].insert_many(stored)
    save(directory, "same.json", definition(commands.db, "same"))
    shop = {"schema": SCHEMA.replace("(name: String)", "").replace("name: String", "label: String")}
    shop["schema"] += " enum Colour { RED }"
    save(directory, "shop.json", definition(commands.db, "shop") | shop)
    save(directory, "new.json", definition(commands.db, "new"))
    return directory


def test_diff_marks_what_breaks_clients(commands: Commands, tmp_path: Path) -> None:
    store_three(commands, tmp_path)

    done = commands.run("apps", "diff", str(tmp_path))
    rows = json.loads(commands.run("apps", "diff", str(tmp_path), "--json").stdout)
    failed = commands.run("apps", "diff", str(tmp_path), "--fail-on-breaking", code=1)

    lines = done.stdout.splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert heads == [
        "+ new: new",
        "- old: stored only (--prune deletes it)",
        "= same: same",
        "~ shop: changed",
    ]
    assert "    BREAKING: Field Item.name was removed." in lines
    assert "    safe: Colour was added." in lines
    assert any(line.startswith("    -type Query { items(name: String)") for line in lines)
    changes = {row["app"]: row["change"] for row in rows}
    assert changes == {"new": "new", "old": "gone", "same": "same", "shop": "changed"}
    severities = [effect["severity"] for effect in rows[-1]["effects"]]
    assert severities == sorted(severities, key=["breaking", "dangerous", "safe"].index)
    assert failed.stdout == done.stdout
    assert commands.stored == ["old", "same", "shop"]


def test_diff_says_when_a_file_cannot_be_read(commands: Commands, tmp_path: Path) -> None:
    nameless = save(tmp_path, "a.json", {"schema": "", "mappings": {}})

    assert "has no _id" in commands.run("apps", "diff", str(nameless), code=1).stderr


def test_a_dry_run_tells_everything_and_does_nothing(commands: Commands, tmp_path: Path) -> None:
    store_three(commands, tmp_path)

    done = commands.run("apps", "apply", str(tmp_path), "--dry-run", "--prune")

    assert done.stderr.splitlines()[-5:] == [
        "would store new (new)",
        "would delete old",
        "would store same (same)",
        "would store shop (changed, 2 breaking changes)",
        "nothing was stored: this was a dry run",
    ]
    assert commands.stored == ["old", "same", "shop"]


def test_a_dry_run_refuses_what_could_not_be_stored(commands: Commands, tmp_path: Path) -> None:
    taken = definition(commands.db, "z", descriptor={"uri": "items"})
    commands.mongo[commands.db]["gql-apps"].insert_one(taken)
    file = save(tmp_path, "items.json", definition(commands.db, "items"))

    refused = commands.run("apps", "apply", str(file), "--dry-run", code=1)

    assert "URI collision: items would be served where z is" in refused.stderr


def test_pruning_deletes_what_is_not_among_the_files(commands: Commands, tmp_path: Path) -> None:
    store_three(commands, tmp_path)
    commands.run("apps", "apply", str(tmp_path))
    assert commands.stored == ["new", "old", "same", "shop"]

    pruned = commands.run("apps", "apply", str(tmp_path), "--prune")

    assert pruned.stderr.splitlines()[-1] == "deleted old"
    assert commands.stored == ["new", "same", "shop"]


def test_an_app_that_takes_the_address_of_a_pruned_one_is_stored(
    commands: Commands, tmp_path: Path
) -> None:
    before = definition(commands.db, "v1", descriptor={"uri": "items"})
    commands.run("apps", "apply", str(save(tmp_path, "items.json", before)))
    after = definition(commands.db, "v2", descriptor={"uri": "items"})
    file = str(save(tmp_path, "items.json", after))

    assert "URI collision" in commands.run("apps", "apply", file, code=1).stderr
    assert commands.stored == ["v1"]
    commands.run("apps", "apply", file, "--prune")
    assert commands.stored == ["v2"]


# --- history --------------------------------------------------------------------------------------


def test_versions_are_listed_compared_and_brought_back(commands: Commands, tmp_path: Path) -> None:
    """A deleted app can be brought back, too."""
    first = definition(commands.db, "shop")
    file = save(tmp_path, "shop.json", first)
    commands.run("apps", "apply", str(file))
    save(tmp_path, "shop.json", {**first, "schema": SCHEMA.replace("name: String }", "id: Int }")})
    commands.run("apps", "apply", str(file))

    rows = json.loads(commands.run("apps", "history", "shop", "--json").stdout)
    assert [(one["version"], one["change"], one["parts"]) for one in rows] == [
        (1, "created", []),
        (2, "changed", ["schema"]),
    ]
    assert rows[1]["breaking"] > 0
    assert all(one["by"].endswith("(command line)") for one in rows)

    compared = commands.run("apps", "diff", "shop", "--from", "1", "--fail-on-breaking", code=1)
    assert "--- shop/schema (version 1)\n" in compared.stdout
    assert "+++ shop/schema\n" in compared.stdout
    assert "BREAKING" in compared.stdout
    turned = commands.run("apps", "diff", "shop", "--from", "2", "--to", "1").stdout
    assert "+++ shop/schema (version 1)" in turned

    commands.run("apps", "delete", "shop")
    refused = commands.run("apps", "rollback", "shop", "3", code=1).stderr
    assert "version 3 of 'shop' is its deletion" in refused
    done = commands.run("apps", "rollback", "shop", "1")
    assert "stored shop as it was in version 1" in done.stderr
    assert json.loads(commands.run("apps", "show", "shop").stdout) == first
    lines = commands.run("apps", "history", "shop").stdout.splitlines()[1:]
    assert [line.split("\t")[3] for line in lines] == ["created", "changed", "deleted", "created"]
    assert [line.split("\t")[5] != "0" for line in lines] == [False, True, True, False]


def test_versions_that_are_not_there_are_clear_mistakes(commands: Commands, tmp_path: Path) -> None:
    missing = commands.run("apps", "history", "nothing", code=1).stderr
    assert "there is no app 'nothing', and no version of one" in missing
    commands.run("apps", "apply", str(save(tmp_path, "a.json", definition(commands.db, "a"))))
    for arguments in (("diff", "a", "--from", "7"), ("rollback", "a", "7")):
        done = commands.run("apps", *arguments, code=1)
        assert "there is no version 7 of 'a'" in done.stderr
    assert "--from" in commands.run("apps", "diff", "a", "--to", "1", code=2).stderr
    assert "one APP" in commands.run("apps", "diff", "a", "b", "--from", "1", code=2).stderr
    assert "does not exist" in commands.run("apps", "diff", "/nowhere.json", code=2).stderr


# --- sdl ------------------------------------------------------------------------------------------


def test_the_sdl_of_a_subgraph_is_that_of_a_role(commands: Commands, tmp_path: Path) -> None:
    schema = (
        'type Query { items: [Item] } type Item @key(fields: "id", resolvable: false) '
        '{ id: ID notes: String @visible(roles: ["editor"]) }'
    )
    mappings = {"Query": {"items": {"db": commands.db, "collection": "items"}}}
    parts = {"schema": schema, "mappings": mappings}
    app = {"_id": "shop", "descriptor": {"federation": True}, **parts}
    commands.run("apps", "apply", str(save(tmp_path, "shop.json", app)))

    assert "notes" not in commands.run("apps", "sdl", "shop").stdout
    assert "notes: String" in commands.run("apps", "sdl", "shop", "--as", "editor").stdout
    plain = {"_id": "plain", **parts, "schema": "type Query { items: [Item] } type Item { id: ID }"}
    commands.run("apps", "apply", str(save(tmp_path, "plain.json", plain)))
    assert "descriptor.federation" in commands.run("apps", "sdl", "plain", code=1).stderr
