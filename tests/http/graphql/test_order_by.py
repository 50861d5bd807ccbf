"""`orderBy` in a mapping: the generated argument, its order, roles and limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.exchange.errors import DefinitionError
from docgraph.observe.command_events import CommandFinished
from docgraph.server.builtin import BUILTIN
from tests.http.access_harness import TestCaller, caller
from tests.http.harness import Document, Mongo, Service, listening, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query { posts(limit: Int, skip: Int): [Post!]  indexed: [Post!]  users: [User!] }
type Post {
  id: Int
  title: String
  votes: Int
  tags: [String]
  address: Address
  secret: Int @visible(roles: ["editor"])
  raw: BsonDocument
}
type Address { city: String }
type User { id: Int  posts(limit: Int): [Post!] }
"""
FIELDS = ["votes", "title", "address.city", "secret"]
# Ties in votes, mixed and missing values.
POSTS: list[Document] = [
    {"_id": 1, "name": "b", "votes": 2, "address": {"town": "X"}, "secret": 1, "userId": 1},
    {"_id": 2, "name": "a", "votes": 2, "address": {"town": "Z"}, "secret": 3, "userId": 2},
    {"_id": 3, "name": 7, "votes": 1, "address": {"town": "Y"}, "secret": 2, "userId": 1},
    {"_id": 4, "votes": 2, "userId": 1},
    {"_id": 5, "name": None, "votes": 3, "userId": 2},
]
EDITOR = caller("ed", "editor")


def build_mappings(service: Service) -> Document:
    page: Document = {"limit": {"$arg": ["limit", 100]}, "skip": {"$arg": ["skip", 0]}}
    order = {"fields": FIELDS}
    return {
        "Query": {
            "posts": {**service.find("posts", {}, sort={"_id": -1}), **page, "orderBy": order},
            "indexed": {
                **service.find("posts"),
                "orderBy": {**order, "indexed-only": True},
                "filter": {"fields": {"title": ["eq"], "votes": ["eq"]}},
            },
            "users": service.find("users", {}, sort={"_id": 1}),
        },
        "Post": {"id": "_id", "title": "name"},
        "Address": {"city": "town"},
        "User": {
            "id": "_id",
            "posts": {
                **service.find("posts", {"userId": {"$fk": "_id"}}),
                "limit": {"$arg": ["limit", 100]},
                "orderBy": order,
            },
        },
    }


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, plugins=[*BUILTIN, TestCaller]) as service:
        service.insert("posts", *POSTS)
        service.insert("users", {"_id": 1}, {"_id": 2})
        service.mongo[service.db]["posts"].create_index({"votes": 1, "name": -1})
        service.mongo[service.db]["posts"].create_index({"secret": 1})
        await service.define("app", SCHEMA, build_mappings(service))
        yield service


async def order(service: Service, by: Any, **page: int) -> list[int]:
    text = """query ($by: [PostOrder!], $limit: Int, $skip: Int) {
      posts(orderBy: $by, limit: $limit, skip: $skip) { id } }"""
    reply = await service.query("app", text, {"by": by, **page}, headers=EDITOR)
    return [post["id"] for post in reply.data["posts"]]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (None, [5, 4, 3, 2, 1]),
        ([], [5, 4, 3, 2, 1]),
        ([{"votes": "ASC"}], [3, 1, 2, 4, 5]),
        ([{"votes": "DESC"}], [5, 4, 2, 1, 3]),
        ([{"votes": "ASC"}, {"title": "ASC"}], [3, 4, 2, 1, 5]),
        ([{"votes": "ASC"}, {"title": "DESC"}], [3, 1, 2, 4, 5]),
        ([{"title": "ASC"}], [4, 5, 3, 2, 1]),
        ([{"address": {"city": "DESC"}}], [2, 3, 1, 5, 4]),
        ({"votes": "ASC"}, [3, 1, 2, 4, 5]),
    ],
)
async def test_orders(service: Service, by: Any, expected: list[int]) -> None:
    assert await order(service, by) == expected


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
async def test_ties_have_the_same_order_on_every_page(service: Service, direction: str) -> None:
    by = [{"votes": direction}]
    pages = [await order(service, by, limit=1, skip=number) for number in range(5)]
    assert [id for page in pages for id in page] == await order(service, by)


async def test_relations_are_ordered_in_one_command(service: Service) -> None:
    text = "{ users { posts(orderBy: [{votes: DESC}, {title: ASC}], limit: 2) { id } } }"
    with listening(CommandFinished) as commands:
        data = (await service.query("app", text)).data
    assert data == {"users": [{"posts": [{"id": 4}, {"id": 1}]}, {"posts": [{"id": 5}, {"id": 2}]}]}
    assert [event.command for event in commands if event.app] == ["find", "find"]


