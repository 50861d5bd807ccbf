"""Connections over HTTP: roles, keys, cursors of others, totals, and definitions that are wrong."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.exchange.errors import DefinitionError
from docgraph.server.builtin import BUILTIN
from tests.http.access_harness import TestCaller, caller
from tests.http.harness import (
    Document,
    Mongo,
    Reply,
    Service,
    build_definition,
    failing,
    profiled,
    running,
)
from tests.http.hosts import module_application

pytestmark = [pytest.mark.anyio, pytest.mark.json]

SCHEMA = """
type Post { id: Int title: String salary: Int @visible(roles: ["boss"]) author: Int }
type User { id: Int posts: [Post!]! }
type Draft { body: String @visible(roles: ["boss"]) }
type Query {
  posts(status: String): [Post!]!
  bySalary: [Post!]!
  users: [User!]!
  drafts: [Draft!]!
}
"""
POSTS = [
    {"_id": n, "title": "abc"[n % 3], "salary": n * 1000, "author": n % 3, "status": "new"}
    for n in range(9)
]
KEYS = [letter * 40 for letter in "abc"]
BOSS, CLERK = caller("ada", "boss"), caller("bob", "clerk")


def build_mappings(service: Service) -> Document:
    """Lists of posts with pages."""
    page: Document = {"connection": {}, "orderBy": {"fields": ["title", "salary"]}}
    page["filter"] = {"fields": {"title": ["eq"], "salary": ["range"]}}
    status = {"$ifarg": ["status", {"status": {"$arg": "status"}}]}
    return {
        "Post": {"id": "_id"},
        "User": {
            "id": "_id",
            "posts": service.find("posts", {"author": {"$fk": "_id"}}, sort={"title": 1}, **page),
        },
        "Query": {
            "posts": service.find("posts", status, sort={"title": 1}, **page),
            "bySalary": service.find("posts", {}, sort={"salary": -1}, connection={}),
            "users": service.find("users", {}, sort={"_id": 1}),
            "drafts": service.find("drafts", {}, connection={}),
        },
    }


async def prepare(service: Service) -> None:
    service.insert("posts", *POSTS)
    service.insert("users", *({"_id": n} for n in range(3)))
    for name in ("blog", "other"):
        await service.define(name, SCHEMA, build_mappings(service))


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    options: Document = {"plugins": (*BUILTIN, TestCaller)}
    async with running(mongo_client, mongo_uri, **options) as service:
        await prepare(service)
        yield service


def ask(field: str, selection: str = "nodes { id } pageInfo { endCursor hasNextPage }") -> str:
    return f"query ($after: String) {{ {field} {{ {selection} }} }}"


async def read_cursor(service: Service, field: str, headers: Any = BOSS, app: str = "blog") -> str:
    """The last cursor of a page of two items."""
    query = ask(f"{field}(first: 2, after: $after)")
    data = (await service.query(app, query, headers=headers)).data
    cursor: str = data[field]["pageInfo"]["endCursor"]
    return cursor


# --- clients --------------------------------------------------------------------------------------


async def test_a_client_pages_while_documents_are_inserted(service: Service) -> None:
    """As Apollo, urql and Relay do it: `after` is the previous `endCursor`, until the end."""
    query = "query ($after: String) { posts(first: 2, after: $after, orderBy: [{title: DESC}]) {"
    query += " edges { cursor node { id } } pageInfo { hasNextPage endCursor } } }"
    found: list[int] = []
    after, number = None, 100
    while True:
        page = (await service.query("blog", query, {"after": after}, headers=BOSS)).data["posts"]
        found += [edge["node"]["id"] for edge in page["edges"]]
        assert page["edges"][-1]["cursor"] == page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
        after = page["pageInfo"]["endCursor"]
        service.insert("posts", {"_id": number, "title": "z"})  # before all that is still to come
        number += 1
    service.mongo[service.db].posts.delete_many({"_id": {"$gte": 100}})

    assert found == [8, 5, 2, 7, 4, 1, 6, 3, 0]


async def test_where_and_order_by_choose_the_pages(service: Service) -> None:
    query = ask(
        'posts(where: {title: {eq: "a"}}, orderBy: [{salary: DESC}], first: 2, after: $after)',
        "nodes { id } totalCount pageInfo { endCursor }",
    )

    first = (await service.query("blog", query, headers=BOSS)).data["posts"]
    after = first["pageInfo"]["endCursor"]
    second = (await service.query("blog", query, {"after": after}, headers=BOSS)).data["posts"]

    assert [node["id"] for node in (*first["nodes"], *second["nodes"])] == [6, 3, 0]
    assert first["totalCount"] == second["totalCount"] == 3


async def test_variables_inside_of_literals_belong_to_the_list(service: Service) -> None:
    """A cursor is bound to values, wherever in the request they are."""
    literal = ask('posts(where: {title: {eq: "a"}}, first: 1, after: $after)')
    inside = literal.replace("$after: String", "$after: String, $title: String").replace(
        '"a"', "$title"
    )
    after = (await service.query("blog", literal, headers=BOSS)).data["posts"]["pageInfo"][
        "endCursor"
    ]

    for title, code in (("a", None), ("b", "bad-cursor")):
        given = {"after": after, "title": title}
        reply = await service.query("blog", inside, given, headers=BOSS)
        assert (reply.code if "errors" in reply.json else None) == code


async def test_pages_of_arrays_follow_a_collation(service: Service) -> None:
    """The sort key that the database shows there has no stored texts, not even of `_id`."""
    collation = {"locale": "en", "strength": 1}
    service.mongo[service.db].create_collection("words", collation=collation)
    words = [["b", "D"], ["B"], "c", "A", ["a", "z"], "b"]
    service.insert("words", *({"_id": f"i{n}", "words": one} for n, one in enumerate(words)))
    schema = "type Word { id: ID } type Query { words: [Word!]! }"
    pages = service.find("words", {}, sort={"words": 1}, connection={})
    await service.define("words", schema, {"Word": {"id": "_id"}, "Query": {"words": pages}})
    query = ask("words(first: 1, after: $after)")
    found, after = [], None
    for _ in words:
        page = (await service.query("words", query, {"after": after}, headers=BOSS)).data["words"]
        found += [node["id"] for node in page["nodes"]]
        after = page["pageInfo"]["endCursor"]

    assert found == ["i3", "i4", "i0", "i1", "i5", "i2"]
    assert not page["pageInfo"]["hasNextPage"]


# --- cursors of others ----------------------------------------------------------------------------

BOUND = {
    "another field": "bySalary(after: $after)",
    "another argument": 'posts(status: "new", after: $after)',
    "another where": 'posts(where: {title: {eq: "a"}}, after: $after)',
    "another order": "posts(orderBy: [{title: DESC}], after: $after)",
    "before, too": "posts(orderBy: [{title: DESC}], last: 2, before: $after)",
}


@pytest.mark.parametrize("field", BOUND.values(), ids=BOUND)
async def test_a_cursor_is_rejected_by_another_query(service: Service, field: str) -> None:
    after = await read_cursor(service, "posts")

    reply = await service.query("blog", ask(field), {"after": after}, headers=BOSS)

    assert reply.code == "bad-cursor"
    assert reply.error["path"] == [field.partition("(")[0]]
    assert reply.error["locations"] == [{"line": 1, "column": 26}]
    assert after not in reply.text


async def test_a_cursor_is_rejected_by_another_app_and_another_role(service: Service) -> None:
    after = await read_cursor(service, "posts")
    own = ask("posts(after: $after)")

    assert (await service.query("blog", own, {"after": after}, headers=BOSS)).data
    for app, headers in (("other", BOSS), ("blog", CLERK), ("blog", None)):
        reply = await service.query(app, own, {"after": after}, headers=headers)
        assert reply.code == "bad-cursor"


def build_bait(service: Service, id: Any, collection: str) -> Document:
    """A definition that would read a cursor of `bySalary` of the app 5, and compare its salary."""
    mappings = build_mappings(service)
    mappings["Query"]["bySalary"] = service.find(collection, {}, sort={"salary": -1}, connection={})
    return build_definition(id, SCHEMA, mappings, uri="five")


async def test_a_cursor_is_rejected_by_a_definition_that_only_looks_like_its_own(
    service: Service,
) -> None:
    """An app with another type of `_id`, another collection, and drafts of the same `_id`."""
    service.insert("known", *({"_id": n, "salary": n * 500} for n in range(20)))
    query, root = ask("bySalary(first: 2, after: $after)"), caller("root", "admin", "boss")
    await service.store(build_bait(service, 5, "posts"))
    stored = await read_cursor(service, "bySalary", root, app="five")
    draft = build_bait(service, 5, "posts")

    async def try_draft(definition: Document, after: str | None) -> Reply:
        body = {"definition": definition, "query": query, "variables": {"after": after}}
        return await service.request("POST", "/_tools/draft", json=body, headers=root)

    async def estimate(definition: Document, after: str) -> Reply:
        body = {"definition": definition, "query": query, "variables": {"after": after}}
        return await service.request("POST", "/_tools/plan", json=body, headers=root)

    for definition in (draft, build_bait(service, 5, "known"), build_bait(service, "5", "known")):
        assert (await try_draft(definition, stored)).code == "bad-cursor"
        assert "bad-cursor" in (await estimate(definition, stored)).text
    first = await try_draft(draft, None)
    own = first.data["bySalary"]["pageInfo"]["endCursor"]
    assert (await try_draft(draft, own)).data["bySalary"]["nodes"] == [{"id": 6}, {"id": 5}]
    reply = await service.query("five", query, {"after": own}, headers=root)
    assert reply.code == "bad-cursor"

    await service.store(build_bait(service, 5, "known"))
    assert (
        await service.query("five", query, {"after": stored}, headers=root)
    ).code == "bad-cursor"
    await service.remove(5)
    await service.store(build_bait(service, "5", "posts"))
    assert (
        await service.query("five", query, {"after": stored}, headers=root)
    ).code == "bad-cursor"
    await service.remove("5")


async def test_a_changed_cursor_is_rejected(service: Service) -> None:
    after = await read_cursor(service, "posts")
    raw = urlsafe_b64decode(after + "=" * (-len(after) % 4))
    changed = [raw[:n] + bytes([raw[n] ^ 1]) + raw[n + 1 :] for n in range(0, len(raw), 7)]
    changed += [raw[:-1], raw + b"x", raw[16:] + raw[:16], b"", bytes(len(raw))]
    texts = [urlsafe_b64encode(one).rstrip(b"=").decode() for one in changed]
    texts += [f"{after}!", f" {after}", f"{after}==", after[:-1], "é", "\x00", "x" * 100_000]

    for text in texts:
        reply = await service.query(
            "blog", ask("posts(after: $after)"), {"after": text}, headers=BOSS
        )
        assert reply.code == "bad-cursor", text[:100]


async def test_a_cursor_shows_nothing_of_a_hidden_sort_key(service: Service) -> None:
    """The clerk does not see salaries, and pages by them."""
    query = ask("bySalary(after: $after)", "edges { cursor node { id } }")
    edges = (await service.query("blog", query, headers=CLERK)).data["bySalary"]["edges"]
    cursors = [edge["cursor"] for edge in edges]

    assert len({len(cursor) for cursor in cursors}) == 1
    assert len(set(cursors)) == len(POSTS)
    for post, cursor in zip(reversed(POSTS), cursors, strict=True):
        raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        assert str(post["salary"]).encode() not in raw or post["salary"] == 0
    reply = await service.query("blog", query, {"after": cursors[3]}, headers=CLERK)
    assert [edge["node"]["id"] for edge in reply.data["bySalary"]["edges"]] == [4, 3, 2, 1, 0]


# --- what a role does not see ---------------------------------------------------------------------


async def test_a_connection_of_a_hidden_type_does_not_exist(service: Service) -> None:
    """Decision 20: without its items there is nothing to page through."""
    types = '{ __type(name: "DraftConnection") { name } }'

    assert (await service.query("blog", "{ drafts { totalCount } }", headers=BOSS)).data
    assert (await service.query("blog", types, headers=BOSS)).data["__type"] is not None
    reply = await service.query("blog", "{ drafts { totalCount } }", headers=CLERK)
    assert reply.messages == ["Cannot query field 'drafts' on type 'Query'."]
    assert (await service.query("blog", types, headers=CLERK)).data["__type"] is None


async def test_pages_are_ordered_and_filtered_by_visible_fields_only(service: Service) -> None:
    for arguments in ("orderBy: [{salary: ASC}]", "where: {salary: {gt: 1}}"):
        query = f"{{ posts({arguments}) {{ totalCount }} }}"
        assert (await service.query("blog", query, headers=BOSS)).data
        assert (await service.query("blog", query, headers=CLERK)).status == 400


# --- totals ---------------------------------------------------------------------------------------


async def test_a_slow_total_is_null_with_an_error(mongo_client: Mongo, mongo_uri: str) -> None:
    limit = {"graphql": {"count-time-limit": 20}}
    async with running(mongo_client, mongo_uri, limit) as service:
        await prepare(service)
        slow = {"blockConnection": True, "blockTimeMS": 300}
        with failing(mongo_client, "aggregate", **slow):
            reply = await service.query("blog", "{ posts(first: 1) { totalCount nodes { id } } }")
            below = await service.query("blog", "{ users { posts(first: 1) { totalCount } } }")

    assert reply.json["data"] == {"posts": {"totalCount": None, "nodes": [{"id": 0}]}}
    assert reply.code == "count-too-slow"
    assert reply.error["path"] == ["posts", "totalCount"]
    assert "20 ms (graphql.count-time-limit)" in reply.error["message"]
    assert [user["posts"] for user in below.json["data"]["users"]] == [{"totalCount": None}] * 3
    assert {error["extensions"]["code"] for error in below.errors} == {"count-too-slow"}


# --- keys -----------------------------------------------------------------------------------------


async def test_instances_share_the_key_that_the_first_one_made(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with running(mongo_client, mongo_uri) as one:
        await prepare(one)
        async with running(mongo_client, mongo_uri, db=one.db, drop=False) as two:
            cursors = await asyncio.gather(
                *(read_cursor(service, "posts", None) for service in (one, two, one, two))
            )
            (stored,) = mongo_client[one.db]["_cursorKeys"].find()
            assert len(set(cursors)) == 1
            assert [len(key) for key in stored["keys"]] == [64]
            query = ask("posts(after: $after)")
            assert (await two.query("blog", query, {"after": cursors[0]})).data
        async with running(mongo_client, mongo_uri, db=one.db, drop=False) as again:
            assert (await again.query("blog", query, {"after": cursors[0]})).data


async def test_many_requests_load_the_key_once(mongo_client: Mongo, mongo_uri: str) -> None:
    async with running(mongo_client, mongo_uri) as service:
        await prepare(service)
        with profiled(mongo_client, service.db, "_cursorKeys") as seen:
            await asyncio.gather(*(read_cursor(service, "posts", None) for _ in range(8)))
    assert [one["op"] for one in seen] == ["query", "insert"]


async def test_a_stored_key_that_is_wrong_is_a_field_error(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with running(mongo_client, mongo_uri) as service:
        await prepare(service)
        mongo_client[service.db]["_cursorKeys"].insert_one({"_id": "cursors", "keys": [b"short"]})
        reply = await service.query("blog", ask("posts(first: 1, after: $after)"))
        assert reply.code == "no-cursor-key"
        assert (await service.query("blog", ask("posts(after: $after)", "nodes { id }"))).data


async def test_a_new_stored_key_is_noticed_and_the_previous_one_accepted(
    mongo_client: Mongo, mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docgraph.graphql.execute.pages._RELOAD_SECONDS", 0.0)
    query = ask("posts(after: $after)")
    async with running(mongo_client, mongo_uri) as old:
        await prepare(old)
        before = await read_cursor(old, "posts", None)
        keys = mongo_client[old.db]["_cursorKeys"]
        keys.update_one({}, {"$push": {"keys": {"$each": [b"n" * 64], "$position": 0}}})
        async with running(mongo_client, mongo_uri, db=old.db, drop=False) as new:
            after = await read_cursor(new, "posts", None)
            assert after != before
            assert (await new.query("blog", query, {"after": before})).data
            assert (await old.query("blog", query, {"after": after})).data


@pytest.mark.parametrize(
    ("keys", "accepts"),
    [((0, None), True), ((1, 0), True), ((1, 2), False), ((1, None), False)],
)
async def test_two_configured_keys_are_valid_during_a_change(
    mongo_client: Mongo, mongo_uri: str, keys: tuple[int, int | None], accepts: bool
) -> None:
    first = {"graphql": {"cursor-key": KEYS[0]}}
    current, previous = keys
    other: Document = {"graphql": {"cursor-key": KEYS[current]}}
    if previous is not None:
        other["graphql"]["previous-cursor-key"] = KEYS[previous]
    async with running(mongo_client, mongo_uri, first) as one:
        await prepare(one)
        after = await read_cursor(one, "posts", None)
        assert "_cursorKeys" not in mongo_client[one.db].list_collection_names()
        async with running(mongo_client, mongo_uri, other, db=one.db, drop=False) as two:
            reply = await two.query("blog", ask("posts(after: $after)"), {"after": after})

    assert ("errors" not in reply.json) is accepts


# --- definitions ----------------------------------------------------------------------------------

WRONG: dict[str, tuple[str, Document, str]] = {
    "no list": ("post: Post", {}, "Query.post.connection: a connection needs a list of objects"),
    "a list of scalars": ("post: [Int]", {}, "Query.post.connection: a connection needs a list"),
    "no object": ("post: [Post]", {"connection": 1}, "Query.post.connection: must be an object"),
    "limit": ("post: [Post]", {"limit": 5}, "Query.post.limit: has no effect with connection"),
    "skip": ("post: [Post]", {"skip": 5}, "Query.post.skip: has no effect with connection"),
    "natural": ("post: [Post]", {"sort": {"$natural": 1}}, "Query.post.sort: a connection cannot"),
    "argument": ("post(first: String): [Post]", {}, "needs an argument first of the type Int"),
    "bad name": ("post: [Post]", {"connection": {"field": "a b"}}, "must be the name of a field"),
    "known name": (
        "post: [Post] more: Int",
        {"connection": {"field": "more"}},
        "the type Query already has a field more",
    ),
    "own type": (
        "post: [Post] } type PostConnection { a: Int",
        {},
        "generates the type PostConnection, which the schema has with another shape",
    ),
    "own page": (
        "post: [Post] } type PageInfo { a: Int",
        {},
        "generates the type PageInfo, which the schema has with another shape",
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
async def test_a_wrong_connection_is_rejected_when_it_is_written(
    service: Service, case: tuple[str, Document, str]
) -> None:
    """Decisions 7 and 56."""
    fields, parts, message = case
    schema = f"type Post {{ id: Int }} type Query {{ {fields} }}"
    mapping = {**service.find("posts", {}), "connection": {}, **parts}

    with pytest.raises(DefinitionError, match=message.replace("(", r"\(")):
        await service.store(build_definition("wrong", schema, {"Query": {"post": mapping}}))


async def test_types_of_the_same_shape_may_be_written_by_the_author(service: Service) -> None:
    """Decision 56: and the stored text stays as written."""
    schema = """
    type Post { id: Int }
    type PostEdge { cursor: String! node: Post! }
    type PostConnection { edges: [PostEdge!]! nodes: [Post!]! pageInfo: PageInfo! totalCount: Int }
    type PageInfo {
      hasNextPage: Boolean! hasPreviousPage: Boolean! startCursor: String endCursor: String
    }
    type Query { posts(first: Int = 3): [Post!]! }
    """
    posts = service.find("posts", {}, connection={})
    mappings: Document = {"Post": {"id": "_id"}, "Query": {"posts": posts}}
    await service.define("own", schema, mappings)

    data = (await service.query("own", "{ posts { nodes { id } totalCount } }")).data["posts"]

    assert [node["id"] for node in data["nodes"]] == [0, 1, 2]
    assert data["totalCount"] == 9
    assert service.definitions.find_one({"_id": "own"})["schema"] == schema


async def test_an_index_without_the_tie_break_is_reported(service: Service) -> None:
    service.mongo[service.db].ranked.create_index({"rank": -1})
    schema = "type Post { id: Int } type Query { posts: [Post!]! }"
    ranked = service.find("ranked", {}, sort={"rank": -1}, connection={})

    result = await service.define("ranked", schema, {"Query": {"posts": ranked}})

    (warning,) = result.warnings
    assert "every page of the connection sorts all that matches" in str(warning)
    assert "make an index {rank: -1, _id: -1}" in str(warning)
