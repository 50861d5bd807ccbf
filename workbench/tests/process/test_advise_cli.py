"""`docgraph apps advise` as people and pipelines call it: findings, indexes, exit codes."""

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

MANY = 1_200
SCHEMA = "type Query { things(kind: String!, limit: Int = 5): [Thing] } type Thing { id: Int! }"


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

    def run(self, *arguments: str, code: int = 0, input: str | None = None) -> Any:
        done = run("apps", *arguments, *self._own, input=input)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done


def build_app(db: str, collection: str = "things") -> dict[str, Any]:
    find = {"kind": {"$arg": "kind"}}
    things = {"db": db, "collection": collection, "find": find, "limit": {"$arg": "limit"}}
    mappings = {"Query": {"things": things}, "Thing": {"id": "_id"}}
    return {"_id": "stock", "schema": SCHEMA, "mappings": mappings}


@pytest.fixture
def commands(mongo_uri: str, mongo_client: Mongo, database: str) -> Commands:
    documents = [{"_id": n, "kind": f"k{n % 300}"} for n in range(MANY)]
    mongo_client[database]["things"].insert_many(documents)
    return Commands(mongo_uri, database)


def test_advice_is_told_after_apply_and_by_check_and_its_indexes_are_created_after_asking(
    commands: Commands, mongo_client: Mongo, tmp_path: Path
) -> None:
    things = mongo_client[commands.db]["things"]
    file = tmp_path / "stock.json"
    file.write_text(json.dumps(build_app(commands.db)))

    applied = commands.run("apply", str(file))
    told = commands.run("advise", code=1)
    checked = commands.run("check", "--live", "--json", str(file), code=1)
    refused = commands.run("advise", "stock", "--apply", input="n\n", code=1)
    assert [*things.index_information()] == ["_id_"]

    assert "advice: 1 warning:" in applied.stderr
    assert "apps advise stock` says more" in applied.stderr
    command = f'db.getSiblingDB("{commands.db}").getCollection("things").createIndex({{"kind": 1}})'
    assert told.stdout.splitlines()[:3] == [
        "warning: stock: mappings.Query.things.find",
        f"    goes through all {MANY} documents of {commands.db}.things",
        f"    → {command}",
    ]
    assert "1 app, 1 collection: 1 warning" in told.stderr
    (row,) = json.loads(checked.stdout)
    assert (row["valid"], [one["kind"] for one in row["advice"]]) == (True, ["no-index"])
    assert "nothing was created" in refused.stderr

    created = commands.run("advise", "--apply", "--yes", "--json")
    assert json.loads(created.stdout)["created"] == [command]
    assert [*things.index_information()] == ["_id_", "kind_1"]
    fine = commands.run("advise")
    assert (fine.stdout, "nothing to advise" in fine.stderr) == ("", True)
    assert "advice:" not in commands.run("apply", str(file)).stderr


def test_the_index_that_a_row_filter_wants_is_created(
    commands: Commands, mongo_client: Mongo
) -> None:
    database = mongo_client[commands.db]
    database["things"].create_index("kind")
    database["things"].update_many({}, [{"$set": {"owner": {"$mod": ["$_id", 50]}}}])
    database["gql-apps"].insert_one(build_app(commands.db))
    rows = {"readFilters": {f"{commands.db}.things": {"owner": "@user._id"}}}
    rule = {"_id": "own", "roles": ["clerk"], "predicate": "path('/graphql/stock')", "mongo": rows}
    database["acl"].insert_one(rule)

    told = commands.run("advise", code=1)
    created = commands.run("advise", "--apply", "--yes", "--json")

    command = (
        f'db.getSiblingDB("{commands.db}").getCollection("things").createIndex({{"owner": 1}})'
    )
    assert told.stdout.splitlines()[:3] == [
        f"warning: the rule own (database): mongo.readFilters.{commands.db}.things",
        f"    no index of {commands.db}.things begins with owner: requests under this row filter "
        f"may go through all {MANY} documents",
        f"    → {command}",
    ]
    assert json.loads(created.stdout)["created"] == [command]
    assert "owner_1" in database["things"].index_information()
    assert "nothing to advise" in commands.run("advise").stderr


def test_the_index_of_a_search_by_distance_is_created(
    commands: Commands, mongo_client: Mongo, tmp_path: Path
) -> None:
    shops = mongo_client[commands.db]["shops"]
    here = {"type": "Point", "coordinates": [1, 2]}
    shops.insert_one({"place": here})
    near = {"place": {"$near": {"$geometry": here}}}
    shop = {"db": commands.db, "collection": "shops", "limit": 5}
    schema = "type Query { near: [Shop] next: [Shop] } type Shop { place: BsonDocument }"
    mappings = {"Query": {"near": {**shop, "find": near}, "next": {**shop, "find": near}}}
    file = tmp_path / "shops.json"
    file.write_text(json.dumps({"_id": "shops", "schema": schema, "mappings": mappings}))
    commands.run("apply", str(file))

    report = json.loads(commands.run("advise", "--apply", "--yes", "--json").stdout)

    (index,) = report["indexes"]
    assert index["keys"] == {"place": "2dsphere"}
    assert index["serves"] == ["shops: mappings.Query.near.find", "shops: mappings.Query.next.find"]
    assert report["created"] == [index["createIndex"]]
    assert [*shops.index_information()] == ["_id_", "place_2dsphere"]
    assert "nothing to advise" in commands.run("advise").stderr


def test_what_could_not_be_done_has_an_exit_code_of_its_own(commands: Commands) -> None:
    assert "no apps are stored" in commands.run("advise").stderr
    assert "there is no app 'none'" in commands.run("advise", "none", code=2).stderr
    assert "--yes goes with --apply" in commands.run("advise", "--yes", code=2).stderr
    away = Commands("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200", commands.db)
    assert "does not answer" in away.run("advise", code=2).stderr


def test_collections_that_may_not_be_read_are_named_and_the_others_looked_at(
    guarded_mongo: GuardedMongo, database: str
) -> None:
    admin = guarded_mongo.admin[database]
    documents = [{"_id": n, "kind": f"k{n % 300}"} for n in range(MANY)]
    for name in ("things", "secrets"):
        admin[name].insert_many(documents)
    own = f"{database}_own"
    apps = [build_app(database), {**build_app(database, "secrets"), "_id": "closed"}]
    guarded_mongo.admin[own]["gql-apps"].insert_many(apps)
    reading = {
        "resource": {"db": database, "collection": "things"},
        "actions": ["find", "listIndexes", "collStats"],
    }
    listing = {"resource": {"db": database, "collection": ""}, "actions": ["listCollections"]}
    admin.command("createRole", "looker", privileges=[reading, listing], roles=[])
    roles = [{"role": "looker", "db": database}, {"role": "readWrite", "db": own}]
    try:
        with guarded_mongo.user(roles) as user:
            commands = Commands(guarded_mongo.render_uri(user, "secret"), own)
            done = commands.run("advise", "--json", code=1)
    finally:
        admin.command("dropRole", "looker")
        drop(guarded_mongo.admin, database)
        drop(guarded_mongo.admin, own)

    findings = json.loads(done.stdout)["findings"]
    denied = [one for one in findings if one["kind"] == "not-looked-at"]
    assert [one["collection"] for one in denied] == [f"{database}.secrets"]
    assert "docgraph lacks a right at the database" in denied[0]["what"]
    assert [one["app"] for one in findings if one["kind"] == "no-index"] == ["stock"]