async def test_hidden_fields_are_no_orders(service: Service) -> None:
    text = '{ __type(name: "PostOrder") { inputFields { name } } }'
    seen = [(await service.query("app", text, headers=one)).data for one in (EDITOR, {})]
    names = [{one["name"] for one in data["__type"]["inputFields"]} for data in seen]
    assert names == [{"votes", "title", "address", "secret"}, {"votes", "title", "address"}]

    reply = await service.query("app", "{ posts(orderBy: [{secret: ASC}]) { id } }")
    assert reply.status == 400
    assert "unknown field 'secret'" in reply.error["message"]
    assert await order(service, [{"secret": "DESC"}]) == [2, 3, 1, 5, 4]


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ([{}], "orderBy[0]: needs exactly one field, and has none"),
        (
            [{"title": "ASC"}, {"votes": "ASC", "title": "ASC"}],
            "orderBy[1]: needs exactly one field, and has title, votes",
        ),
        ([{"votes": None}], "orderBy[0].votes: must be ASC or DESC"),
        ([{"address": {}}], "orderBy[0].address: needs exactly one field, and has none"),
        ([{"address": None}], "orderBy[0].address: needs exactly one field, and has none"),
        (
            [{"votes": "ASC"}, {"votes": "DESC"}],
            "orderBy[1]: orders by a field that comes before",
        ),
    ],
)
async def test_wrong_orders_are_field_errors(service: Service, by: Any, message: str) -> None:
    text = "query ($by: [PostOrder!]) { posts(orderBy: $by) { id } }"
    reply = await service.query("app", text, {"by": by})
    assert reply.error["message"].replace("votes, title", "title, votes") == message
    assert reply.error["path"] == ["posts"]
    assert reply.code == "bad-order"
    assert reply.json["data"] == {"posts": None}


@pytest.mark.parametrize(
    "arguments",
    [
        "orderBy: [{votes: ASC}]",
        "orderBy: [{votes: DESC}, {title: ASC}]",
        "orderBy: [{title: ASC}], where: {votes: {eq: 2}}",
        "where: {title: {eq: 1}}",
    ],
)
async def test_indexed_orders_pass(service: Service, arguments: str) -> None:
    text = f"{{ indexed({arguments}) {{ id }} }}".replace("eq: 1", 'eq: "1"')
    assert (await service.query("app", text)).data["indexed"] is not None


@pytest.mark.parametrize(
    "by", ["{title: ASC}", "{votes: ASC}, {title: ASC}", "{address: {city: ASC}}"]
)
async def test_other_orders_are_rejected(service: Service, by: str) -> None:
    text = f"{{ indexed(orderBy: [{by}]) {{ id }} }}"
    for headers, names in ((EDITOR, "votes, secret"), ({}, "votes")):
        reply = await service.query("app", text, headers=headers)
        assert reply.code == "not-indexed"
        assert reply.error["message"] == f"orderBy: no index has this order; indexed: {names}"


async def test_writing_warns_about_orders_without_index(service: Service) -> None:
    result = await service.define("warned", SCHEMA, build_mappings(service))
    shown = [str(one).partition(" (")[0] for one in result.warnings if "indexed-only" in str(one)]
    prefix = "mappings.Query.indexed.orderBy.fields: no index begins with"
    assert shown == [
        f"{prefix} name: with indexed-only, title cannot be used alone",
        f"{prefix} address.town: with indexed-only, address.city cannot be used alone",
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"fields": []}, "orderBy.fields: must be a list of fields, with one field or more"),
        ({"fields": {"title": 1}}, "orderBy.fields: must be a list of fields"),
        ({"fields": ["titel"]}, "orderBy.fields[0]: the type Post has no field titel"),
        ({"fields": ["votes", "tags"]}, "orderBy.fields[1]: is a list, which has no order"),
        ({"fields": ["address"]}, "orderBy.fields[0]: is an object: name one of its fields"),
        ({"fields": ["raw"]}, "orderBy.fields[0]: is a BsonDocument, which has no order"),
        ({"fields": [1]}, "orderBy.fields[0]: must be the name of a field, not a number"),
    ],
)
async def test_wrong_mappings_are_rejected(service: Service, config: Any, message: str) -> None:
    mappings = build_mappings(service)
    mappings["Query"]["posts"]["orderBy"] = config
    with pytest.raises(DefinitionError) as caught:
        await service.define("wrong", SCHEMA, mappings)
    assert f"mappings.Query.posts.{message}" in str(caught.value)


@pytest.mark.parametrize(("down", "expected"), [("-1", [5, 4, 2, 1, 3]), ('"up"', [5, 4, 2, 1, 3])])
async def test_an_enum_of_the_author_is_shared(
    service: Service, down: str, expected: list[int]
) -> None:
    mappings = build_mappings(service)
    mappings["SortOrder"] = {"ASC": 1, "DESC": -1 if down == "-1" else "up"}
    await service.define("shared", SCHEMA + "enum SortOrder { DESC ASC }", mappings)
    reply = await service.query("shared", "{ posts(orderBy: [{votes: DESC}]) { id } }")
    assert [post["id"] for post in reply.data["posts"]] == expected
