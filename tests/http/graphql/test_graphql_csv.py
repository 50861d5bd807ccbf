"""Answers of GraphQL apps as CSV: one list, where the app allows it (decision 24)."""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp
from bson.binary import UuidRepresentation

from docgraph.exchange.errors import DefinitionError
from docgraph.graphql.http import response_shape
from tests.http.access_harness import allow, caller, guarded
from tests.http.harness import MEDIA_TYPE, Document, Mongo, Reply, Service, running
from tests.http.hosts import module_application

pytestmark = [pytest.mark.anyio, pytest.mark.json]

CSV = {"accept": "text/csv"}
TYPE = "text/csv; charset=utf-8"
UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
OID = ObjectId("64b000000000000000000001")
SCHEMA = """
enum Status { OPEN CLOSED }
interface Named { name: String }
type Cat implements Named { name: String lives: Int }
type Dog implements Named { name: String owner: Author }
type Author { name: String born: Int posts: [Post] }
type Post {
  _id: ID title: String status: Status tags: [String] scores: [[Int]] n: Int
  author: Author comments: [Comment] doc: BsonDocument broken: Int
}
type Comment { text: String }
type Values {
  long: Long float: Float decimal: Decimal128 oid: ObjectId date: DateTime stamp: Timestamp
  regex: Regex uuid: UUID flag: Boolean longs: [Long] empty: String none: String id: ID
}
type Query {
  posts(first: Int): [Post!]
  post: Post
  authors: [Author]
  author(name: String!): Author
  pets: [Named]
  values: [Values]
  docs: [BsonDocument]
  nowhere: [Post]
}
"""


def build_mappings(service: Service) -> Document:
    by_author = service.find("posts", {"author": {"$fk": "name"}}, sort={"_id": 1})
    return {
        "Query": {
            "posts": service.find("posts", {}, sort={"_id": 1}, limit={"$arg": ["first", 100]}),
            "post": service.find("posts", {"_id": 1}),
            "authors": service.find("authors", {}, sort={"_id": 1}),
            "author": service.find("authors", {"name": {"$arg": "name"}}),
            "pets": service.find("pets", {}, sort={"_id": 1}),
            "values": service.find("values", {}),
            "docs": service.find("pets", {}, sort={"_id": 1}),
        },
        "Status": {"OPEN": 1, "CLOSED": 2},
        "Named": {"$typeResolver": {"Cat": "field-exists(lives)", "Dog": "true"}},
        "Dog": {"owner": service.find("authors", {"name": {"$fk": "owner"}})},
        "Author": {"posts": by_author},
        "Post": {"author": service.find("authors", {"name": {"$fk": "author"}})},
    }


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as one:
        one.insert(
            "posts",
            {
                "_id": 1,
                "title": "=1+1",
                "status": 1,
                "tags": ["a", "b"],
                "scores": [[1], [2, 3]],
                "n": -1,
                "author": "Ada",
                "comments": [{"text": "hi"}],
                "doc": {"at": datetime(2024, 1, 1), "x": [1]},
                "broken": "no number",
            },
            {"_id": 2, "title": 'say "hi", Bob', "status": 2, "n": 5, "author": "Nobody"},
        )
        one.insert("authors", {"_id": 1, "name": "Ada", "born": 1815})
        one.insert(
            "pets", {"_id": 1, "name": "Tom", "lives": 9}, {"_id": 2, "name": "Rex", "owner": "Ada"}
        )
        one.insert(
            "values",
            {
                "_id": 1,
                "long": Int64(-(2**63)),
                "float": float("-inf"),
                "decimal": Decimal128("-1.50"),
                "oid": OID,
                "date": datetime(2024, 2, 29, 12, 30),
                "stamp": Timestamp(5, 6),
                "regex": Regex("a,b", "i"),
                "uuid": Binary.from_uuid(UUID, UuidRepresentation.STANDARD),
                "flag": True,
                "longs": [Int64(5)],
                "empty": "",
                "id": -7,
            },
        )
        operations = [{"name": "titles", "query": "query Titles { posts { title } }"}]
        for mode in ("standard", "canonical", "relaxed", "plain"):
            descriptor = {"csv": True, "json-mode": mode, "operations": operations}
            await one.define(mode, SCHEMA, build_mappings(one), **descriptor)
        await one.define("without", SCHEMA, build_mappings(one))
        await one.define(
            "short", SCHEMA, build_mappings(one), csv=True, limits={"response-bytes": 40}
        )
        yield one


