"""How many commands a query costs, and what they ask for; never one per parent (decision 13)."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.execute import fetch_by_in
from tests.http.engine.harness import Engine

pytestmark = [pytest.mark.anyio, pytest.mark.json]

Client = MongoClient[dict[str, Any]]

SCHEMA = """
type Query {
  post(id: Int!): Post
  posts(limit: Int = 0): [Post]
  users(limit: Int = 0): [User]
}
type Post {
  _id: Int!
  title: String
  author: User
  tagged: [Post]
  after: [Post]
  sameTag(first: Int = 2): [Post]
  siblings: [Post]
  count: Count
}
type User { _id: Int! name: String posts(limit: Int = 3): [Post] }
type Count { n: Int }
"""

MAPPINGS: dict[str, Any] = {
    "Query": {
        "post": {"collection": "posts", "find": {"_id": {"$arg": "id"}}},
        "posts": {
            "collection": "posts",
            "find": {},
            "sort": {"_id": 1},
            "limit": {"$arg": "limit"},
        },
        "users": {
            "collection": "users",
            "find": {},
            "sort": {"_id": 1},
            "limit": {"$arg": "limit"},
        },
    },
    "Post": {
        "author": {"collection": "users", "find": {"_id": {"$fk": "authorId"}}},
        "tagged": {
            "collection": "posts",
            "find": {"tags": {"$in": {"$fk": "tags"}}},
            "sort": {"_id": 1},
        },
        "after": {
            "collection": "posts",
            "find": {"_id": {"$gt": {"$fk": "_id"}}},
            "sort": {"_id": 1},
            "limit": 2,
        },
        "sameTag": {
            "collection": "posts",
            "find": {"tag": {"$fk": "tag"}},
            "sort": {"_id": -1},
            "limit": {"$arg": "first"},
        },
        "siblings": {
            "collection": "posts",
            "find": {"authorId": {"$fk": "authorId"}, "tag": {"$fk": "tag"}},
            "sort": {"_id": 1},
        },
        "count": {
            "collection": "posts",
            "stages": [{"$match": {"authorId": {"$fk": "authorId"}}}, {"$count": "n"}],
        },
    },
    "User": {
        "posts": {
            "collection": "posts",
            "find": {"authorId": {"$fk": "_id"}},
            "sort": {"_id": 1},
            "limit": {"$arg": "limit"},
        }
    },
}


@pytest.fixture
def blog(mongo_client: Client, database: str) -> None:
    """60 posts by 7 authors."""
    db = mongo_client[database]
    db.users.insert_many([{"_id": n, "name": f"user {n}", "secret": "x"} for n in range(7)])
    db.posts.insert_many(
        [
            {
                "_id": n,
                "title": f"post {n}",
                "authorId": n % 7,
                "tag": n % 3,
                "tags": [n % 3, n % 5],
                "body": "long text",
            }
            for n in range(60)
        ]
    )


@pytest.fixture
def app(engine: Engine, blog: None) -> VisibleApp:
    return engine.app(SCHEMA, MAPPINGS)


@pytest.mark.parametrize("parents", [2, 60])
async def test_list_with_to_one_relation_costs_two_commands(
    engine: Engine, app: VisibleApp, parents: int
) -> None:
    data = await engine.data(app, f"{{ posts(limit: {parents}) {{ _id author {{ name }} }} }}")

    assert len(engine.commands) == 2
    assert len(data["posts"]) == parents
    assert all(p["author"]["name"] == f"user {p['_id'] % 7}" for p in data["posts"])


@pytest.mark.parametrize("parents", [2, 60])
async def test_three_levels_cost_three_commands(
    engine: Engine, app: VisibleApp, parents: int
) -> None:
    query = f"{{ posts(limit: {parents}) {{ author {{ _id posts(limit: 2) {{ _id }} }} }} }}"

    data = await engine.data(app, query)

    assert len(engine.commands) == 3
    for post in data["posts"]:
        author = post["author"]["_id"]
        assert [p["_id"] for p in post["author"]["posts"]] == [author, author + 7]


async def test_relation_by_an_array_of_keys_costs_one_command(
    engine: Engine, app: VisibleApp
) -> None:
    data = await engine.data(app, "{ posts(limit: 5) { _id tagged { _id } } }")

    assert len(engine.commands) == 2
    for post in data["posts"]:
        own = {post["_id"] % 3, post["_id"] % 5}
        expected = [n for n in range(60) if own & {n % 3, n % 5}]
        assert [p["_id"] for p in post["tagged"]] == expected


async def test_relation_by_two_keys_costs_one_command(engine: Engine, app: VisibleApp) -> None:
    data = await engine.data(app, "{ posts(limit: 5) { _id siblings { _id } } }")

    assert len(engine.commands) == 2
    for post in data["posts"]:
        expected = [n for n in range(60) if n % 21 == post["_id"]]
        assert [p["_id"] for p in post["siblings"]] == expected


async def test_key_under_another_operator_is_one_command_of_tagged_branches(
    engine: Engine, app: VisibleApp
) -> None:
    data = await engine.data(app, "{ posts(limit: 20) { _id after { _id } } }")

    assert [next(iter(command)) for command in engine.commands] == ["find", "aggregate"]
    for post in data["posts"]:
        assert [p["_id"] for p in post["after"]] == [post["_id"] + 1, post["_id"] + 2]


async def test_equal_pipelines_run_once_and_different_ones_together(
    engine: Engine, app: VisibleApp
) -> None:
    data = await engine.data(app, "{ posts(limit: 60) { count { n } } }")

    assert len(engine.commands) == 2
    branches = [stage for stage in engine.commands[1]["pipeline"] if "$unionWith" in stage]
    assert len(branches) == 6
    assert [post["count"]["n"] for post in data["posts"][:7]] == [9, 9, 9, 9, 8, 8, 8]


async def test_result_that_a_bound_cut_short_is_fetched_another_way(
    engine: Engine, app: VisibleApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 13: 60 documents for three keys do not fit into the first try of 30."""
    monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 30)

    data = await engine.data(app, "{ posts(limit: 3) { _id sameTag(first: 2) { _id } } }")

    assert [next(iter(command)) for command in engine.commands] == ["find", "find", "aggregate"]
    assert any("$lookup" in stage for stage in engine.commands[-1]["pipeline"])
    assert [[p["_id"] for p in post["sameTag"]] for post in data["posts"]] == [
        [57, 54],
        [58, 55],
        [59, 56],
    ]


