"""What answers depend on, command by command, and that a write elsewhere does not matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from pymongo import MongoClient

from docgraph.exchange import Exchange, Permission, Request
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.execute import fetch_by_in
from docgraph.graphql.freshness.dependency import Dependency
from docgraph.graphql.freshness.invalidation_index import InvalidationIndex
from docgraph.graphql.freshness.read_sources import Sources
from docgraph.graphql.freshness.recorder import DependencyRecorder
from tests.http.engine.harness import Engine
from tests.properties.changes import Changes, follow

pytestmark = pytest.mark.anyio

Document = dict[str, Any]
Client = MongoClient[Document]

SCHEMA = """
type Query {
  post(id: Int!): Post
  posts(author: Int, tag: String, limit: Int = 0, skip: Int = 0): [Post]
  recent(author: Int): [Post!]!
  users: [User]
  total(author: Int): Int
  perTag(author: Int): [Tag]
  joined(author: Int): [BsonDocument]
  seen: [Post]
}
type Post { _id: Int title: String author: User later: [Post] }
type User { _id: Int name: String posts: [Post] count: Int }
type Tag { tag: String count: Int }
"""
POSTS = {"collection": "posts", "sort": {"_id": 1}}
OF_AUTHOR = {"authorId": {"$arg": "author"}}
MAPPINGS: dict[str, Any] = {
    "Query": {
        "post": {**POSTS, "find": {"_id": {"$arg": "id"}}},
        "posts": {
            **POSTS,
            "find": {
                "$and": [
                    {"$ifarg": ["author", OF_AUTHOR]},
                    {"$ifarg": ["tag", {"tag": {"$arg": "tag"}}]},
                ]
            },
            "limit": {"$arg": "limit"},
            "skip": {"$arg": "skip"},
        },
        "recent": {**POSTS, "find": OF_AUTHOR, "connection": {}},
        "users": {"collection": "users", "find": {}, "sort": {"_id": 1}},
        "total": {"collection": "posts", "find": OF_AUTHOR, "count": True},
        "perTag": {"collection": "posts", "find": OF_AUTHOR, "group": {"by": ["tag"]}},
        "joined": {
            "collection": "posts",
            "stages": [
                {"$match": OF_AUTHOR},
                {
                    "$lookup": {
                        "from": "users",
                        "localField": "authorId",
                        "foreignField": "_id",
                        "as": "users",
                    }
                },
                {"$unionWith": {"coll": "posts", "pipeline": [{"$match": {"tag": "b"}}]}},
                {"$sort": {"_id": 1}},
            ],
        },
        "seen": {"collection": "view", "find": {"authorId": 1}, "sort": {"_id": 1}},
    },
    "Post": {
        "author": {"collection": "users", "find": {"_id": {"$fk": "authorId"}}},
        "later": {"collection": "posts", "find": {"_id": {"$gt": {"$fk": "_id"}}, "tag": "a"}},
    },
    "User": {
        "posts": {**POSTS, "find": {"authorId": {"$fk": "_id"}}},
        "count": {"collection": "posts", "find": {"authorId": {"$fk": "_id"}}, "count": True},
    },
}


@pytest.fixture
def data(mongo_client: Client, database: str) -> Any:
    """Six posts of three authors, one of whom does not exist."""
    db = mongo_client[database]
    posts = [{"_id": n, "title": f"t{n}", "authorId": n % 3, "tag": "ab"[n % 2]} for n in range(6)]
    db.posts.insert_many(posts)
    db.users.insert_many([{"_id": 1, "name": "anna"}, {"_id": 2, "name": "ben"}])
    return db


class Recorded:
    """Runs queries, and records what their answers depend on."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.app: VisibleApp = engine.app(SCHEMA, MAPPINGS)
        self.sources = Sources(engine.store)

    async def run(
        self, query: str, rows: dict[str, Any] | None = None
    ) -> tuple[Any, tuple[Dependency, ...] | str]:
        """The data of a query, and its dependencies."""
        exchange = Exchange(Request("POST", b"/graphql/test"), "request-1")
        exchange.permission = Permission("rule", read_filters=self.place(rows or {}))
        recorder = DependencyRecorder(self.sources)
        plan = self.engine.plan(self.app, query)
        result = await self.engine.execute(plan, {}, exchange, recorder)
        assert result.errors == ()
        found = await recorder.finish()
        if not isinstance(found, str):  # recording changes nothing
            plain = await self.engine.execute(plan, {}, exchange)
            assert orjson.dumps(plain.data) == orjson.dumps(result.data)
        return orjson.loads(orjson.dumps(result.data)), found

    async def find(self, query: str, rows: dict[str, Any] | None = None) -> list[Any]:
        """The dependencies of a query, as collection, keys, ids and openness."""
        _, found = await self.run(query, rows)
        assert not isinstance(found, str), found
        return sorted([shorten(one) for one in found], key=repr)

    def place(self, rows: dict[str, Any]) -> dict[str, Any]:
        return {f"{self.engine.database}.{name}": one for name, one in rows.items()}


