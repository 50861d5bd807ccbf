"""`docgraph apps infer` as people call it: shown, written, added to, never without being asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from tests.databases import drop
from tests.guarded_mongo import GuardedMongo
from tests.process.commands import run

Mongo = MongoClient[dict[str, Any]]


class Commands:
    """The command line, on a database of this test."""

    def __init__(self, uri: str, db: str) -> None:
        self.db = db
        self._own = (
            f"--set=/mclient/connection-string={uri}",
            f"--set=/graphql/db={db}",
            f"--set=/dbRealmAuthenticator/users-db={db}",
            f"--set=/dbAclAuthorizer/acl-db={db}",
        )

    def run(self, *arguments: str, code: int = 0) -> Any:
        done = run("apps", *arguments, *self._own)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done


@pytest.fixture
def commands(mongo_uri: str, mongo_client: Mongo, database: str) -> Commands:
    shop = mongo_client[database]
    shop["customers"].insert_many([{"_id": n, "name": f"N{n}"} for n in range(5)])
    shop["orders"].insert_many([{"_id": n, "customerId": n % 5, "total": 1.5} for n in range(20)])
    shop["users"].insert_one({"_id": "ada", "password": "x"})
    return Commands(mongo_uri, database)


def test_without_out_it_prints_what_it_would_write_and_writes_nothing(
    commands: Commands, mongo_client: Mongo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = commands.run("infer")

    for part in ("--- schema.graphql ---", "type Customer {", "--- mappings.yml ---", "app.yml"):
        assert part in done.stdout
    assert "json-mode: plain" in done.stdout
    assert "note: orders.customerId refers to customers._id" in done.stderr
    assert "note: users: left out, it belongs to docgraph itself" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert "gql-apps" not in mongo_client[commands.db].list_collection_names()

    shown = json.loads(commands.run("infer", "customers", "--json", "--name", "mine").stdout)
    assert shown["definition"]["_id"] == "mine"
    assert set(shown["definition"]["mappings"]) == {"Query", "Customer", "SortOrder"}


def test_what_it_writes_is_checked_and_applied_and_added_to_later(
    commands: Commands, mongo_client: Mongo, tmp_path: Path
) -> None:
    shop = tmp_path / "shop"
    commands.run("infer", "--out", str(shop))
    assert sorted(file.name for file in shop.iterdir()) == [
        "app.yml",
        "mappings.yml",
        "schema.graphql",
    ]
    assert commands.run("check", str(shop)).stderr.startswith(f"{shop}: fine\n")
    commands.run("apply", str(shop))

    schema = (shop / "schema.graphql").read_text()
    schema = schema.replace("type Order {", "# ours\ntype Order {\n  # total: Float\n")
    schema = schema.replace("  total: Float\n", "").replace('  "For example 1.5"\n', "")
    (shop / "schema.graphql").write_text(schema)
    mappings = (shop / "mappings.yml").read_text().replace("Customer:", "# mine\nCustomer:")
    (shop / "mappings.yml").write_text(mappings)
    (shop / "app.yml").write_text("_id: mine\n")
    same = commands.run("infer", "--out", str(shop))
    assert f"{shop}: nothing is new" in same.stderr
    assert (shop / "schema.graphql").read_text() == schema

    mongo_client[commands.db]["customers"].update_one({"_id": 1}, {"$set": {"first-name": "Ada"}})
    more = commands.run("infer", "--out", str(shop))
    assert "new: Customer.first_name\n" in more.stderr
    after = (shop / "schema.graphql").read_text()
    assert set(schema.splitlines()) <= set(after.splitlines())
    assert "  first_name: String  # in 20 % of the documents\n" in after
    assert "  # total: Float\n" in after
    assert "# mine\nCustomer:" in (shop / "mappings.yml").read_text()
    assert (shop / "app.yml").read_text() == "_id: mine\n"
    assert "fine" in commands.run("check", str(shop)).stderr


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"schema.graphql": "type Query {"}, "the schema that is there cannot be read"),
        ({"schema.graphql": "type Query { a: Int }", "mappings.yml": "a: ["}, "not valid YAML"),
        ({"app.yml": "_id: mine"}, "is there without schema.graphql"),
        (
            {"schema.graphql": "type Query { a: Int }", "app.yml": "mappings: {Query: {a: b}}"},
            "the mappings are in the file of the app",
        ),
    ],
)
def test_files_that_cannot_be_added_to_are_left_alone(
    commands: Commands, tmp_path: Path, files: dict[str, str], message: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    done = commands.run("infer", "--out", str(tmp_path), code=1)

    assert message in done.stderr
    assert "nothing was changed" in done.stderr
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == files


def test_a_database_without_data_has_a_clear_result(commands: Commands) -> None:
    done = commands.run("infer", "--db", f"{commands.db}_none", code=1)

    assert "there is nothing to learn from" in done.stderr
    assert "there is no collection 'x'" in commands.run("infer", "x", code=1).stderr


def test_a_database_that_may_not_be_sampled_has_a_clear_result(
    guarded_mongo: GuardedMongo, database: str
) -> None:
    guarded_mongo.admin[database]["things"].insert_one({"_id": 1, "a": 1})
    guarded_mongo.admin[database]["others"].insert_one({"_id": 1, "a": 1})
    listing = {
        "resource": {"db": database, "collection": ""},
        "actions": ["listCollections", "collStats"],
    }
    reading = {
        "resource": {"db": database, "collection": "others"},
        "actions": ["find", "listIndexes", "collStats"],
    }
    admin = guarded_mongo.admin[database]
    admin.command("createRole", "looker", privileges=[listing, reading], roles=[])
    try:
        with guarded_mongo.user([{"role": "looker", "db": database}]) as user:
            commands = Commands(guarded_mongo.render_uri(user, "secret"), f"{database}_own")
            refused = commands.run("infer", "things", "--db", database, code=1)
            partly = commands.run("infer", "--db", database)
    finally:
        admin.command("dropRole", "looker")
        drop(guarded_mongo.admin, database)

    left_out = "things: left out, it cannot be sampled: docgraph lacks a right at the database"
    assert left_out in refused.stderr
    assert left_out in partly.stderr
    assert "type Other {" in partly.stdout