@pytest.mark.parametrize(("tried", "first"), [(60, 2), (1, 20)])
async def test_result_that_fills_the_first_try_exactly_is_fetched_once(
    engine: Engine, app: VisibleApp, monkeypatch: pytest.MonkeyPatch, tried: int, first: int
) -> None:
    """Decision 13: three keys have 60 documents; so many may come, or may be asked for."""
    monkeypatch.setattr(fetch_by_in, "FIRST_TRY", tried)

    await engine.data(app, f"{{ posts(limit: 3) {{ _id sameTag(first: {first}) {{ _id }} }} }}")

    assert [next(iter(command)) for command in engine.commands] == ["find", "find"]


async def test_large_relation_is_spared_the_first_try_next_time(
    engine: Engine, app: VisibleApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 30)
    plan = engine.plan(app, "{ posts(limit: 3) { sameTag(first: 2) { _id } } }")

    first = await engine.execute(plan)
    again = await engine.execute(plan)

    assert [next(iter(command)) for command in engine.commands] == ["find", "aggregate"]
    assert again.data == first.data


@pytest.mark.parametrize("key", [[0], "(", {"a": 1}])
async def test_large_relation_with_odd_keys_gives_the_same_answer(
    engine: Engine,
    app: VisibleApp,
    mongo_client: Client,
    monkeypatch: pytest.MonkeyPatch,
    key: Any,
) -> None:
    """`$lookup` would take an array apart."""
    monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 1)
    mongo_client[engine.database].posts.update_one({"_id": 1}, {"$set": {"tag": key}})

    data = await engine.data(app, "{ posts(limit: 3) { sameTag(first: 1) { _id } } }")

    assert [[p["_id"] for p in post["sameTag"]] for post in data["posts"]] == [[57], [1], [59]]


async def test_a_document_that_memory_cannot_assign_is_joined_by_the_database(
    engine: Engine, mongo_client: Client
) -> None:
    """Of a whole document, the database compares the first property of a name, memory the last."""
    schema = """type Query { people: [Person] person(id: Int): Person }
    type Person { _id: Int notes: [BsonDocument] note: BsonDocument count: Int }"""
    own: dict[str, Any] = {"collection": "notes", "find": {"of": {"$fk": "_id"}}}
    one = {**own, "sort": {"_id": 1}}
    people = {"collection": "people", "find": {}, "sort": {"_id": 1}}
    mappings = {
        "Query": {"people": people, "person": {**people, "find": {"_id": {"$arg": "id"}}}},
        "Person": {"notes": one, "note": one, "count": {**own, "count": True}},
    }
    db = mongo_client[engine.database]
    db.people.insert_many({"_id": number} for number in range(3))
    twice = [{"_id": number, "of": number % 3} for number in range(6)]
    parts = [bson.encode(one)[4:-1] + bson.encode({"of": "x"})[4:] for one in twice]
    db.notes.insert_many(
        RawBSONDocument((len(one) + 4).to_bytes(4, "little") + one) for one in parts
    )
    app = engine.app(schema, mappings)

    fields = "{ _id notes note count }"
    found = await engine.data(app, f"{{ people {fields} }}")
    single = [await engine.data(app, f"{{ person(id: {n}) {fields} }}") for n in range(3)]

    assert found["people"] == [one["person"] for one in single]
    assert [one["count"] for one in found["people"]] == [2, 2, 2]
    assert [one["notes"][0]["_id"] for one in found["people"]] == [0, 1, 2]


