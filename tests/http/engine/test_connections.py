"""Connections: pages, positions, totals, and the commands that they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import bson
import pytest
from bson import Binary, MinKey
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database

from docgraph.exchange import Permission
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.errors import OperationRefused
from tests.http.engine.harness import Engine, codes

Document = dict[str, Any]

pytestmark = [pytest.mark.anyio, pytest.mark.json]

SCHEMA = """
type User { id: Int name: String posts: [Post!]! latest: [Post!]! boss: User }
type Post { id: Int title: String author: User root: [Post!] }
type Query { posts(status: String): [Post!]! users: [User!]! byRank: [Post!]! deep: [Post!]! }
"""
MAPPINGS: dict[str, Any] = {
    "User": {
        "id": "_id",
        "posts": {
            "collection": "posts",
            "find": {"author": {"$fk": "_id"}},
            "sort": {"title": 1},
            "connection": {},
        },
        "latest": {
            "collection": "posts",
            "find": {"author": {"$fk": "_id"}},
            "sort": {"title": -1},
            "limit": 1,
            "connection": {"field": "latestPages"},
        },
    },
    "Post": {
        "id": "_id",
        "author": {"collection": "users", "find": {"_id": {"$fk": "author"}}},
        "root": {
            "collection": "posts",
            "find": {"_id": {"$arg": "rootDoc._id"}},
        },
    },
    "Query": {
        "posts": {
            "collection": "posts",
            "find": {"$ifarg": ["status", {"status": {"$arg": "status"}}]},
            "sort": {"title": 1},
            "connection": {},
        },
        "users": {"collection": "users", "sort": {"_id": 1}},
        "byRank": {"collection": "posts", "sort": {"rank": 1}, "connection": {}},
        "deep": {"collection": "posts", "sort": {"a.b": 1}, "connection": {}},
    },
}
POSTS = [
    {"_id": n, "title": "abc"[n % 3], "author": n % 4, "status": "new" if n % 2 else "old"}
    for n in range(12)
]
BY_TITLE = [post["_id"] for post in sorted(POSTS, key=lambda one: (one["title"], one["_id"]))]


@pytest.fixture
def stored(mongo_client: MongoClient[Document], engine: Engine) -> Database[Document]:
    """The database of the engine, with posts and users."""
    database = mongo_client[engine.database]
    database.posts.insert_many(POSTS)
    database.users.insert_many([{"_id": n, "name": f"user {n}"} for n in range(4)])
    return database


@pytest.fixture
def app(engine: Engine, stored: Database[Document]) -> VisibleApp:
    """The app of this module."""
    return engine.app(SCHEMA, MAPPINGS)


PAGE = (
    "edges { cursor node { id } } nodes { id } totalCount"
    " pageInfo { hasNextPage hasPreviousPage startCursor endCursor }"
)


async def read(
    engine: Engine, app: VisibleApp, field: str = "posts", **arguments: Any
) -> Mapping[str, Any]:
    """A page of a field of Query."""
    given = ", ".join(
        f"{name}: {value}" if isinstance(value, int) else f'{name}: "{value}"'
        for name, value in arguments.items()
    )
    shown = f"({given})" if given else ""
    data = await engine.data(app, f"{{ {field}{shown} {{ {PAGE} }} }}")
    page: Document = data[field]
    assert page["nodes"] == [edge["node"] for edge in page["edges"]]
    return page


def ids(page: Mapping[str, Any]) -> list[int]:
    return [node["id"] for node in page["nodes"]]


async def test_pages_forward_have_every_item_once(engine: Engine, app: VisibleApp) -> None:
    page = await read(engine, app, first=5)
    found, previous = ids(page), [page["pageInfo"]["hasPreviousPage"]]
    while page["pageInfo"]["hasNextPage"]:
        page = await read(engine, app, first=5, after=page["pageInfo"]["endCursor"])
        found += ids(page)
        previous.append(page["pageInfo"]["hasPreviousPage"])

    assert found == BY_TITLE
    assert previous == [False, True, True]
    assert page["totalCount"] == 12
    assert page["pageInfo"]["endCursor"] == page["edges"][-1]["cursor"]
    assert page["pageInfo"]["startCursor"] == page["edges"][0]["cursor"]


def insert_changed(stored: Database[Document], **ranks: Any) -> None:
    """Insert posts whose rank the driver does not read as it is stored; MinKey is undefined."""
    stored.posts.drop()
    for n, rank in enumerate(ranks.values()):
        raw = bson.encode({"_id": n, "rank": rank})
        changed = raw.replace(b"\xffrank", b"\6rank").replace(b"\xffa", b"\6a")
        stored.posts.insert_one(cast(Any, RawBSONDocument(changed)))


async def test_undefined_values_and_references_have_their_place(
    engine: Engine, app: VisibleApp, stored: Database[Document]
) -> None:
    reference = {"$ref": "c", "$id": 1}
    insert_changed(stored, a=MinKey(), b=None, c=MinKey(), d=[], e=None, f=reference, g=reference)
    expected = [one["_id"] for one in stored.posts.find().sort({"rank": 1, "_id": 1})]
    page = await read(engine, app, "byRank", first=1)
    found = ids(page)
    while page["pageInfo"]["hasNextPage"]:
        page = await read(engine, app, "byRank", first=1, after=page["pageInfo"]["endCursor"])
        found += ids(page)

    assert found == expected


async def test_a_value_that_the_driver_changes_has_no_cursor(
    engine: Engine, app: VisibleApp, stored: Database[Document]
) -> None:
    changed = [{"a": MinKey()}, {"$ref": "c", "x": 1, "$id": 1}, {"$id": 1, "$ref": "c"}]
    ranks = [*changed, {"$ref": "c", "$id": 1}, {"a": None}, 1]
    insert_changed(stored, **{f"r{n}": rank for n, rank in enumerate(ranks)})
    order = [one["_id"] for one in stored.posts.find().sort({"rank": 1, "_id": 1})]
    for size, last in enumerate(order, 1):
        query = f"{{ byRank(first: {size}) {{ nodes {{ id }} pageInfo {{ endCursor }} }} }}"
        result = await engine.run(app, query)

        is_changed = last < len(changed)
        expected = {("byRank", "pageInfo", "endCursor"): "unreadable-sort-key"}
        assert codes(result) == (expected if is_changed else {})


async def test_the_item_of_a_cursor_is_on_its_other_side(engine: Engine, app: VisibleApp) -> None:
    first, last = await read(engine, app, first=1), await read(engine, app, last=1)

    page = await read(engine, app, first=1, after=first["pageInfo"]["endCursor"])
    assert page["pageInfo"]["hasPreviousPage"] is True
    page = await read(engine, app, last=1, before=last["pageInfo"]["startCursor"])
    assert page["pageInfo"]["hasNextPage"] is True


async def test_pages_backward_have_every_item_once(engine: Engine, app: VisibleApp) -> None:
    page = await read(engine, app, last=5)
    found, following = ids(page), [page["pageInfo"]["hasNextPage"]]
    while page["pageInfo"]["hasPreviousPage"]:
        page = await read(engine, app, last=5, before=page["pageInfo"]["startCursor"])
        found = ids(page) + found
        following.append(page["pageInfo"]["hasNextPage"])

    assert found == BY_TITLE
    assert following == [False, True, True]


@pytest.mark.parametrize("subtype", [3, 4])
async def test_pages_in_the_order_of_uuids_have_every_item_once(
    engine: Engine, app: VisibleApp, stored: Database[Document], subtype: int
) -> None:
    for n in range(12):
        rank = Binary(bytes([n]) * 16, subtype)
        stored.posts.update_one({"_id": n}, {"$set": {"rank": rank}})
    page = await read(engine, app, "byRank", first=5)
    found = ids(page)
    while page["pageInfo"]["hasNextPage"]:
        page = await read(engine, app, "byRank", first=5, after=page["pageInfo"]["endCursor"])
        found += ids(page)
    back = await read(engine, app, "byRank", last=3, before=page["pageInfo"]["startCursor"])

    assert found == list(range(12))
    assert ids(back) == [7, 8, 9]


async def test_a_page_between_two_cursors(engine: Engine, app: VisibleApp) -> None:
    cursors = [edge["cursor"] for edge in (await read(engine, app))["edges"]]

    forward = await read(engine, app, first=3, after=cursors[2], before=cursors[9])
    backward = await read(engine, app, last=3, after=cursors[2], before=cursors[9])
    all_of_it = await read(engine, app, after=cursors[2], before=cursors[9])
    nothing = await read(engine, app, after=cursors[9], before=cursors[2])

    assert ids(forward) == BY_TITLE[3:6]
    assert ids(backward) == BY_TITLE[6:9]
    assert ids(all_of_it) == BY_TITLE[3:9]
    assert ids(nothing) == []
    assert nothing["pageInfo"]["startCursor"] is None
    assert (await read(engine, app, before=cursors[2]))["pageInfo"]["hasNextPage"] is False


async def test_a_page_of_no_items_tells_whether_there_are_some(
    engine: Engine, app: VisibleApp
) -> None:
    page = await read(engine, app, first=0)

    assert page["edges"] == []
    assert page["pageInfo"]["hasNextPage"] is True
    assert page["totalCount"] == 12


async def test_a_page_of_no_items_reads_one_item_at_most(
    engine: Engine, app: VisibleApp, stored: Database[Document]
) -> None:
    """A limit of 0 is none for a `find`, and an error in a pipeline."""
    stored.posts.insert_many(
        [{"_id": n, "title": f"{n}", "author": n % 4} for n in range(100, 5200)]
    )

    for page in ("first: 0", "last: 0"):
        data = await engine.data(app, f"{{ posts({page}) {{ nodes {{ id }} }} }}")
        assert data == {"posts": {"nodes": []}}
        assert [one["limit"] for one in engine.commands] == [1]
        data = await engine.data(app, f"{{ users {{ posts({page}) {{ nodes {{ id }} }} }} }}")
        assert data == {"users": [{"posts": {"nodes": []}}] * 4}


async def test_the_pages_of_all_parents_are_one_command(engine: Engine, app: VisibleApp) -> None:
    data = await engine.data(
        app, "{ users { id posts(first: 2) { nodes { id } pageInfo { hasNextPage endCursor } } } }"
    )

    assert [len(user["posts"]["nodes"]) for user in data["users"]] == [2, 2, 2, 2]
    assert all(user["posts"]["pageInfo"]["hasNextPage"] for user in data["users"])
    assert len(engine.commands) == 2
    cursor = data["users"][1]["posts"]["pageInfo"]["endCursor"]

    data = await engine.data(
        app,
        "query ($after: String) { users { id posts(first: 2, after: $after) {"
        " nodes { id title } totalCount pageInfo { hasPreviousPage hasNextPage } } } }",
        {"after": cursor},
    )

    # the users, their pages, their totals, and what is before the cursor
    assert len(engine.commands) == 4
    assert [user["posts"]["totalCount"] for user in data["users"]] == [3, 3, 3, 3]
    position = next(one for one in BY_TITLE if one % 4 == 1)
    mine = [one for one in BY_TITLE if one % 4 == 1]
    assert [one["id"] for one in data["users"][1]["posts"]["nodes"]] == mine[2:]
    assert position in mine


async def test_a_large_relation_pages_by_lookup(
    engine: Engine, app: VisibleApp, stored: Database[Document]
) -> None:
    """More documents than the first attempt may return: the database stops for each parent."""
    stored.posts.insert_many(
        [{"_id": n, "title": f"{n}", "author": n % 4} for n in range(100, 5200)]
    )

    data = await engine.data(
        app, "{ users { posts(first: 2) { edges { cursor node { id } } totalCount } } }"
    )

    assert [len(user["posts"]["edges"]) for user in data["users"]] == [2, 2, 2, 2]
    assert {user["posts"]["totalCount"] for user in data["users"]} == {1278}
    cursor = data["users"][0]["posts"]["edges"][1]["cursor"]
    again = await engine.data(
        app,
        "query ($after: String) { users { posts(first: 2, after: $after) { nodes { id } } } }",
        {"after": cursor},
    )
    first = [edge["node"]["id"] for edge in data["users"][0]["posts"]["edges"]]
    second = [node["id"] for node in again["users"][0]["posts"]["nodes"]]
    everything = sorted(
        stored.posts.find({"author": 0}), key=lambda one: (one["title"], one["_id"])
    )
    assert first + second == [one["_id"] for one in everything[:4]]


async def test_a_second_field_leaves_the_list_as_it_is(engine: Engine, app: VisibleApp) -> None:
    data = await engine.data(
        app, "{ users { latest { id } latestPages(first: 2) { nodes { id } totalCount } } }"
    )

    assert [len(user["latest"]) for user in data["users"]] == [1] * 4
    assert [len(user["latestPages"]["nodes"]) for user in data["users"]] == [2] * 4
    assert [user["latestPages"]["totalCount"] for user in data["users"]] == [3] * 4


async def test_each_item_is_the_root_of_what_is_below_it(engine: Engine, app: VisibleApp) -> None:
    """Decision 14."""
    data = await engine.data(
        app,
        "{ posts(first: 4) { nodes { id root { id } } edges { node { id author { name }"
        " root { id } } } } }",
    )

    assert [node["root"] for node in data["posts"]["nodes"]] == [
        [{"id": node["id"]}] for node in data["posts"]["nodes"]
    ]
    for edge in data["posts"]["edges"]:
        node = edge["node"]
        assert node["root"] == [{"id": node["id"]}]
        assert node["author"]["name"] == f"user {node['id'] % 4}"


async def test_nothing_is_sent_for_what_is_not_selected(engine: Engine, app: VisibleApp) -> None:
    await engine.data(app, "{ posts { __typename } }")
    assert engine.commands == []

    await engine.data(app, "{ posts(first: 2) { totalCount } }")
    assert [next(iter(one)) for one in engine.commands] == ["aggregate"]

    await engine.data(app, "{ posts(first: 2) { nodes { title } pageInfo { hasPreviousPage } } }")
    (find,) = engine.commands
    assert find["projection"] == {"title": 1, "_id": 0}
    assert find["limit"] == 2

    await engine.data(app, "{ posts(first: 2) { pageInfo { hasNextPage startCursor } } }")
    (find,) = engine.commands
    assert find["projection"] == {"_id": 1, "title": 1}
    assert find["limit"] == 3


async def test_totals_count_what_the_row_filter_admits(engine: Engine, app: VisibleApp) -> None:
    permission = Permission("rule", read_filters={f"{engine.database}.posts": {"status": "new"}})

    result = await engine.run(
        app,
        "{ posts { totalCount nodes { id } } users { posts { totalCount } } }",
        permission=permission,
    )

    assert result.errors == ()
    assert result.data is not None
    assert result.data["posts"]["totalCount"] == 6
    assert len(result.data["posts"]["nodes"]) == 6
    assert [one["posts"]["totalCount"] for one in result.data["users"]] == [0, 3, 0, 3]


MIXED: list[Document] = [
    {"_id": 0, "rank": None}, {"_id": 1}, {"_id": 2, "rank": []}, {"_id": 3, "rank": 5},
    {"_id": 4, "rank": "x"}, {"_id": 5, "rank": [3, 9]}, {"_id": 6, "rank": True},
    {"_id": 7, "rank": 2.5}, {"_id": 8, "rank": {"a": 1}}, {"_id": 9, "rank": []},
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_pages_follow_mixed_values_and_arrays(
    engine: Engine, app: VisibleApp, stored: Database[Document], size: int
) -> None:
    stored.posts.drop()
    stored.posts.insert_many(MIXED)
    wanted = ids(await read(engine, app, "byRank"))

    page = await read(engine, app, "byRank", first=size)
    found = ids(page)
    while page["pageInfo"]["hasNextPage"]:
        page = await read(engine, app, "byRank", first=size, after=page["pageInfo"]["endCursor"])
        found += ids(page)

    assert found == wanted
    assert len(wanted) == len(MIXED)


async def test_arrays_in_the_order_cannot_be_paged_from_the_end(
    engine: Engine, app: VisibleApp, stored: Database[Document]
) -> None:
    stored.posts.drop()
    stored.posts.insert_many(MIXED)

    result = await engine.run(app, "{ byRank(last: 8) { nodes { id } } }")

    (error,) = result.errors
    assert error.code == "array-in-order"


async def test_empty_arrays_below_a_dot_have_a_position(
    engine: Engine, app: VisibleApp, stored: Database[Document]
) -> None:
    stored.posts.drop()
    documents: list[Document] = [
        {"_id": 0, "a": {"b": None}}, {"_id": 1, "a": {"b": []}}, {"_id": 2},
        {"_id": 3, "a": [{"b": []}, {"b": 4}]}, {"_id": 4, "a": {"b": 1}},
    ]  # fmt: skip
    stored.posts.insert_many(documents)
    wanted = ids(await read(engine, app, "deep"))

    page = await read(engine, app, "deep", first=1)
    found = ids(page)
    while page["pageInfo"]["hasNextPage"]:
        page = await read(engine, app, "deep", first=1, after=page["pageInfo"]["endCursor"])
        found += ids(page)

    assert found == wanted == [1, 3, 0, 2, 4]


async def test_a_deleted_item_does_not_lose_its_position(
    engine: Engine, app: VisibleApp, stored: Database[Document]
) -> None:
    cursor = (await read(engine, app, first=4))["pageInfo"]["endCursor"]
    stored.posts.delete_one({"_id": BY_TITLE[3]})
    stored.posts.insert_many([{"_id": 50, "title": "a"}, {"_id": 51, "title": "c"}])

    page = await read(engine, app, first=3, after=cursor)

    assert ids(page) == [50, *BY_TITLE[4:6]]


async def test_a_very_long_sort_key_is_found_again_by_its_item(
    engine: Engine, app: VisibleApp, stored: Database[Document]
) -> None:
    stored.posts.insert_many([{"_id": n, "title": "b" + "x" * 3000} for n in range(50, 53)])
    cursors = [(e["node"]["id"], e["cursor"]) for e in (await read(engine, app))["edges"]]
    cursor = dict(cursors)[51]

    assert len(cursor) < 200
    assert ids(await read(engine, app, first=2, after=cursor)) == [52, BY_TITLE[8]]
    stored.posts.delete_one({"_id": 51})
    result = await engine.run(app, f'{{ posts(after: "{cursor}") {{ nodes {{ id }} }} }}')
    (error,) = result.errors
    assert error.code == "expired-cursor"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("first: 1, last: 1", "first-and-last", "first and last cannot be used together"),
        ("first: -1", "negative-limit", "first cannot be negative"),
        ("last: -1", "negative-limit", "last cannot be negative"),
        ("first: 1001", "limit-too-high", "first cannot be greater than 1000"),
        ("last: 1001", "limit-too-high", "last cannot be greater than 1000"),
        ('after: "x"', "bad-cursor", "after is not a cursor of Query.posts"),
        ('before: ""', "bad-cursor", "before is not a cursor of Query.posts"),
    ],
)
async def test_wrong_pages_are_errors_of_the_field(
    engine: Engine, app: VisibleApp, arguments: str, code: str, message: str
) -> None:
    result = await engine.run(app, f"{{ users {{ id }} posts({arguments}) {{ totalCount }} }}")

    (error,) = result.errors
    assert error.code == code
    assert error.message.startswith(message)
    assert error.path == ("posts",)
    assert error.locations == ((1, 16),)


async def test_a_cursor_belongs_to_its_field_and_arguments(engine: Engine, app: VisibleApp) -> None:
    cursor = (await read(engine, app, first=1))["pageInfo"]["endCursor"]
    for query in (
        f'{{ byRank(after: "{cursor}") {{ totalCount }} }}',
        f'{{ posts(status: "new", after: "{cursor}") {{ totalCount }} }}',
    ):
        result = await engine.run(app, query)
        assert [error.code for error in result.errors] == ["bad-cursor"]


async def test_equal_positions_have_equal_cursors(engine: Engine, app: VisibleApp) -> None:
    assert await read(engine, app, first=2) == await read(engine, app, first=2)


async def test_the_plan_names_what_a_connection_sends(engine: Engine, app: VisibleApp) -> None:
    text = engine.plan(app, f"{{ users {{ posts {{ {PAGE} }} }} }}").explain()

    assert "page by keyset: first, after, last, before; ties by _id" in text
    assert "totalCount: one more command, for all parents" in text
    assert "items on the other side of a cursor: one more command, for all parents" in text
    assert "keyset" not in engine.plan(app, "{ posts { totalCount } }").explain()


async def test_a_page_counts_as_its_size_in_the_estimate(engine: Engine, stored: Any) -> None:
    app = engine.app(SCHEMA, MAPPINGS, estimated_documents=11)

    assert (await engine.data(app, "{ posts(first: 11) { nodes { id } } }"))["posts"]["nodes"]
    with pytest.raises(OperationRefused, match="estimated-documents"):
        await engine.run(app, "{ posts(first: 12) { nodes { id } } }")


FENCED = """
type User { id: Int posts: [Post!]! }
type Post { id: Int title: String }
type Query { users: [User!]! posts: [Post!]! deep: [Post!]! }
"""


async def test_pages_of_conditions_behind_the_fence(
    engine: Engine, stored: Database[Document]
) -> None:
    """Decision 49: patterns and expressions run on the rows of the caller only."""
    page = {
        "collection": "posts",
        "filter": {"fields": {"title": ["contains"]}},
        "orderBy": {"fields": ["title"]},
        "connection": {},
    }
    mappings = {
        "User": {"id": "_id", "posts": {**page, "find": {"author": {"$fk": "_id"}}}},
        "Post": {"id": "_id"},
        "Query": {
            "users": {"collection": "users", "sort": {"_id": 1}},
            "posts": page,
            "deep": {**page, "sort": {"a.b": -1}},
        },
    }
    app = engine.app(FENCED, mappings)
    stored.posts.delete_many({})
    stored.posts.insert_many(
        [
            {"_id": n, "title": f"some {n % 3}", "author": n % 2, "own": n % 5 > 0, "a": {"b": n}}
            for n in range(20)
        ]
    )
    permission = Permission("rule", read_filters={f"{engine.database}.posts": {"own": True}})
    where = 'where: {title: {contains: "some"}}'
    for field, order, key in (
        ("posts", ", orderBy: [{title: ASC}]", lambda n: (n % 3, n)),
        ("deep", "", lambda n: -n),
    ):
        wanted = sorted((n for n in range(20) if n % 5), key=key)
        found: list[int] = []
        after = ""
        while True:
            query = f"{{ {field}({where}{order}, first: 3{after}) {{ {PAGE} }} }}"
            result = await engine.run(app, query, permission=permission)
            assert result.errors == (), query
            assert result.data is not None
            assert result.data[field]["totalCount"] == 16
            found += [node["id"] for node in result.data[field]["nodes"]]
            info = result.data[field]["pageInfo"]
            assert info["hasPreviousPage"] is bool(after)
            if not info["hasNextPage"]:
                break
            after = f', after: "{info["endCursor"]}"'
        assert found == wanted

    query = f"{{ users {{ posts({where}, orderBy: [{{title: ASC}}], last: 3) {{ {PAGE} }} }} }}"
    result = await engine.run(app, query, permission=permission)
    assert result.errors == ()
    assert result.data is not None
    for number, user in enumerate(result.data["users"][:2]):
        own = sorted((n for n in range(20) if n % 5 and n % 2 == number), key=lambda n: (n % 3, n))
        assert [node["id"] for node in user["posts"]["nodes"]] == own[-3:]
        assert user["posts"]["totalCount"] == 8


async def test_a_connection_of_an_interface(engine: Engine, stored: Database[Document]) -> None:
    schema = """
    interface Thing { id: Int }
    type Old implements Thing { id: Int title: String }
    type New implements Thing { id: Int author: User }
    type User { name: String }
    type Query { things: [Thing]! }
    """
    mappings = {
        "Thing": {
            "$typeResolver": {"Old": "field-eq(field=status, value='\"old\"')", "New": "true"}
        },
        "Old": {"id": "_id"},
        "New": {
            "id": "_id",
            "author": {"collection": "users", "find": {"_id": {"$fk": "author"}}},
        },
        "Query": {"things": {"collection": "posts", "connection": {}}},
    }
    app = engine.app(schema, mappings)
    query = "{ things(first: 2) { edges { cursor node { __typename id ... on Old { title }"
    query += " ... on New { author { name } } } } pageInfo { endCursor } } }"

    page = (await engine.data(app, query))["things"]

    assert [edge["node"] for edge in page["edges"]] == [
        {"__typename": "Old", "id": 0, "title": "a"},
        {"__typename": "New", "id": 1, "author": {"name": "user 1"}},
    ]
    assert page["pageInfo"]["endCursor"] == page["edges"][1]["cursor"]


async def test_parents_without_a_key_have_an_empty_page(engine: Engine, app: VisibleApp) -> None:
    """Decision 11."""
    schema = "type User { name: String bosses: [User!]! } type Query { users: [User!]! }"
    bosses = {"collection": "users", "find": {"_id": {"$fk": "boss"}}, "connection": {}}
    mappings = {"User": {"bosses": bosses}, "Query": {"users": {"collection": "users"}}}

    data = await engine.data(
        engine.app(schema, mappings),
        "{ users { bosses { nodes { name } totalCount pageInfo { hasNextPage startCursor } } } }",
    )

    empty = {"hasNextPage": False, "startCursor": None}
    wanted = {"bosses": {"nodes": [], "totalCount": 0, "pageInfo": empty}}
    assert data["users"] == [wanted] * 4
    assert len(engine.commands) == 1


async def test_an_item_that_shares_its_position_with_the_next_one_has_no_cursor(
    engine: Engine, stored: Database[Document]
) -> None:
    """A view can repeat an `_id`: a page after such an item would leave out the others."""
    stored.lists.insert_many([{"_id": 1, "n": [1, 2]}, {"_id": 2, "n": [1, 1, 1]}])
    stored.create_collection("numbers", viewOn="lists", pipeline=[{"$unwind": "$n"}])
    numbers = {"collection": "numbers", "sort": {"n": 1}, "connection": {}}
    schema = "type Number { id: Int n: Int } type Query { numbers: [Number!]! }"
    app = engine.app(schema, {"Number": {"id": "_id"}, "Query": {"numbers": numbers}})
    found: dict[int, Any] = {}
    ends = "startCursor endCursor hasNextPage hasPreviousPage"
    for size in range(1, 6):
        query = f"{{ numbers(first: {size}) {{ nodes {{ id n }} pageInfo {{ {ends} }} }} }}"
        result = await engine.run(app, query)
        assert result.data is not None
        found[size] = (len(result.data["numbers"]["nodes"]), [one.code for one in result.errors])

    shared = ["shared-position"]
    assert found == {1: (1, []), 2: (2, shared), 3: (3, shared), 4: (4, []), 5: (5, [])}
    plain = await engine.run(app, "{ numbers(first: 2) { nodes { id } } }")
    assert plain.errors == ()
    backward = await engine.run(app, f"{{ numbers(last: 3) {{ pageInfo {{ {ends} }} }} }}")
    assert [one.path for one in backward.errors] == [("numbers", "pageInfo", "startCursor")]