def shorten(one: Dependency) -> Any:
    keys = {path: set(values) for path, values in one.keys.items()}
    return one.namespace.partition(".")[2], keys, set(one.ids), one.is_open


@pytest.fixture
def recorded(engine: Engine, data: Any) -> Recorded:
    """With an app over the data."""
    return Recorded(engine)


POST_1 = ("posts", {"_id": {1}}, {1}, False)
OF_1 = ("posts", {"authorId": {1}}, {1, 4}, False)
OPEN_1 = ("posts", {"authorId": {1}}, set[Any](), True)
ALL: Any = ("posts", {}, set[Any](), True)
ALL_USERS: Any = ("users", {}, set[Any](), True)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("{ post(id: 1) { title } }", [POST_1]),
        ("{ post(id: 77) { title } }", [("posts", {"_id": {77}}, {77}, False)]),
        ("{ posts(author: 1) { title } }", [OF_1]),
        ("{ posts(author: 1, limit: 2) { title } }", [OPEN_1]),
        ("{ posts(author: 1, limit: 3) { title } }", [OF_1]),
        ("{ posts(author: 1, skip: 1) { title } }", [OPEN_1]),
        ("{ posts { title } }", [ALL]),
        ("{ total(author: 1) }", [OPEN_1]),
        ("{ perTag(author: 1) { tag count } }", [OPEN_1]),
        ("{ recent(author: 1, first: 5) { nodes { title } } }", [OF_1]),
        ("{ recent(author: 1, first: 1) { nodes { title } } }", [OPEN_1]),
        ("{ recent(author: 1) { totalCount } }", [OPEN_1]),
        ("{ __typename }", []),
    ],
)
async def test_root_fields(recorded: Recorded, query: str, expected: list[Any]) -> None:
    assert await recorded.find(query) == expected


async def test_conditions_of_two_paths(recorded: Recorded) -> None:
    found = await recorded.find('{ posts(author: 1, tag: "a") { title } }')
    assert found == [("posts", {"authorId": {1}, "tag": {"a"}}, {4}, False)]


async def test_a_relation_of_one_document_is_found_by_its_key(recorded: Recorded) -> None:
    """One command with `$lookup`; a missing author can come into being."""
    found = await recorded.find("{ post(id: 1) { title author { name } } }")
    assert found == [POST_1, ("users", {"_id": {1}}, {1}, False)]
    assert "$lookup" in repr(recorded.engine.commands)
    found = await recorded.find("{ post(id: 0) { title author { name } } }")
    assert found[1] == ("users", {"_id": {0}}, {0}, False)


async def test_relations_of_many_documents(recorded: Recorded) -> None:
    found = await recorded.find("{ posts(author: 1) { author { name } } }")
    assert found == [OF_1, ("users", {"_id": {1}}, {1}, False)]
    found = await recorded.find("{ users { posts { title } } }")
    assert found == [("posts", {"authorId": {1, 2}}, {1, 2, 4, 5}, False), ALL_USERS]
    found = await recorded.find("{ users { count } }")
    assert found == [("posts", {"authorId": {1, 2}}, set(), True), ALL_USERS]


async def test_large_relations_are_found_by_lookup(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 1)
    monkeypatch.setattr(fetch_by_in, "LARGEST_TRY", 1)
    found = await recorded.find("{ users { posts { title } } }")
    assert "$lookup" in repr(recorded.engine.commands)
    assert ("posts", {"authorId": {1, 2}}, set(), True) in found


