"""The native lane of the engine: its answers are those of the Python lane, byte for byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from bson import Binary, Int64, ObjectId, encode
from bson.raw_bson import RawBSONDocument
from graphql import parse
from pymongo import AsyncMongoClient

from docgraph.codec import decode
from docgraph.exchange import Document, Exchange, Request
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.execute import complete
from docgraph.graphql.execute.execute import Result, execute
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.result import encode_data
from docgraph.graphql.plan.plan import Plan, build_plan
from docgraph.graphql.sections import Graphql
from docgraph.runtime.native import find_native
from docgraph.store import Store
from docgraph.store.driver.lenient_decode import encode_bson
from docgraph.store.driver.portions import RawTake
from docgraph.store.guard.shield import strip_before
from docgraph.variables import Resolvers
from tests.http.driver import settle
from tests.http.engine.harness import Engine, Recorder

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.json,
    pytest.mark.skipif(find_native() is None, reason="the native extension is not installed"),
]

SCHEMA = """
    type Query { posts(limit: Int = 50): [Post!]! items: [Item!] flat: [Flat!] things: [Thing!]
        values: [Value!] }
    type Post {
        id: Int! title: String! rating: Float created: DateTime tags: [String!]
        kind: Kind state: State place: Place lines: [Line!] author: Author author2: Author!
        comments(limit: Int = 50): [Comment!] reviewers: [Author!]
        part: Part parts: [Part] siblings(limit: Int = 50): [Post!]
    }
    union Part = Place | Line
    interface Thing { id: Int! }
    type Flat implements Thing { id: Int! title: String }
    enum Kind { ARTICLE NOTE }
    enum State { OPEN CLOSED }
    type Place { city: String! street: Street }
    type Street { name: String number: Int }
    type Line { text: String! count: Long }
    type Author { id: ID! name: String! posts: [Post!] }
    type Comment { text: String! likes: Int author: Author }
    union Item = Article | Note
    type Article { id: Int! title: String author: Author }
    type Note { id: Int! title: String }
    union Value = First | Other
    type First { id: Int! }
    type Other { id: Int! }