async def ask(service: Service, query: str, app: str = "plain", **others: Any) -> Reply:
    return await service.query(app, query, headers=CSV, **others)


def lines(reply: Reply) -> list[list[str]]:
    assert reply.status == 200, reply.text
    assert reply.headers["content-type"] == TYPE, reply.text
    return list(csv.reader(io.StringIO(reply.text, newline=""), strict=True))


# --- tables ---------------------------------------------------------------------------------------


async def test_a_list_is_a_table_of_the_selected_fields(service: Service) -> None:
    reply = await ask(
        service,
        "query MyPosts { posts { id: _id title status tags scores n author { name born } doc } }",
    )

    assert lines(reply) == [
        ["id", "title", "status", "tags", "scores", "n", "author.name", "author.born", "doc"],
        [
            "1",
            "'=1+1",
            "OPEN",
            '["a","b"]',
            "[[1],[2,3]]",
            "-1",
            "Ada",
            "1815",
            '{"at":"2024-01-01T00:00:00.000Z","x":[1]}',
        ],
        ["2", 'say "hi", Bob', "CLOSED", "", "", "5", "", "", ""],
    ]
    assert reply.headers["content-disposition"] == 'attachment; filename="MyPosts.csv"'
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "Accept" in reply.headers.get_list("vary")
    assert reply.text.endswith("\r\n")


@pytest.mark.parametrize("mode", ["standard", "canonical", "relaxed", "plain"])
async def test_values_are_the_same_in_every_json_mode(service: Service, mode: str) -> None:
    names = "long float decimal oid date stamp regex uuid flag empty none id"
    reply = await ask(service, f"{{ values {{ {names} }} }}", mode)

    assert reply.text == (
        f"{names.replace(' ', ',')}\r\n"
        f"{-(2**63)},-Infinity,-1.50,{OID},2024-02-29T12:30:00.000Z,5.6,"
        f'"/a,b/i",{UUID},true,"",,\'-7\r\n'
    )


async def test_formulas_stay_where_the_caller_wants_them(service: Service) -> None:
    raw = await ask(service, "{ posts { title } }", parameters="?csv-formulas=raw")
    wrong = await ask(service, "{ posts { title } }", parameters="?csv-formulas=x")

    assert lines(raw)[1] == ["=1+1"]
    assert (wrong.status, wrong.code) == (400, "bad-request")
    assert raw.headers["content-disposition"] == 'attachment; filename="posts.csv"'


async def test_a_list_inside_single_objects(service: Service) -> None:
    found = await ask(service, '{ author(name: "Ada") { posts { title n } } }')
    missing = await ask(service, '{ author(name: "Bob") { posts { title n } } }')

    assert lines(found) == [["title", "n"], ["'=1+1", "-1"]]
    assert lines(missing) == [["title", "n"]]


async def test_types_of_an_interface_share_a_table(service: Service) -> None:
    query = "{ pets { __typename name ... on Cat { lives } ... on Dog { owner { born } } } }"

    assert lines(await ask(service, query)) == [
        ["__typename", "name", "lives", "owner.born"],
        ["Cat", "Tom", "9", ""],
        ["Dog", "Rex", "", "1815"],
    ]


async def test_lists_of_single_values(service: Service) -> None:
    tags = await ask(service, "{ post { tags } }")
    lists = await ask(service, "{ post { scores } }")
    documents = await ask(service, "{ docs }")

    assert lines(lists) == [["scores"], ["[1]"], ["[2,3]"]]
    assert lines(tags) == [["tags"], ["a"], ["b"]]
    assert lines(documents)[0] == ["docs"]
    assert '"name":"Tom"' in lines(documents)[1][0]


async def test_conditions_decide_about_columns(service: Service) -> None:
    query = "query($n: Boolean!) { posts { title n @include(if: $n) author { name } } }"

    assert lines(await ask(service, query, variables={"n": False}))[0] == ["title", "author.name"]
    assert lines(await ask(service, query, variables={"n": True}))[0] == [
        "title",
        "n",
        "author.name",
    ]


async def test_stored_operations(service: Service) -> None:
    reply = await service.request(
        "POST", "/graphql/plain", json={"operation": "titles"}, headers=CSV
    )

    assert lines(reply)[0] == ["title"]
    assert reply.headers["content-disposition"] == 'attachment; filename="Titles.csv"'