async def test_one_query_per_parent_in_one_command(recorded: Recorded) -> None:
    found = await recorded.find("{ posts(author: 1) { later { title } } }")
    assert found == [OF_1, ("posts", {"tag": {"a"}}, set(), True)]


async def test_a_pipeline_names_all_its_collections(recorded: Recorded) -> None:
    found = await recorded.find("{ joined(author: 1) }")
    assert found == [OPEN_1, ("posts", {"tag": {"b"}}, set(), True), ALL_USERS]


async def test_row_filters_fix_paths(recorded: Recorded) -> None:
    found = await recorded.find("{ posts { title } }", {"posts": {"tag": "b"}})
    assert found == [("posts", {"tag": {"b"}}, {1, 3, 5}, False)]
    found = await recorded.find("{ joined(author: 1) }", {"users": {"name": "anna"}})
    assert ("users", {"name": {"anna"}}, set(), True) in found


async def test_a_view_names_its_collections(recorded: Recorded, data: Any) -> None:
    lookup = {"from": "users", "localField": "authorId", "foreignField": "_id", "as": "x"}
    data.create_collection("inner", viewOn="posts", pipeline=[{"$match": {"tag": "a"}}])
    data.create_collection("view", viewOn="inner", pipeline=[{"$lookup": lookup}])
    assert await recorded.find("{ seen { title } }") == [ALL, ALL_USERS]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (None, "does not exist"),
        ({"timeseries": {"timeField": "at"}}, "is a timeseries, which has no change events"),
        ({"viewOn": "absent"}, "absent does not exist"),
        (
            {"viewOn": "posts", "pipeline": [{"$match": {"$expr": {"$lt": ["$at", "$$NOW"]}}}]},
            "view uses $$NOW",
        ),
        ({"viewOn": "posts", "pipeline": [{"$sample": {"size": 1}}]}, "view uses $sample"),
    ],
)
async def test_what_has_no_change_events_cannot_be_tracked(
    recorded: Recorded, data: Any, options: Document | None, reason: str
) -> None:
    if options is not None:
        data.create_collection("view", **options)
    _, found = await recorded.run("{ seen { _id } }")
    assert isinstance(found, str)
    assert found.endswith(reason)


async def test_a_collection_that_is_created_later_can_be_tracked(
    recorded: Recorded, data: Any
) -> None:
    assert isinstance((await recorded.run("{ seen { _id } }"))[1], str)
    data.view.insert_one({"_id": 1, "authorId": 1})
    assert not isinstance((await recorded.run("{ seen { _id } }"))[1], str)


async def test_a_collation_and_a_bounded_collection_have_fewer_keys(
    recorded: Recorded, data: Any
) -> None:
    data.drop_collection("posts")
    data.create_collection("posts", collation={"locale": "en", "strength": 2})
    found = await recorded.find('{ posts(author: 1, tag: "a") { title } }')
    assert found == [("posts", {"authorId": {1}}, set(), False)]
    assert await recorded.find('{ posts(tag: "a") { title } }') == [ALL]
    recorded.sources.forget()
    data.drop_collection("posts")
    data.create_collection("posts", capped=True, size=10_000)
    assert await recorded.find("{ posts(author: 1) { title } }") == [ALL]


async def test_the_collation_of_a_command_applies_to_all_that_it_reads(
    recorded: Recorded, data: Any
) -> None:
    """`$lookup` and `$unionWith` compare texts as the collection of the command does."""
    data.drop_collection("posts")
    data.create_collection("posts", collation={"locale": "en", "strength": 2})
    data.users.insert_one({"_id": 3, "name": "Anna"})
    named = {"coll": "users", "pipeline": [{"$match": {"name": "ANNA"}}]}
    mapping = {"collection": "posts", "stages": [{"$unionWith": named}, {"$sort": {"_id": 1}}]}
    recorded.app = recorded.engine.app(SCHEMA, {"Query": {"joined": mapping}})
    found, dependencies = await recorded.run("{ joined }")
    assert [one["_id"] for one in found["joined"]] == [1, 3]
    assert not isinstance(dependencies, str)
    assert sorted(map(shorten, dependencies), key=repr) == [ALL, ALL_USERS]