async def test_one_document_and_its_to_one_relation_cost_one_command(
    engine: Engine, app: VisibleApp
) -> None:
    query = "query ($id: Int!) { post(id: $id) { title author { name } } }"

    data = await engine.data(app, query, {"id": 9})

    assert data == {"post": {"title": "post 9", "author": {"name": "user 2"}}}
    assert [next(iter(command)) for command in engine.commands] == ["aggregate"]


async def test_a_plan_with_a_folded_relation_is_used_again(engine: Engine, app: VisibleApp) -> None:
    """What does not depend on variables is prepared once."""
    plan = engine.plan(app, "query ($id: Int!) { post(id: $id) { title author { name } } }")
    pipelines = []
    for number, author in ((9, 2), (10, 3), (9, 2)):
        result = await engine.execute(plan, {"id": number})
        expected = {"post": {"title": f"post {number}", "author": {"name": f"user {author}"}}}
        assert result.data == expected
        pipelines.append(engine.commands[-1]["pipeline"])

    assert [one[0]["$match"]["_id"] for one in pipelines] == [9, 10, 9]
    assert pipelines[0] == pipelines[2]
    assert pipelines[0][1:] == pipelines[1][1:]


@pytest.mark.parametrize(
    ("key", "author"), [(None, None), ([1], None), (99, None), (3.0, "user 3")]
)
async def test_folding_never_changes_the_answer(
    engine: Engine, app: VisibleApp, mongo_client: Client, key: Any, author: str | None
) -> None:
    """`$lookup` would join a null with a missing field, and an array by its elements."""
    mongo_client[engine.database].posts.insert_one({"_id": 100, "authorId": key})

    data = await engine.data(app, "{ post(id: 100) { author { name } } }")

    assert data == {"post": {"author": author and {"name": author}}}


async def test_missing_key_sends_no_query(
    engine: Engine, app: VisibleApp, mongo_client: Client
) -> None:
    """Decision 11."""
    mongo_client[engine.database].posts.update_many({}, {"$unset": {"authorId": 1}})
    mongo_client[engine.database].users.insert_one({"name": "no id"})

    data = await engine.data(app, "{ posts(limit: 5) { author { name } count { n } } }")

    assert data["posts"] == [{"author": None, "count": None}] * 5
    assert len(engine.commands) == 1


async def test_only_needed_fields_are_fetched(engine: Engine, app: VisibleApp) -> None:
    """Decision 15: what is selected, and what the relation needs; no `_id` unless it is needed."""
    await engine.data(app, "{ posts(limit: 5) { title author { name } } }")

    posts, users = engine.commands
    assert posts["projection"] == {"authorId": 1, "title": 1, "_id": 0}
    assert users["projection"] == {"_id": 1, "name": 1}


async def test_every_command_says_whose_it_is(engine: Engine, app: VisibleApp) -> None:
    await engine.run(app, "query Blog { posts(limit: 2) { author { name } } }")

    comments = [dict(command["comment"]) for command in engine.commands]
    assert len({comment.pop("read") for comment in comments}) == 2  # each has a mark of its own
    assert comments == [
        {"app": "test", "operation": "Blog", "field": name, "request": "request-1"}
        for name in ("Query.posts", "Post.author")
    ]


async def test_a_long_name_is_cut_where_every_command_carries_it(
    engine: Engine, app: VisibleApp
) -> None:
    await engine.run(app, f"query {'B' * 10_000} {{ posts(limit: 2) {{ title }} }}")

    (command,) = engine.commands
    assert command["comment"]["operation"] == "B" * 200


async def test_statistics_name_commands_and_documents(engine: Engine, app: VisibleApp) -> None:
    result = await engine.run(app, "{ posts(limit: 5) { author { name } } }")

    assert [(c.field, c.kind, c.documents) for c in result.commands] == [
        ("Query.posts", "find", 5),
        ("Post.author", "find", 5),
    ]
    assert result.documents == 10


