"""`docgraph access fuzz`: leaks that were planted are found, and nothing outside is touched."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bson import encode
from pymongo import MongoClient
from tests.databases import drop, new_name
from tests.guarded_mongo import GuardedMongo
from tests.process import commands
from tests.process.commands import ROOT
from tests.process.harness import eventually

from docgraph.cli.demo.data import build_blog

Document = dict[str, Any]

STAFF = """
type Query {
  people(name: String, minSalary: Int): [Person]
  contacts: [Contact]
  notes(limit: Int = 10): [Note]
}
type Person {
  id: Int! name: String
  email: String @visible(roles: ["hr"])
  salary: Int @visible(roles: ["hr"])
  notes: [Note]
}
type Contact { name: String reach: String }
type Note { id: Int text: String owner: String author: Person }
"""
# It tells what lies in a property that the rules hide.
PLUGIN = """
from docgraph import Deadline, Initializer, Interceptor, Point, Resource, ResourceType, Write
from docgraph import WriteKind


class Chatty(Interceptor):
    name = "chatty"
    point = Point.RESPONSE

    def __init__(self, config, mclient, configuration):
        self.config = config
        self._people = mclient[configuration["graphql"].db]["people"]

    def resolve(self, exchange):
        return exchange.request.path == "/people"

    async def handle(self, exchange):
        person = await self._people.find_one({})
        exchange.headers.append(("X-Pin", str(person and person.get("pin"))))
"""
# It writes to a database by its name, which a leak check does not let pass.
STRAY = """

class Stray(Initializer):
    name = "stray"

    def __init__(self, config, store):
        self.config = config
        self._store = store

    async def initialize(self):
        place = Resource(ResourceType.COLLECTION, "DATABASE", "notes")
        write = Write(WriteKind.INSERT, ({"_id": "stray"},))
        await self._store.write(place, write, deadline=Deadline.after_ms(10_000))
"""
VAULT = """
type Query { notes(where: BsonDocument): [Note] coded: [Note] folders: [Folder] }
type Note { id: Int text: String code: String }
type Folder { id: Int }
"""
# An expression of an author, who relies on codes being numbers; `$or` is evaluated early.
CODED = {"$or": [{"$expr": {"$gte": [{"$toInt": "$code"}, 1]}}, {"_id": None}]}
# The same inside a join.
JOINED = {"from": "notes", "localField": "_id", "foreignField": "_id", "as": "note"}
# It removes the fence behind row filters: whatever a filter holds counts as safe.
UNFENCED = """
from docgraph.store.guard import fence

fence.find_unsafe.__code__ = (lambda filter: None).__code__
"""
# It lets expressions pass in filters that callers send to apps.
UNCHECKED = """
from docgraph.variables import value_marks

value_marks.check_caller_document.__code__ = (lambda document: None).__code__
"""
# It lets callers read views over rows that are hidden from them.
UNVIEWED = """
from docgraph.store import views