async def test_a_relation_is_compared_as_its_own_collection_does(
    recorded: Recorded, data: Any
) -> None:
    """It is not a part of its parent's command if the collations differ."""
    posts = list(data.posts.find())
    data.drop_collection("posts")
    data.create_collection("posts", collation={"locale": "en", "strength": 2})
    data.posts.insert_many([{**one, "authorId": "Anna"} for one in posts])
    data.users.insert_one({"_id": "anna", "name": "anna"})
    found, dependencies = await recorded.run("{ post(id: 1) { author { name } } }")
    assert found == {"post": {"author": None}}
    assert not isinstance(dependencies, str)
    of_author = ("users", {"_id": {"Anna"}}, {"Anna"}, False)
    assert sorted(map(shorten, dependencies), key=repr) == [POST_1, of_author]


# --- with the events of the database --------------------------------------------------------------


@pytest.fixture
def changes(data: Any) -> Iterator[Changes]:
    """The changes from now on."""
    with follow(data) as changes:
        yield changes


Write = Callable[[Any], object]


def write_in_transaction(data: Any) -> None:
    with data.client.start_session() as session, session.start_transaction():
        data.posts.update_one({"_id": 1}, {"$set": {"authorId": 2}}, session=session)
        data.posts.insert_one({"_id": 9, "authorId": 2}, session=session)


# fmt: off
WRITES: dict[str, tuple[Write, set[str]]] = {
    "another document": (
        lambda data: data.posts.update_one({"_id": 2}, {"$set": {"title": "x"}}), {"limited2"},
    ),
    "the document": (
        lambda data: data.posts.update_one({"_id": 1}, {"$set": {"title": "x"}}),
        {"one", "of1", "limited", "count"},
    ),
    "a new document of the key": (
        lambda data: data.posts.insert_one({"authorId": 1}), {"of1", "limited", "count"},
    ),
    "a new document of another key": (
        lambda data: data.posts.insert_one({"authorId": 7}), set(),
    ),
    "a key that changes": (
        lambda data: data.posts.update_one({"_id": 3}, {"$set": {"authorId": 7}}),
        {"of1", "limited", "limited2", "count"},
    ),
    "a deletion of another document": (
        lambda data: data.posts.delete_one({"_id": 3}), {"limited", "limited2", "count"},
    ),
    "a deletion of a document": (
        lambda data: data.posts.delete_one({"_id": 4}), {"of1", "limited", "limited2", "count"},
    ),
    "a replacement of another document": (
        lambda data: data.posts.replace_one({"_id": 3}, {}), {"limited", "limited2", "count"},
    ),
    "a transaction": (write_in_transaction, {"one", "of1", "limited", "limited2", "count"}),
    "a merge": (
        lambda data: data.users.aggregate(
            [{"$project": {"authorId": {"$literal": 1}, "_id": {"$add": ["$_id", 50]}}},
             {"$merge": "posts"}]
        ),
        {"of1", "limited", "count"},
    ),
    "an output into the collection": (
        lambda data: data.users.aggregate([{"$out": "posts"}]),
        {"one", "of1", "limited", "limited2", "count", "users"},
    ),
    "a drop": (
        lambda data: data.posts.drop(), {"one", "of1", "limited", "limited2", "count"},
    ),
    "a rename": (
        lambda data: data.posts.rename("other"),
        {"one", "of1", "limited", "limited2", "count", "users"},
    ),
    "another collection": (lambda data: data.users.insert_one({}), {"users"}),
}
# fmt: on
QUERIES = {
    "one": "{ post(id: 1) { title } }",
    "of1": "{ posts(author: 1) { title } }",
    "limited": "{ posts(author: 1, limit: 1) { title } }",
    "limited2": "{ posts(author: 2, limit: 1) { title } }",
    "count": "{ total(author: 1) }",
    "users": "{ users { name } }",
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_concerns_what_depends_on_it(
    recorded: Recorded, data: Any, changes: Changes, write: str
) -> None:
    index, changed = InvalidationIndex(), set[str]()
    for name, query in QUERIES.items():
        _, found = await recorded.run(query)
        assert not isinstance(found, str)
        index.add(found, lambda name=name: changed.add(name))  # type: ignore[misc]
    run, expected = WRITES[write]
    run(data)
    for facts in changes.read():
        index.apply(facts)
    assert changed == expected