"""


def _find(collection: str, **condition: Any) -> dict[str, Any]:
    return {"collection": collection, "find": condition, "sort": {"_id": 1}}


_AUTHOR = {"collection": "authors", "find": {"_id": {"$fk": "authorId"}}}
MAPPINGS: dict[str, Any] = {
    "Query": {
        "posts": {**_find("posts"), "limit": {"$arg": "limit"}},
        "items": _find("posts"),
        "flat": _find("posts"),
        "things": _find("posts"),
        "values": _find("values"),
    },
    "Post": {
        "id": "_id",
        "author": _AUTHOR,
        "author2": _AUTHOR,
        "comments": {**_find("comments", postId={"$fk": "_id"}), "limit": {"$arg": "limit"}},
        "siblings": {**_find("posts", authorId={"$fk": "authorId"}), "limit": {"$arg": "limit"}},
        "reviewers": _find("authors", _id={"$in": {"$fk": "reviewerIds"}}),
    },
    "Thing": {"$typeResolver": {"Flat": "true"}},
    "Flat": {"id": "_id"},
    "Kind": {"ARTICLE": "article", "NOTE": "note"},
    "State": {"OPEN": 1, "CLOSED": 2},
    "Part": {"$typeResolver": {"Place": "field-exists(city)", "Line": "field-exists(text)"}},
    "Author": {"id": "_id", "posts": _find("posts", authorId={"$fk": "_id"})},
    "Comment": {"author": _AUTHOR},
    "Item": {
        "$typeResolver": {
            "Article": "field-eq(field=kind, value='\"article\"')",
            "Note": "field-eq(field=kind, value='\"note\"')",
        }
    },
    "Article": {"id": "_id", "author": _AUTHOR},
    "Note": {"id": "_id"},
    "Value": {"$typeResolver": {"First": "value-eq('{\"_id\": 1}')", "Other": "true"}},
    "First": {"id": "_id"},
    "Other": {"id": "_id"},
}
AUTHORS = [ObjectId(f"{number:024x}") for number in range(4)]

QUERIES = {
    "flat": "{ flat { id title } }",
    "leaves": "{ posts { __typename id title rating created tags kind state } }",
    "embedded": "{ posts { id place { city street { name number } } lines { text count } } }",
    "to-one": "{ posts { title author { id name } } }",
    "to-many": "{ posts(limit: 5) { id comments(limit: 2) { text likes author { name } } } }",
    "many keys": "{ posts { id reviewers { name } } }",
    "three levels": "{ posts { author { name posts { id title comments { text } } } } }",
    "union": "{ items { __typename ... on Article { id author { name } } ... on Note { title } } }",
    "plain union": "{ items { __typename ... on Article { id title } ... on Note { title } } }",
    "shared keys": "{ posts { id siblings(limit: 2) { id author { name } } } }",
    "interface": "{ things { __typename id } }",
    "embedded union": "{ posts { id part { __typename ...P } parts { __typename ...P } } }"
    " fragment P on Part { ... on Place { city } ... on Line { text } }",
    "several": "{ a: posts(limit: 2) { id } b: posts { author { id } } flat { id } }",
    "whole documents": "{ values { __typename ... on First { id } ... on Other { id } } }",
    "nothing": "{ posts(limit: 1) { comments { author { name } } } }",
}


def _build_post(number: int) -> Document:
    return {
        "_id": number,
        "title": f'post "{number}" ü\n',
        "rating": number / 3,
        "created": datetime(2024, 5, 1, 12, number),
        "tags": ["x", "y"][: number % 3],
        "kind": ("article", "note")[number % 2],
        "state": 1 + number % 2,
        "place": {"city": "Rome", "street": {"name": "Via", "number": number}},
        "lines": [{"text": "a", "count": number}, {"text": "b"}],
        "authorId": AUTHORS[number % 3],
        "reviewerIds": AUTHORS[: number % 4],
        "part": {"city": "Oslo"},
        "parts": [{"text": "c"}, {"city": "Bonn"}],
    }


ENCODED = encode({"city": "forged"})
# What does not fit the schema, or cannot be read: the Python lane answers.
FLAWS: dict[str, Document] = {
    "none": {},
    "another type": {"title": 5},
    "missing": {"title": None},
    "NaN": {"rating": float("nan")},
    "a double": {"rating": 1e300, "place": {"city": "x", "street": {"number": 3.0}}},
    "a list": {"place": [{"city": "x"}], "tags": "x"},
    "no list": {"lines": {"text": "x"}},
    "no author": {"authorId": ObjectId("f" * 24)},
    "no key": {"authorId": None},
    "another key": {"authorId": [AUTHORS[0]], "reviewerIds": AUTHORS[1]},
    "a text as key": {"authorId": "x"},
    "a long as key": {"authorId": Int64(5)},
    "a double as key": {"authorId": 5.0},
    "a boolean as key": {"authorId": True},
    "enum": {"kind": "other", "state": 1.0},
    "far date": {"created": datetime(9999, 12, 31)},
    "reference": {"place": {"$ref": "a", "$id": 1}},
    "a document in binary data": {"part": ENCODED, "parts": [ENCODED, {"city": "x"}]},
    "binary data": {"part": b"\x05", "parts": [b"", {"text": "x"}], "place": b"x", "lines": [b""]},
}


@pytest.fixture
async def client(mongo_uri: str) -> AsyncIterator[AsyncMongoClient[Document]]:
    """A client without listeners: reads use the fast path."""
    client: AsyncMongoClient[Document] = AsyncMongoClient(
        mongo_uri, datetime_conversion="DATETIME_AUTO", appname="docgraph"
    )
    await client.admin.command("ping")
    yield client
    await settle(client)
    await client.close()


@pytest.fixture
async def app(client: AsyncMongoClient[Document], database: str) -> VisibleApp:
    """The app, with documents that fit it."""
    db = client[database]
    await db.posts.insert_many([_build_post(number) for number in range(12)])
    await db.authors.insert_many([{"_id": id, "name": f"n{id}"} for id in AUTHORS])
    await db.comments.insert_many(
        [{"text": f"c{n}", "likes": n, "postId": n % 5, "authorId": AUTHORS[1]} for n in range(20)]
    )
    await db["values"].insert_many([{"_id": 1}, {"_id": 2}, {"_id": 3, "more": 1}])
    return Engine(Store(client), Recorder(), database).app(SCHEMA, MAPPINGS)


async def _run(
    app: VisibleApp, client: AsyncMongoClient[Document], plan: Plan, *, is_raw: bool
) -> Result:
    run = Run(
        plan,
        Exchange(Request("POST", b"/graphql/test"), "request-1"),
        {},
        store=Store(client),
        resolvers=Resolvers(decode),
        bounds=Graphql(),
        limits=app.app.limits,
        is_raw=is_raw,
    )
    return await execute(run)


async def _compare(app: VisibleApp, client: AsyncMongoClient[Document], query: str) -> Result:
    """Compare the lanes; a plan that was executed before knows more about the documents."""
    plan = build_plan(app, parse(query), None)
    await _compare_once(app, client, plan)
    return await _compare_once(app, client, plan)


async def _compare_once(app: VisibleApp, client: AsyncMongoClient[Document], plan: Plan) -> Result:
    native = await _run(app, client, plan, is_raw=True)
    python = await _run(app, client, plan, is_raw=False)
    for limit in (10**9, len(encode_data(python.data, 10**9) or b"") - 1):
        assert encode_data(native.data, limit) == encode_data(python.data, limit)
    assert [one.as_dict() for one in native.errors] == [one.as_dict() for one in python.errors]
    assert native.documents == python.documents
    return native


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
async def test_documents_that_fit_are_not_decoded(
    app: VisibleApp, client: AsyncMongoClient[Document], query: str
) -> None:
    result = await _compare(app, client, query)

    assert not result.errors
    assert result.data is not None
    kind = list if "parts" in query else bytes  # Python finds the types of embedded objects
    assert {type(value) for value in result.data.values()} == {kind}


@pytest.mark.parametrize("flaw", FLAWS.values(), ids=FLAWS)
async def test_documents_that_do_not_fit_have_the_same_answer(
    app: VisibleApp, client: AsyncMongoClient[Document], database: str, flaw: Document
) -> None:
    await client[database].posts.update_one({"_id": 3}, {"$set": flaw or {"_": 1}})

    for query in QUERIES.values():
        await _compare(app, client, query)


@pytest.mark.parametrize("name", ["title", "authorId", "kind"])
async def test_texts_that_are_not_utf8_have_the_same_answer(
    app: VisibleApp, client: AsyncMongoClient[Document], database: str, name: str
) -> None:
    text = b"\x02" + name.encode() + b"\0\x03\0\0\0\xff\xfe\0"
    body = b"\x10_id\0\x63\0\0\0" + text + b"\0"
    document = RawBSONDocument((len(body) + 4).to_bytes(4, "little") + body)
    await client[database].posts.insert_one(document)

    for query in QUERIES.values():
        await _compare(app, client, query)


@pytest.mark.parametrize("subtype", [0, 1, 2, 4, 9, 127, 128, 254, 255])
async def test_binary_data_of_any_subtype_is_a_key(
    app: VisibleApp, client: AsyncMongoClient[Document], database: str, subtype: int
) -> None:
    key, db = Binary(b"0123456789abcdef", subtype), client[database]
    for collection, document in (
        (db.authors, {"_id": key, "name": "binary"}),
        *((db.posts, {**_build_post(number), "authorId": key}) for number in (58, 59)),
    ):
        await collection.insert_one(RawBSONDocument(encode_bson(document)))

    for query in QUERIES.values():
        await _compare(app, client, query)
    result = await _compare(app, client, "{ posts(limit: 100) { id author { name } } }")

    assert not result.errors
    assert (encode_data(result.data, 10**9) or b"").count(b'{"name":"binary"}') == 2


@pytest.mark.parametrize("kind", ["other", None, 5, "note"])
async def test_a_type_that_appears_later_has_the_same_answer(
    app: VisibleApp, client: AsyncMongoClient[Document], database: str, kind: Any
) -> None:
    plan = build_plan(app, parse(QUERIES["plain union"]), None)
    await _compare_once(app, client, plan)
    await client[database].posts.update_one({"_id": 4}, {"$set": {"kind": kind}})

    for _ in range(2):
        result = await _compare_once(app, client, plan)
        assert bool(result.errors) is (kind != "note")


async def test_a_large_shared_object_is_not_copied_beyond_the_limit(
    client: AsyncMongoClient[Document], database: str
) -> None:
    engine = Engine(Store(client), Recorder(), database)
    app = engine.app(SCHEMA, MAPPINGS, response_bytes=200_000)
    await client[database].authors.insert_one({"_id": AUTHORS[0], "name": "x" * 100_000})
    await client[database].posts.insert_many(
        [{"_id": number, "title": "t", "authorId": AUTHORS[0]} for number in range(50)]
    )
    query = "{ posts { title author { name } } }"

    result = await _compare(app, client, query)

    assert result.data is not None
    assert not any(isinstance(value, bytes) for value in result.data.values())
    assert encode_data(result.data, app.app.limits.response_bytes) is None


async def test_fields_that_share_an_object_have_few_copies_of_it_together(
    client: AsyncMongoClient[Document], database: str
) -> None:
    """Each field alone is within the limit of the response."""
    engine = Engine(Store(client), Recorder(), database)
    app = engine.app(SCHEMA, MAPPINGS, response_bytes=200_000)
    await client[database].authors.insert_one({"_id": AUTHORS[0], "name": "x" * 10_000})
    await client[database].posts.insert_many(
        [{"_id": number, "title": "t", "authorId": AUTHORS[0]} for number in range(15)]
    )
    fields = " ".join(f"f{number}: posts {{ author {{ name }} }}" for number in range(10))

    result = await _compare(app, client, f"{{ {fields} }}")

    assert result.data is not None
    texts = [value for value in result.data.values() if isinstance(value, bytes)]
    assert 0 < sum(map(len, texts)) <= 2 * app.app.limits.response_bytes


async def test_what_hides_properties_gets_decoded_documents() -> None:
    async def take(documents: list[Any]) -> None:
        """Of no interest."""

    assert not isinstance(strip_before(RawTake(take), (("password",),)), RawTake)


@pytest.mark.parametrize("portion", [1, 700])
@pytest.mark.parametrize("name", ["leaves", "to-one", "to-many", "union"])
async def test_documents_that_are_rendered_in_portions_give_the_same_response(
    app: VisibleApp,
    client: AsyncMongoClient[Document],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    portion: int,
) -> None:
    monkeypatch.setattr(complete, "_PORTION", portion)
    await _compare(app, client, QUERIES[name])