views.find_suspects.__code__ = (lambda rows, places: []).__code__
"""
ASKED = "type Query { notes(where: BsonDocument): [Note] } type Note { id: Int text: String }"
FILTERED = "type Query { notes: [Note] } type Note { id: Int text: String }"
# Every argument tells about a field that is hidden, and nothing else does.
PROBED = """
type Query { teams: [Team] }
type Team { id: Int! staff(by: By, order: Order, isBoss: Boolean): [Person] }
type Person {
  id: Int! name: String
  salary: Int @visible(roles: ["hr"])
  born: DateTime @visible(roles: ["hr"])
  boss: Boolean @visible(roles: ["hr"])
}
input By { bornAfter: DateTime }
enum Order { UP DOWN }
"""
PAGED = "type Query { notes: [Note!]! texts: [Note!]! } type Note { id: Int text: String }"
FAILING = ["vault", "--user", "eve", "--operations", "110", "--seed", "7", "--json"]
PLANTED = ["staff", "--user", "ada", "--operations", "40", "--seed", "7", "--json"]


def find(db: str, collection: str, **others: Any) -> Document:
    return {"db": db, "collection": collection, **others}


def map_staff(db: str) -> Document:
    name = {"$ifarg": ["name", {"name": {"$arg": "name"}}]}
    rich = {"$ifarg": ["minSalary", {"salary": {"$gte": {"$arg": "minSalary"}}}]}
    stages = [{"$project": {"name": 1, "reach": "$email"}}]
    return {
        "Query": {
            "people": find(db, "people", find={"$and": [name, rich]}),
            "contacts": find(db, "people", stages=stages),
            "notes": find(db, "notes", find={}, limit={"$arg": "limit"}),
        },
        "Person": {"id": "_id", "notes": find(db, "notes", find={"authorId": {"$fk": "_id"}})},
        "Note": {"id": "_id", "author": find(db, "people", find={"_id": {"$fk": "authorId"}})},
    }


def map_probed(db: str) -> Document:
    born = {"$ifarg": ["by.bornAfter", {"born": {"$gte": {"$arg": "by.bornAfter"}}}]}
    boss = {"$ifarg": ["isBoss", {"boss": {"$arg": "isBoss"}}]}
    sort = {"salary": {"$arg": ["order", None]}}
    return {
        "Query": {"teams": find(db, "teams", find={})},
        "Team": {"id": "_id", "staff": find(db, "crew", find={"$and": [born, boss]}, sort=sort)},
        "Person": {"id": "_id"},
        "Order": {"UP": 1, "DOWN": -1},
    }


def list_rules() -> list[Document]:
    own = {"readFilter": {"owner": "@user._id"}}
    hidden = {"projectResponse": {"email": 0, "salary": 0, "pin": 0}}
    return [
        {"_id": "app", "predicate": "path-prefix('/graphql/staff')", "roles": ["reader"]},
        {"_id": "probed", "predicate": "path-prefix('/graphql/probed')", "roles": ["reader"]},
        {"_id": "agents", "predicate": "path('/mcp')", "roles": ["reader"]},
        {
            "_id": "all",
            "predicate": "path('/notes/_streams/all')",
            "roles": ["reader"],
            "priority": 1,
        },
        {"_id": "notes", "predicate": "path-prefix('/notes')", "roles": ["reader"], "mongo": own},
        {"_id": "people", "predicate": "path('/people')", "roles": ["reader"], "mongo": hidden},
    ]


@dataclass
class Done:
    """A command that is over."""

    code: int | None
    stdout: str
    stderr: str


def fuzz(*arguments: str) -> Done:
    """Run the command; on a busy machine it may take long."""
    process = commands.start("access", "fuzz", *arguments)
    stdout, stderr = process.communicate(timeout=600)
    return Done(process.returncode, stdout, stderr)


@dataclass
class Staff:
    """A database with an app, rules and documents, and the options that lead there."""

    db: Any
    options: list[str]

    def fuzz(self, *arguments: str) -> Done:
        return fuzz(*arguments, *self.options)


@pytest.fixture(scope="module")
def staff(
    mongo_client: MongoClient[Document], mongo_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Staff]:
    name = new_name()
    db = mongo_client[name]
    db["gql-apps"].insert_one({"_id": "staff", "schema": STAFF, "mappings": map_staff(name)})
    probed = {"_id": "probed", "schema": PROBED, "mappings": map_probed(name)}
    db["gql-apps"].insert_one(probed)
    db["acl"].insert_many(list_rules())
    db["users"].insert_one({"_id": "ada", "password": "x", "roles": ["reader"]})
    db["people"].insert_one({"_id": 1, "name": "Ann", "email": "a@x.org", "salary": 5, "pin": "q"})
    db["notes"].insert_one({"_id": 1, "text": "hi", "owner": "ada", "authorId": 1})
    streams = [{"uri": "all", "stages": [], "before": True}]
    db["_properties"].insert_one({"_id": "_properties.notes", "streams": streams})
    directory = tmp_path_factory.mktemp("fuzz")
    (directory / "plugins").mkdir()
    (directory / "plugins" / "chatty.py").write_text(PLUGIN + STRAY.replace("DATABASE", name))
    more = {"/mcp/enabled": True, "/core/plugins-directory": str(directory / "plugins")}
    yield Staff(db, build_options(directory, mongo_uri, name, **more))
    drop(mongo_client, name)


@pytest.fixture(scope="module")
def vault(
    mongo_client: MongoClient[Document], mongo_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Staff]:
    """Rows by owner at every door, and expressions of an author that some rows make fail."""
    name = new_name()
    db = mongo_client[name]
    mappings = {
        "Query": {
            "notes": find(name, "notes", find={"$and": [{"$arg": ["where", {}]}]}),
            "coded": find(name, "notes", find=CODED),
            "folders": find(name, "folders", find={}),
        },
        "Note": {"id": "_id"},
        "Folder": {"id": "_id"},
    }
    db["gql-apps"].insert_one({"_id": "vault", "schema": VAULT, "mappings": mappings})
    for id, schema, where in (("asked", ASKED, "where"), ("filtered", FILTERED, "@filter")):
        notes = find(name, "notes", find={"$and": [{"$arg": [where, {}]}]})
        mapped = {"Query": {"notes": notes}, "Note": {"id": "_id"}}
        db["gql-apps"].insert_one({"_id": id, "schema": schema, "mappings": mapped})
    page: Document = {"connection": {}, "orderBy": {"fields": ["text"]}}
    page["filter"] = {"fields": {"text": ["eq", "prefix", "contains"]}}
    paged = {
        "Query": {
            "notes": find(name, "notes", **page),
            "texts": find(name, "notes", sort={"text": -1}, **page),
        },
        "Note": {"id": "_id"},
    }
    db["gql-apps"].insert_one({"_id": "paged", "schema": PAGED, "mappings": paged})
    own = {"owner": "@user._id"}
    bulk = {"allowBulkPatch": True, "allowBulkDelete": True}
    posted = "(path-prefix('/graphql') or path('/mcp')) and method('POST')"
    rules = [
        ("app", posted, {"readFilters": {f"{name}.notes": own}}),
        ("batch", "path('/_batch')", None),
        ("folders", "path-prefix('/folders')", {"readFilters": {f"{name}.notes": own}}),
        ("notes", "path-prefix('/notes')", {"readFilter": own, "writeFilter": own, **bulk}),
    ]
    db["acl"].insert_many(
        {
            "_id": id,
            "predicate": predicate,
            "roles": ["reader"],
            **({"mongo": mongo} if mongo else {}),
        }
        for id, predicate, mongo in rules
    )
    db["users"].insert_one({"_id": "eve", "password": "x", "roles": ["reader"]})
    db["notes"].insert_one({"_id": 1, "text": "hi", "owner": "eve", "code": "7"})
    coded = [{"uri": "coded", "stages": [{"$match": CODED}]}]
    db["_properties"].insert_one({"_id": "_properties.notes", "aggrs": coded})
    db["folders"].insert_one({"_id": 1})
    lookup = {"$lookup": {**JOINED, "pipeline": [{"$match": CODED}]}}
    joined = [{"uri": "joined", "stages": [lookup]}]
    db["_properties"].insert_one({"_id": "_properties.folders", "aggrs": joined})
    directory = tmp_path_factory.mktemp("vault")
    yield Staff(db, build_options(directory, mongo_uri, name, **{"/mcp/enabled": True}))
    drop(mongo_client, name)


def test_requests_that_fail_because_of_hidden_rows_are_found_at_every_door(
    vault: Staff, tmp_path: Path
) -> None:
    """With a plugin that removes the fence behind row filters."""
    (tmp_path / "unfenced.py").write_text(UNFENCED)
    plugins = ["--set", f"/core/plugins-directory={tmp_path}"]

    done = vault.fuzz(*FAILING, *plugins)

    assert done.code == 1, done.stdout + done.stderr
    leaks = json.loads(done.stdout)["leaks"]
    assert {(one["door"], one["operation"].partition("?")[0]) for one in leaks} >= {
        ("GraphQL", "POST /graphql/vault { coded { __typename } }"),
        ("MCP", "POST /mcp run_query { coded { __typename } }"),
        ("REST", "GET /notes"),
        ("REST", "GET /notes/_size"),
        ("REST", "GET /notes/_aggrs/coded"),
        ("REST", "GET /folders/_aggrs/joined"),
        ("REST", "GET /notes/6"),
        ("REST", "PATCH /notes/6"),
        ("REST", "PATCH /notes/*"),
        ("REST", "DELETE /notes/6"),
        ("REST", "DELETE /notes/*"),
        ("REST", 'POST /_batch [{"method": "PATCH", "path": "/notes/6'),
    }
    assert any("&shardkey={" in one["operation"] for one in leaks)
    assert all(one["row"] and one["collection"] == f"{vault.db.name}.notes" for one in leaks)
    assert all("runs on rows that the row filter excludes" in one["advice"] for one in leaks)


@pytest.mark.parametrize(
    ("app", "doors"), [("asked", {"GraphQL", "MCP"}), ("filtered", {"GraphQL"})]
)
def test_filters_that_callers_send_to_apps_fail_because_of_hidden_rows(
    vault: Staff, tmp_path: Path, app: str, doors: set[str]
) -> None:
    (tmp_path / "unfenced.py").write_text(UNFENCED + UNCHECKED)
    plugins = ["--set", f"/core/plugins-directory={tmp_path}"]

    done = vault.fuzz(app, "--user", "eve", "--operations", "24", "--seed", "7", "--json", *plugins)

    assert done.code == 1, done.stdout + done.stderr
    leaks = [one for one in json.loads(done.stdout)["leaks"] if one["door"] != "REST"]
    assert {one["door"] for one in leaks} == doors
    assert all("$expr" in one["operation"] and one["row"] for one in leaks)


def test_no_request_fails_because_of_a_hidden_row(vault: Staff) -> None:
    done = vault.fuzz(*FAILING)
    assert done.code == 0, done.stdout + done.stderr


@pytest.mark.parametrize("is_open", [True, False])
def test_canaries_are_planted_behind_views(
    mongo_client: MongoClient[Document], mongo_uri: str, tmp_path: Path, is_open: bool
) -> None:
    """Rows of the source are found through views (decision 58): by a fault, or by another rule."""
    name = new_name()
    db = mongo_client[name]
    mappings = {"Query": {"notes": find(name, "again")}, "Note": {"id": "_id"}}
    db["gql-apps"].insert_one({"_id": "viewed", "schema": FILTERED, "mappings": mappings})
    db["notes"].insert_one({"_id": 1, "text": "hi", "owner": "eve"})
    db.create_collection("every", viewOn="notes", pipeline=[])
    db.create_collection("again", viewOn="every", pipeline=[{"$match": {"_id": {"$gt": 0}}}])
    own = {"readFilters": {f"{name}.notes": {"owner": "eve"}}}
    rules: list[tuple[str, str, Document]] = [("app", "path-prefix('/graphql')", own)]
    rules.append(("every", "path('/every')", {}))
    rules.append(("notes", "path-prefix('/notes')", {"readFilter": {"owner": "eve"}}))
    db["acl"].insert_many(
        {"_id": id, "predicate": predicate, "roles": ["reader"], "mongo": mongo}
        for id, predicate, mongo in rules
    )
    (tmp_path / "plugins").mkdir()
    if is_open:
        (tmp_path / "plugins" / "unviewed.py").write_text(UNVIEWED)
    options = build_options(
        tmp_path, mongo_uri, name, **{"/core/plugins-directory": str(tmp_path / "plugins")}
    )

    done = fuzz(
        "viewed", "--role", "reader", "--operations", "12", "--seed", "7", "--json", *options
    )

    assert done.code == 1, done.stdout + done.stderr
    leaks = json.loads(done.stdout)["leaks"]
    doors = {(one["door"], one["operation"].split()[1].partition("?")[0]) for one in leaks}
    rest = {("REST", "/every")}  # a rule without filters
    assert doors == (rest | {("GraphQL", "/graphql/viewed")} if is_open else rest)
    assert all(one["row"] and one["collection"] == f"{name}.notes" for one in leaks)
    drop(mongo_client, name)


def build_options(directory: Path, uri: str, db: str, **more: Any) -> list[str]:
    settings = {
        "/mclient/connection-string": uri,
        "/dbAclAuthorizer/acl-db": db,
        "/dbRealmAuthenticator/users-db": db,
        "/graphql/db": db,
        "/mongo/mongo-mounts": [{"what": f"/{db}", "where": "/"}],
        **more,
    }
    file = directory / "docgraph.yml"
    file.write_text("{}\n")
    sets = [f"{path}={json.dumps(value)}" for path, value in settings.items()]
    return ["--config", str(file), *(part for one in sets for part in ("--set", one))]


def take_stock(client: MongoClient[Document]) -> dict[str, list[bytes]]:
    """Everything that is stored, as bytes: NaN, which other tests leave there, equals nothing."""
    return {
        f"{db}.{name}": [encode(one) for one in client[db][name].find()]
        for db in client.list_database_names()
        if db not in ("admin", "config", "local")
        for name in sorted(client[db].list_collection_names())
    }


def test_pages_show_nothing_of_hidden_rows(vault: Staff) -> None:
    """Neither totals nor cursors, filters and orders of a connection do."""
    done = vault.fuzz("paged", "--user", "eve", "--operations", "150", "--seed", "3", "--json")

    assert done.code == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["leaks"] == []


def test_planted_leaks_are_found_and_nothing_else_is_touched(
    staff: Staff, mongo_client: MongoClient[Document]
) -> None:
    """Another name by an aggregation, rows without a filter, a condition, a plugin, a stream."""
    before = take_stock(mongo_client)

    done = staff.fuzz(*PLANTED)

    assert done.code == 1, done.stderr
    told = json.loads(done.stdout)
    place = f"{staff.db.name}.people"
    found = {(one["door"], one["kind"], one.get("field")): one for one in told["leaks"]}
    reach = found["GraphQL", "value", "email"]
    assert reach["operation"] == "POST /graphql/staff { contacts { reach } }"
    assert (reach["collection"], reach["row"]) == (place, False)
    (rows,) = [one for one in told["leaks"] if one.get("row") and one["door"] == "GraphQL"]
    assert rows["collection"] == f"{staff.db.name}.notes"
    assert "the rule notes (database) at /notes" in rows["hiddenBy"]
    assert "readFilters" in rows["advice"]
    rich = found["GraphQL", "difference", "salary"]
    assert "people(minSalary: " in rich["operation"]
    assert ("REST", "value", "pin") in found
    assert ("MCP", "value", "email") in found
    assert any(one["door"] == "streams" and one["row"] for one in told["leaks"])
    assert told["seed"] == 7
    assert sum(told["operations"].values()) == 40
    assert take_stock(mongo_client) == before


def test_arguments_on_hidden_fields_are_tried_first(staff: Staff) -> None:
    """Nested ones, parts of inputs, and orders: a few operations find each of them."""
    done = staff.fuzz("probed", "--user", "ada", "--operations", "12", "--seed", "7", "--json")

    assert done.code == 1, done.stderr
    leaks = json.loads(done.stdout)["leaks"]
    assert {(one["kind"], one["field"]) for one in leaks} == {
        ("difference", "salary"),
        ("difference", "born"),
        ("difference", "boss"),
    }
    assert all("hides arguments" in one["advice"] for one in leaks)


def test_ctrl_c_leaves_nothing_behind(staff: Staff, mongo_client: MongoClient[Document]) -> None:
    def find_scratch() -> list[str]:
        names = mongo_client.list_database_names()
        return [name for name in names if name.startswith("docgraph_fuzz_")]

    many = ["access", "fuzz", "staff", "--role", "reader", "--operations", "1000000"]
    with commands.start(*many, *staff.options) as process:
        eventually(find_scratch)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)

    assert process.returncode == 2
    assert "ended before it was done; the scratch databases are dropped" in said
    assert not find_scratch()


def test_a_connection_that_may_not_make_databases_is_told_so(
    guarded_mongo: GuardedMongo, database: str, tmp_path: Path
) -> None:
    admin = guarded_mongo.admin[database]
    admin["gql-apps"].insert_one({"_id": "staff", "schema": STAFF, "mappings": map_staff(database)})
    try:
        with guarded_mongo.user([{"role": "readWrite", "db": database}]) as user:
            uri = guarded_mongo.render_uri(user, "secret")
            done = fuzz("staff", "--anonymous", *build_options(tmp_path, uri, database))
    finally:
        drop(guarded_mongo.admin, database)

    assert done.code == 2
    assert "may not make the scratch database docgraph_fuzz_" in done.stderr
    assert "readWriteAnyDatabase" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing", "--role", "reader"], "there is no app 'nothing'"),
        (["staff", "--user", "nobody"], "no authenticator knows the user 'nobody'"),
        (["staff"], "Say who asks: --role, --user or --anonymous."),
        (["staff", "--anonymous", "--role", "reader"], "Say who asks"),
    ],
)
def test_what_cannot_be_done_is_said(staff: Staff, arguments: list[str], said: str) -> None:
    done = staff.fuzz(*arguments)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_caller_whom_no_door_answers_shows_nothing(staff: Staff) -> None:
    done = staff.fuzz("staff", "--role", "raeder", "--operations", "12", "--seed", "1")
    assert (done.code, "no leak was found" in done.stdout) == (2, False)
    assert "note: no rule and no @visible names the role 'raeder'" in done.stdout
    assert "no door answered this caller" in done.stderr


def test_the_blog_of_the_demo_has_no_leak(
    mongo_client: MongoClient[Document], mongo_uri: str, database: str, tmp_path: Path
) -> None:
    text = (ROOT / "src/docgraph/cli/demo/blog.json").read_text()
    text = text.replace('"db": "docgraph"', f'"db": "{database}"')
    db = mongo_client[database]
    db["gql-apps"].insert_one(json.loads(text))
    for name, documents in build_blog().items():
        db[name].insert_many(documents[:20])
    db["acl"].insert_one({"roles": ["$unauthenticated"], "predicate": "path('/graphql/blog')"})
    rule = {"role": "$unauthenticated", "predicate": "path('/posts')"}
    more = {"/fileAclAuthorizer/enabled": True, "/fileAclAuthorizer/permissions": [rule]}
    options = build_options(tmp_path, mongo_uri, database, **more)

    done = fuzz("blog", "--role", "stranger", "--operations", "40", "--seed", "7", *options)

    assert done.code == 0, done.stdout + done.stderr
    assert "no leak was found" in done.stdout
    assert f"{database}.authors: email (@visible on Author.email)" in done.stdout
    assert "note: no rule and no @visible names the role 'stranger'" in done.stdout
    assert "A search, not a proof" in done.stdout
    assert "the caller may not read /authors" in done.stdout
    for path in ("ask /graphql/blog", "read /posts"):  # rules of the database, and of files
        assert f"the caller may not {path}" not in done.stdout