# --- what is no table -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("{ posts { title } authors { name } }", "the operation has more than one field"),
        ("{ a: posts { n } b: posts { n } }", "the operation has more than one field"),
        ("{ post { title } }", "post.title is not a list"),
        ("{ post { title tags } }", "post has more than one field"),
        ("{ posts { title comments { text } } }", "comments is a list inside the list"),
        ("{ posts { author { posts { n } } } }", "author.posts is a list inside the list"),
        ("{ __typename }", "__typename is not a list"),
        ("{ __schema { types { name } } }", "__schema is not a list"),
    ],
)
async def test_what_is_no_table_is_refused_with_the_reason(
    service: Service, query: str, message: str
) -> None:
    reply = await ask(service, query)
    json = await service.query("plain", query, headers={"accept": "text/csv, */*;q=0.1"})

    assert (reply.status, reply.code) == (406, "not-acceptable")
    assert reply.headers["content-type"] == MEDIA_TYPE
    assert message in reply.error["message"]
    assert reply.error["extensions"]["hint"]
    assert (json.status, json.headers["content-type"]) == (200, MEDIA_TYPE)


async def test_an_operation_that_is_no_table_is_not_executed(service: Service) -> None:
    reply = await ask(service, "{ posts { broken } post { broken } }")

    assert (reply.status, reply.json["data"]) == (406, None)


@pytest.mark.parametrize(
    ("query", "status"), [("{ posts { broken } }", 200), ("{ posts { nothing } }", 400), ("{", 400)]
)
async def test_errors_are_json(service: Service, query: str, status: int) -> None:
    reply = await ask(service, query)

    assert (reply.status, reply.headers["content-type"]) == (status, MEDIA_TYPE)
    assert reply.errors
    assert "content-disposition" not in reply.headers


async def test_the_limit_of_responses_holds(service: Service) -> None:
    fits = await ask(service, "{ posts(first: 1) { n } }", "short")
    long = await ask(service, "{ posts { title n status } }", "short")

    assert lines(fits) == [["n"], ["-1"]]
    assert (long.status, long.code) == (400, "response-too-large")


async def test_a_row_that_is_too_long_is_not_built(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    show = response_shape._show

    def count(cells: Any, value: Any, *, is_text: bool) -> str:
        shown.append(value)
        return show(cells, value, is_text=is_text)

    monkeypatch.setattr(response_shape, "_show", count)
    monkeypatch.setattr(response_shape, "encode_line", lambda cells: b"")  # the names fit
    many = " ".join(f"t{n}: tags" for n in range(20))
    await ask(service, f"{{ posts(first: 1) {{ {many} }} }}", "short")

    assert 1 < len(shown) < 10


# --- where it is not allowed ----------------------------------------------------------------------


async def test_an_app_that_does_not_allow_csv_answers_json(service: Service) -> None:
    reply = await ask(service, "{ posts { n } }", "without")

    assert reply.headers["content-type"] == MEDIA_TYPE
    assert reply.data == {"posts": [{"n": -1}, {"n": 5}]}


@pytest.mark.parametrize(
    "accept",
    [
        "*/*",
        "application/json",
        "application/graphql-response+json, text/csv;q=0.5",
        "application/json, text/csv",
        "text/*",
    ],
)
async def test_others_get_json(service: Service, accept: str) -> None:
    reply = await service.query("plain", "{ posts { n } }", headers={"accept": accept})

    assert reply.headers["content-type"] == MEDIA_TYPE


async def test_the_option_is_a_boolean(service: Service) -> None:
    with pytest.raises(DefinitionError, match=r"descriptor\.csv: must be a boolean"):
        await service.define("wrong", SCHEMA, build_mappings(service), csv="yes")


async def test_what_a_role_does_not_see_is_no_column(mongo_client: Mongo, mongo_uri: str) -> None:
    schema = """
    type Query { films: [Film] }
    type Film { title: String budget: Int @visible(roles: ["accountant"]) }
    """
    async with guarded(mongo_client, mongo_uri) as service:
        service.insert("films", {"_id": 1, "title": "Metropolis", "budget": 5})
        mappings = {"Query": {"films": service.find("films", {})}}
        await service.define("films", schema, mappings, csv=True)
        await allow(service, "path-prefix('/graphql')", "user", "accountant")
        query = "{ films { title budget } }"
        ada, bob = caller("ada", "accountant"), caller("bob", "user")
        seen = await service.query("films", query, headers={**CSV, **ada})
        hidden = await service.query("films", query, headers={**CSV, **bob})

        assert lines(seen) == [["title", "budget"], ["Metropolis", "5"]]
        assert (hidden.status, hidden.headers["content-type"]) == (400, MEDIA_TYPE)