@pytest.mark.parametrize(
    ("loader", "commands"),
    [
        ({"batching": False}, 8),
        ({"batching": False, "caching": False}, 21),
        ({"maxBatchSize": 3}, 4),
        ({"batching": True}, 2),
        ({"batching": True, "caching": False}, 2),
    ],
)
async def test_data_loader_rules_the_commands_of_a_field(
    engine: Engine, blog: None, loader: dict[str, Any], commands: int
) -> None:
    """Decision 13: seven different keys of twenty parents."""
    author = {**MAPPINGS["Post"]["author"], "dataLoader": loader}
    app = engine.app(SCHEMA, {**MAPPINGS, "Post": {**MAPPINGS["Post"], "author": author}})

    data = await engine.data(app, "{ posts(limit: 20) { _id author { name } } }")

    assert len(engine.commands) == commands
    assert all(p["author"]["name"] == f"user {p['_id'] % 7}" for p in data["posts"])


def count_keys(value: Any) -> list[int]:
    """The lengths of all lists of `$in` in a command."""
    if isinstance(value, dict):
        own = [len(value["$in"])] if "$in" in value else []
        return own + [count for inner in value.values() for count in count_keys(inner)]
    inner = value if isinstance(value, list) else []
    return [count for one in inner for count in count_keys(one)]


@pytest.mark.parametrize("field", ["tagged", "siblings", "author", "mixed"])
@pytest.mark.parametrize("is_default", [False, True], ids=["maxBatchSize", "no maxBatchSize"])
async def test_no_command_has_more_keys_than_its_bound(
    engine: Engine, blog: None, monkeypatch: pytest.MonkeyPatch, field: str, is_default: bool
) -> None:
    """Parents with several keys, several joins, one key: with the bound of the mapping and ours."""
    monkeypatch.setattr(fetch_by_in, "MAX_KEYS", 3 if is_default else 1000)
    loader = {} if is_default else {"dataLoader": {"maxBatchSize": 3}}
    both = {"tags": {"$in": {"$fk": "tags"}}, "authorId": {"$fk": "authorId"}}
    post = {**MAPPINGS["Post"], "mixed": {**MAPPINGS["Post"]["tagged"], "find": both}}
    schema = SCHEMA.replace("tagged:", "mixed: [Post] tagged:")
    own = {**post, field: {**post[field], **loader}}
    app = engine.app(schema, {**MAPPINGS, "Post": own})
    query = f"{{ posts(limit: 30) {{ _id {field} {{ _id }} }} }}"

    bounded = await engine.data(app, query)
    counts = [count for command in engine.commands for count in count_keys(dict(command))]
    monkeypatch.setattr(fetch_by_in, "MAX_KEYS", 1000)
    free = await engine.data(engine.app(schema, {**MAPPINGS, "Post": post}), query)

    assert len(counts) > 1
    assert max(counts) <= 3
    assert bounded == free


async def test_siblings_of_one_level_share_nothing_but_time(
    engine: Engine, app: VisibleApp
) -> None:
    query = "{ a: posts(limit: 1) { _id } b: posts(limit: 2) { _id } c: users(limit: 1) { _id } }"

    data = await engine.data(app, query)

    assert list(data) == ["a", "b", "c"]
    assert len(engine.commands) == 3


@pytest.mark.usefixtures("blog")
@pytest.mark.parametrize(
    ("field", "needed", "is_large", "command"),
    [
        ("sameTag(first: 2)", 9, True, "aggregate"),
        ("sameTag(first: 2)", 9, False, "find"),
        ("siblings", 12, False, "find"),
        ("author", 6, False, "find"),
    ],
    ids=["by $lookup", "by $in", "by two keys", "to one"],
)
async def test_documents_of_a_relation_count_against_the_bound_of_the_query(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    field: str,
    needed: int,
    is_large: bool,
    command: str,
) -> None:
    """Three posts, and for each the documents of the relation."""
    if is_large:
        monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 1)
        monkeypatch.setattr(fetch_by_in, "LARGEST_TRY", 1)
    query = f"{{ posts(limit: 3) {{ {field} {{ _id }} }} }}"

    app = engine.app(SCHEMA, MAPPINGS, fetched_documents=needed - 1)
    with pytest.raises(OperationRefused) as refused:
        await engine.run(app, query)
    assert refused.value.errors[0].code == "too-many-documents"
    assert next(iter(engine.commands[-1])) == command

    app = engine.app(SCHEMA, MAPPINGS, fetched_documents=needed)
    assert len((await engine.data(app, query))["posts"]) == 3
