"""`filter` in a mapping: the generated argument `where`, its conditions, roles and limits."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from bson import Decimal128, ObjectId

from docgraph.exchange.errors import DefinitionError
from docgraph.server.builtin import BUILTIN
from tests.http.access_harness import TestCaller, caller
from tests.http.harness import Document, Mongo, Service, listening_to_fields, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query {
  posts(limit: Int): [Post!]
  indexed: [Post!]
  plain: [Post!]
  users: [User!]
  things: [Thing!]
}
type Post implements Thing {
  id: ID
  title: String
  status: Status
  published: DateTime
  votes: Int
  price: Decimal128
  tags: [String!]
  marks: [Int]
  address: Address
  comments: [Comment!]
  place: BsonDocument
  secret: String @visible(roles: ["editor"])
  about: BsonDocument
}
type Address { city: String  street: String @visible(roles: ["editor"]) }
type Comment { by: String  stars: Int }
type User { id: ID  posts(limit: Int): [Post!] }
enum Status { DRAFT LIVE }
interface Thing { title: String }
"""
FIELDS: Document = {
    "id": ["eq", "ne", "in", "nin"],
    "title": ["eq", "ne", "in", "nin", "range", "prefix", "contains", "exists"],
    "status": ["eq", "in", "ne"],
    "published": ["range", "exists"],
    "votes": ["eq", "range"],
    "price": ["range"],
    "tags": ["has", "any", "exists"],
    "marks": ["has", "any", "exists"],
    "address.city": ["eq", "prefix"],
    "address.street": ["eq"],
    "comments.by": ["eq"],
    "comments.stars": ["gte"],
    "place": ["near"],
    "secret": ["eq"],
    "about": ["eq", "in", "ne"],
}
POSTS: list[Document] = [
    {
        "_id": ObjectId("650000000000000000000001"),
        "name": "Alpha",
        "status": "draft",
        "published": datetime(2024, 1, 1),
        "votes": 1,
        "price": Decimal128("1.5"),
        "tags": ["a", "b"],
        "address": {"town": "Rome", "street": "Via"},
        "comments": [{"by": "ada", "stars": 1}, {"by": "bob", "stars": 5}],
        "place": {"type": "Point", "coordinates": [12.5, 41.9]},
        "secret": "x",
        "userId": 1,
        "about": {"$gt": 1},
    },
    {
        "_id": 2,
        "name": "Alphabet (.*)",
        "status": "live",
        "published": datetime(2024, 6, 1),
        "votes": 5,
        "price": Decimal128("10"),
        "tags": ["b", "c"],
        "address": {"town": "Paris"},
        "comments": [{"by": "ada", "stars": 5}],
        "place": {"type": "Point", "coordinates": [2.35, 48.85]},
        "userId": 1,
        "about": {"a": 1},
    },
    {
        "_id": "3",
        "name": "beta",
        "status": "live",
        "votes": 9,
        "tags": [None],
        "userId": 2,
        "rated": [{"n": 1}, {}],
    },
    {
        "_id": "4",
        "name": None,
        "votes": None,
        "tags": [],
        "userId": 2,
        "published": None,
        "rated": {"n": 1},
    },
    {"_id": "5", "userId": 2, "name": "\U0010ffff\U0010ffffz"},
]
EDITOR = caller("ed", "editor")
READER = caller("ray", "reader")


def build_mappings(service: Service) -> Document:
    posts = service.find("posts", {}, sort={"userId": 1, "_id": 1}, limit={"$arg": ["limit", 100]})
    return {
        "Query": {
            "posts": {**posts, "filter": {"fields": FIELDS}},
            "plain": service.find("posts"),
            "indexed": {
                **service.find("posts"),
                "filter": {
                    "fields": {
                        "votes": ["eq", "range", "ne"],
                        "title": ["eq", "contains"],
                        "secret": ["eq"],
                        "tags": ["has"],
                    },
                    "indexed-only": True,
                },
            },
            "users": service.find("users", {}, sort={"_id": 1}),
            "things": {**service.find("posts"), "filter": {"fields": {"title": ["eq"]}}},
        },
        "Post": {"id": "_id", "title": "name", "marks": "rated.n"},
        "Address": {"city": "town"},
        "User": {
            "id": "_id",
            "posts": {
                **service.find("posts", {"userId": {"$fk": "_id"}}, sort={"votes": 1}),
                "limit": {"$arg": ["limit", 100]},
                "filter": {"fields": FIELDS},
            },
        },
        "Status": {"DRAFT": "draft", "LIVE": "live"},
        "Thing": {"$typeResolver": {"Post": "true"}},
    }


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, plugins=[*BUILTIN, TestCaller]) as service:
        service.insert("posts", *copy.deepcopy(POSTS))
        service.insert("users", {"_id": 1}, {"_id": 2}, {"_id": 3})
        service.mongo[service.db]["posts"].create_index({"votes": 1})
        service.mongo[service.db]["posts"].create_index({"secret": 1})
        await service.define("app", SCHEMA, build_mappings(service))
        yield service


async def find(service: Service, where: Any, field: str = "posts") -> list[str]:
    """The ids of the posts, with the conditions in a variable."""
    type_ = "QueryIndexedWhere" if field == "indexed" else "PostWhere"
    text = f"query ($where: {type_}) {{ {field}(where: $where) {{ id }} }}"
    reply = await service.query("app", text, {"where": where}, headers=EDITOR)
    return sorted(post["id"][-1] for post in reply.data[field])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, "12345"),
        ({}, "12345"),
        ({"title": {}}, "12345"),
        ({"title": {"eq": "beta"}}, "3"),
        ({"title": {"eq": None}}, "4"),
        ({"title": {"ne": "beta"}}, "1245"),
        ({"title": {"ne": None}}, "1235"),
        ({"title": {"exists": True}}, "1235"),
        ({"title": {"exists": False}}, "4"),
        ({"title": {"in": ["beta", "Alpha"]}}, "13"),
        ({"title": {"in": []}}, ""),
        ({"title": {"nin": ["beta", "Alpha"]}}, "245"),
        ({"title": {"nin": []}}, "12345"),
        ({"title": {"gte": "Alpha", "lt": "b"}}, "12"),
        ({"title": {"prefix": "Alpha"}}, "12"),
        ({"title": {"prefix": "Alphabet"}}, "2"),
        ({"title": {"prefix": "alpha"}}, ""),
        ({"title": {"prefix": "\U0010ffff"}}, "5"),
        ({"title": {"prefix": ".*"}}, ""),
        ({"title": {"contains": "pha"}}, "12"),
        ({"title": {"contains": "(.*)"}}, "2"),
        ({"title": {"contains": ".*)"}}, "2"),
        ({"title": {"contains": "..."}}, ""),
        ({"status": {"eq": "LIVE"}}, "23"),
        ({"status": {"in": ["LIVE", "DRAFT"]}}, "123"),
        ({"status": {"ne": "LIVE"}}, "145"),
        ({"published": {"gt": "2024-01-01", "lte": "2024-06-01"}}, "2"),
        ({"published": {"exists": False}}, "345"),
        ({"votes": {"gte": 5}}, "23"),
        ({"votes": {"lt": 5}}, "1"),
        ({"price": {"gt": "1.6"}}, "2"),
        ({"id": {"eq": "2"}}, "2"),
        ({"id": {"in": ["2", "3", "650000000000000000000001"]}}, "123"),
        ({"id": {"ne": "2"}}, "1345"),
        ({"id": {"nin": ["2", "3"]}}, "145"),
        ({"tags": {"has": "b"}}, "12"),
        ({"tags": {"any": ["a", "c"]}}, "12"),
        ({"tags": {"any": []}}, ""),
        ({"tags": {"exists": True}}, "124"),
        ({"tags": {"exists": False}}, "35"),
        ({"address": {"city": {"eq": "Rome"}}}, "1"),
        ({"address": {"city": {"prefix": "P"}, "street": {"eq": None}}}, "2"),
        ({"comments": {"any": {"by": {"eq": "ada"}, "stars": {"gte": 5}}}}, "2"),
        ({"comments": {"any": {"stars": {"gte": 5}}}}, "12"),
        ({"comments": {"any": {}}}, "12"),
        ({"marks": {"exists": True}}, "3"),
        ({"marks": {"exists": False}}, "1245"),
        ({"marks": {"has": None}}, "3"),
        ({"marks": {"any": [1, 2]}}, "3"),
        ({"title": {"prefix": ""}}, "1235"),
        ({"not": {"status": {"eq": "LIVE"}}}, "145"),
        ({"not": {}}, ""),
        ({"not": {"title": {"in": []}}}, "12345"),
        ({"and": [{"votes": {"gte": 1}}, {"tags": {"has": "b"}}]}, "12"),
        ({"and": []}, "12345"),
        ({"or": [{"title": {"eq": "beta"}}, {"votes": {"lt": 2}}]}, "13"),
        ({"or": []}, ""),
        ({"or": [{"title": {"in": []}}, {"votes": {"lt": 2}}]}, "1"),
        ({"or": [{"title": {"in": []}}]}, ""),
        ({"or": [{}, {"votes": {"lt": 2}}]}, "12345"),
        ({"votes": {"gte": 1}, "or": [{"tags": {"has": "c"}}, {"title": {"eq": "beta"}}]}, "23"),
        ({"place": {"near": {"longitude": 12, "latitude": 42, "maxDistance": 100_000}}}, "1"),
        ({"place": {"near": {"longitude": 12, "latitude": 42, "maxDistance": 2_000_000}}}, "12"),
        ({"about": {"eq": {"a": 1}}}, "2"),
        ({"about": {"eq": {"$gt": 1}}}, "1"),
        ({"about": {"in": [{"$gt": 1}, {"a": 1}]}}, "12"),
        ({"about": {"ne": {"$gt": 1}}}, "2345"),
        ({"about": {"eq": {"$regex": "a"}}}, ""),
    ],
)
async def test_conditions(service: Service, where: Any, expected: str) -> None:
    assert "".join(await find(service, where)) == expected


async def test_conditions_as_literals_and_with_variables_inside(service: Service) -> None:
    text = """query ($status: Status, $tags: [String!]) {
      posts(where: {status: {eq: $status}, or: [{tags: {any: $tags}}, {title: {eq: "beta"}}]})
      { title }
    }"""
    variables = {"status": "LIVE", "tags": ["c"]}
    data = (await service.query("app", text, variables)).data
    assert [post["title"] for post in data["posts"]] == ["Alphabet (.*)", "beta"]

    # A variable that is not given is no condition.
    data = (await service.query("app", text, {"tags": ["a"]})).data
    assert [post["title"] for post in data["posts"]] == ["Alpha", "beta"]


async def test_the_author_s_filter_still_holds(service: Service) -> None:
    mappings = build_mappings(service)
    mappings["Query"]["posts"]["find"] = {"status": "live", "$or": [{"votes": 5}, {"votes": 9}]}
    await service.define("fixed", SCHEMA, mappings)
    text = '{ posts(where: {or: [{status: {eq: DRAFT}}, {title: {eq: "beta"}}]}) { title } }'
    assert (await service.query("fixed", text)).data == {"posts": [{"title": "beta"}]}


# --- relations ------------------------------------------------------------------------------------


async def test_relations_are_filtered_in_one_command(service: Service) -> None:
    text = "{ users { id posts(where: {votes: {gte: 2}}) { title } } }"
    with listening_to_fields() as commands:
        data = (await service.query("app", text)).data
    assert data["users"] == [
        {"id": "1", "posts": [{"title": "Alphabet (.*)"}]},
        {"id": "2", "posts": [{"title": "beta"}]},
        {"id": "3", "posts": []},
    ]
    assert [event.command for event in commands if event.app] == ["find", "find"]


@pytest.mark.parametrize("loader", [{"batching": False}, {"maxBatchSize": 1}])
async def test_relations_of_each_kind_are_filtered(service: Service, loader: Document) -> None:
    mappings = build_mappings(service)
    mappings["User"]["posts"]["dataLoader"] = loader
    await service.define("loaded", SCHEMA, mappings)
    text = '{ users { id posts(where: {tags: {has: "c"}}) { title } } }'
    data = (await service.query("loaded", text)).data
    assert [len(user["posts"]) for user in data["users"]] == [1, 0, 0]


async def test_a_relation_that_depends_on_more_than_a_key_is_filtered(service: Service) -> None:
    mappings = build_mappings(service)
    mappings["User"]["posts"]["find"] = {"$or": [{"userId": {"$fk": "_id"}}, {"votes": 9}]}
    await service.define("odd", SCHEMA, mappings)
    text = "{ users { posts(where: {status: {eq: LIVE}}) { title } } }"
    data = (await service.query("odd", text)).data
    found = [[post["title"] for post in user["posts"]] for user in data["users"]]
    assert found == [["Alphabet (.*)", "beta"], ["beta"], ["beta"]]


async def test_nothing_is_sent_for_conditions_that_cannot_hold(service: Service) -> None:
    text = "{ users { posts(where: {title: {in: []}}) { title } } posts(where: {or: []}) { id } }"
    with listening_to_fields() as commands:
        data = (await service.query("app", text)).data
    assert data == {"users": [{"posts": []}] * 3, "posts": []}
    assert len([event for event in commands if event.app]) == 1


# --- roles ----------------------------------------------------------------------------------------

INTROSPECT = '{ __type(name: "%s") { inputFields { name } } }'


async def list_inputs(service: Service, name: str, headers: dict[str, str]) -> set[str]:
    reply = await service.query("app", INTROSPECT % name, headers=headers)
    type_ = reply.data["__type"]
    return {field["name"] for field in type_["inputFields"]} if type_ else set()


async def test_hidden_fields_are_no_conditions(service: Service) -> None:
    everything = {"and", "or", "not", "id", "title", "status", "published", "votes", "price"}
    everything |= {"tags", "marks", "address", "comments", "place", "about", "secret"}
    assert await list_inputs(service, "PostWhere", EDITOR) == everything
    assert await list_inputs(service, "PostWhere", READER) == everything - {"secret"}
    assert await list_inputs(service, "PostWhereAddress", READER) == {"city"}
    assert await list_inputs(service, "PostWhereSecret", EDITOR) == {"eq"}
    assert await list_inputs(service, "PostWhereSecret", READER) == set()


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ('{ posts(where: {secret: {eq: "x"}}) { id } }', None),
        ('{ posts(where: {not: {or: [{secret: {eq: "x"}}]}}) { id } }', None),
        ('{ users { posts(where: {secret: {eq: "x"}}) { id } } }', None),
        ('{ ...F } fragment F on Query { posts(where: {secret: {eq: "x"}}) { id } }', None),
        ('{ posts(where: {address: {street: {eq: "x"}}}) { id } }', None),
        ("query ($w: PostWhere) { posts(where: $w) { id } }", {"w": {"secret": {"eq": "x"}}}),
        ('query ($w: PostWhere = {secret: {eq: "x"}}) { posts(where: $w) { id } }', None),
        ("query ($w: PostWhereSecret) { posts(where: {secret: $w}) { id } }", {"w": {"eq": "x"}}),
    ],
)
async def test_hidden_fields_are_as_unknown_ones(
    service: Service, text: str, variables: Any
) -> None:
    reply = await service.query("app", text, variables, headers=READER)
    assert reply.json.get("data") is None
    unknown = text.replace("secret", "nothing").replace("Secret", "Nothing")
    unknown = unknown.replace("street", "nothing")
    other = await service.query(
        "app",
        unknown,
        {"w": {"nothing": {"eq": "x"}}} if variables and "secret" in variables["w"] else variables,
        headers=READER,
    )
    shown = [m.replace("nothing", "secret").replace("Nothing", "Secret") for m in other.messages]
    if "street" in text:
        shown = [m.replace("secret", "street") for m in shown]
    assert reply.messages == shown


async def test_hidden_fields_are_not_suggested(service: Service) -> None:
    for name in ("secre", "secrets"):
        text = f'{{ posts(where: {{{name}: {{eq: "x"}}}}) {{ id }} }}'
        reply = await service.query("app", text, headers=READER)
        assert "secret'" not in reply.text


# --- indexed-only ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"votes": {"eq": 5}},
        {"votes": {"gt": 0}, "title": {"contains": "pha"}},
        {"or": [{"votes": {"eq": 5}}, {"votes": {"gt": 0}, "title": {"eq": "beta"}}]},
        {"votes": {"gt": 0}, "or": [{"title": {"eq": "beta"}}, {"not": {"votes": {"eq": 1}}}]},
        {"and": [{"title": {"eq": "beta"}}, {"votes": {"eq": 5}}]},
        {"or": []},
    ],
)
async def test_indexed_conditions_pass(service: Service, where: Any) -> None:
    await find(service, where, "indexed")


@pytest.mark.parametrize(
    "where",
    [
        {"title": {"eq": "beta"}},
        {"title": {"contains": "pha"}},
        {"tags": {"has": "a"}},
        {"votes": {"ne": 5}},
        {"not": {"votes": {"eq": 5}}},
        {"or": [{"votes": {"eq": 5}}, {"title": {"eq": "beta"}}]},
        {"or": [{"votes": {"eq": 5}}, {"not": {"votes": {"eq": 5}}}]},
    ],
)
async def test_other_conditions_are_rejected(service: Service, where: Any) -> None:
    text = "query ($where: QueryIndexedWhere) { indexed(where: $where) { id } }"
    for headers, names in ((EDITOR, "votes, secret"), (READER, "votes")):
        reply = await service.query("app", text, {"where": where}, headers=headers)
        assert reply.status == 200
        assert reply.json["data"] == {"indexed": None}
        assert reply.code == "not-indexed"
        assert reply.error["path"] == ["indexed"]
        assert reply.error["message"].endswith(f"; indexed: {names}")


async def test_a_relation_by_an_indexed_key_is_indexed(service: Service) -> None:
    mappings = build_mappings(service)
    mappings["User"]["posts"]["filter"]["indexed-only"] = True
    await service.define("relation", SCHEMA, mappings)
    text = '{ users { posts(where: {title: {eq: "beta"}}) { title } } }'
    reply = await service.query("relation", text)
    assert reply.json["data"] == {"users": [{"posts": None}] * 3}
    assert {error["extensions"]["code"] for error in reply.errors} == {"not-indexed"}

    mappings["User"]["posts"]["find"] = {"votes": {"$fk": "_id"}}
    await service.define("relation", SCHEMA, mappings)
    assert (await service.query("relation", text)).data["users"][0] == {"posts": []}


async def test_writing_warns_about_fields_without_index(service: Service) -> None:
    result = await service.define("warned", SCHEMA, build_mappings(service))
    shown = [str(one) for one in result.warnings if "indexed-only" in str(one)]
    prefix = "mappings.Query.indexed.filter.fields"
    assert shown == [
        f"{prefix}.{name}: no index begins with {path}: with indexed-only, {name} cannot be used"
        f" alone (make an index {{{path}: 1}}, or remove the field)"
        for name, path in (("title", "name"), ("tags", "tags"))
    ]


# --- wrong values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"title": {"prefix": None}}, "where.title.prefix: cannot be null"),
        ({"title": {"contains": "ab"}}, "where.title.contains: needs at least 3 characters"),
        ({"title": {"contains": "a" * 257}}, "where.title.contains: takes at most 256 characters"),
        (
            {"title": {"contains": "abc\0"}},
            "where.title.contains: cannot contain the character U+0000",
        ),
        ({"votes": {"gt": None}}, "where.votes.gt: cannot be null"),
        ({"title": {"in": None}}, "where.title.in: cannot be null"),
        ({"title": {"exists": None}}, "where.title.exists: must be true or false"),
        ({"or": [{}, {"votes": {"gt": None}}]}, "where.or[1].votes.gt: cannot be null"),
        (
            {"comments": {"any": {"stars": {"gte": None}}}},
            "where.comments.any.stars.gte: cannot be null",
        ),
        (
            {"and": [{"title": {"in": ["a"] * 600}}, {"title": {"nin": ["a"] * 600}}]},
            "where.and[1].title.nin: the lists of where have more than 1000 values",
        ),
        ({"or": [{}] * 201}, "where.or: where has more than 200 conditions"),
        (
            {"title": {"eq": "a" * 65_537}},
            "where.title.eq: the values of where have more than 65536 characters",
        ),
        (
            {"place": {"near": {"longitude": 200, "latitude": 42, "maxDistance": 1}}},
            "where.place.near: longitude must be from -180 to 180, latitude from -90 to 90",
        ),
        (
            {"place": {"near": {"longitude": 20, "latitude": 42, "maxDistance": 0}}},
            "where.place.near: maxDistance must be above 0 and at most 20000000 meters",
        ),
    ],
)
async def test_wrong_values_are_field_errors(service: Service, where: Any, message: str) -> None:
    text = "query ($where: PostWhere) { posts(where: $where) { id } plain { id } }"
    reply = await service.query("app", text, {"where": where})
    assert reply.error["message"] == message
    assert reply.error["path"] == ["posts"]
    assert reply.error["locations"] == [{"line": 1, "column": 29}]
    assert reply.code in ("bad-where", "where-too-large")
    assert len(reply.json["data"]["plain"]) == 5


async def test_nesting_is_bounded(service: Service) -> None:
    where: Any = {"votes": {"gt": 0}}
    for _ in range(10):
        where = {"not": {"and": [where]}} if _ % 2 else {"or": [where]}
    text = "query ($where: PostWhere) { posts(where: $where) { id } }"
    reply = await service.query("app", text, {"where": where})
    assert "nested deeper than 10 levels" in reply.error["message"]


@pytest.mark.parametrize(
    "where",
    ["{votes: {in: [1]}}", "{nothing: {eq: 1}}", '{votes: {eq: "1"}}', '{status: {eq: "LIVE"}}'],
)
async def test_what_is_not_declared_does_not_validate(service: Service, where: str) -> None:
    reply = await service.query("app", f"{{ posts(where: {where}) {{ id }} }}")
    assert reply.error["extensions"]["classification"] == "ValidationError"
    assert reply.error["locations"]


# --- definitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "where", "message"),
    [
        ([], "filter", "must be an object, not an array"),
        ({}, "filter.fields", "must be an object of fields and their operators"),
        ({"fields": {"titel": ["eq"]}}, "filter.fields.titel", "the type Post has no field titel"),
        ({"fields": {"title": "eq"}}, "filter.fields.title", "must be a list of operators"),
        ({"fields": {"title": ["like"]}}, "filter.fields.title", "'like' is not an operator"),
        ({"fields": {"votes": ["prefix"]}}, "filter.fields.votes", "prefix is not possible"),
        ({"fields": {"status": ["range"]}}, "filter.fields.status", "range is not possible"),
        ({"fields": {"tags": ["eq"]}}, "filter.fields.tags", "eq is not possible for the type"),
        ({"fields": {"title.x": ["eq"]}}, "filter.fields.title.x", "title has no fields"),
        ({"fields": {"title": ["eq"]}, "indexed-only": 1}, "filter.indexed-only", "must be a bool"),
    ],
)
async def test_wrong_filters_are_rejected(
    service: Service, config: Any, where: str, message: str
) -> None:
    mappings = build_mappings(service)
    mappings["Query"]["posts"]["filter"] = config
    with pytest.raises(DefinitionError) as caught:
        await service.define("wrong", SCHEMA, mappings)
    assert f"mappings.Query.posts.{where}: {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("input PostWhere { title: String }", "generates the type PostWhere, which the schema has"),
        (
            "extend type Query { one: Post }",
            "mappings.Query.one.filter: needs a field that is a list",
        ),
        (
            "extend type Post { more: [Post] } extend type Query { some: [Post] }",
            "Post.more is fetched by a query of its own",
        ),
        ("extend type Post { and: Int }", "and has a meaning of its own in where"),
        ("extend type Query { raw: [BsonDocument] }", "needs a list of an object type"),
        (
            "extend type Query { asked(where: String): [Post] }",
            "needs an argument where of the type PostWhere",
        ),
        (
            "extend type User { found: [Post] }",
            "only fields of Query can search: in a relation the join finds the documents",
        ),
    ],
)
async def test_wrong_uses_are_rejected(service: Service, schema: str, message: str) -> None:
    mappings, title = build_mappings(service), {"fields": {"title": ["eq"]}}
    posts = service.find("posts")
    mappings["Query"] |= {
        "one": {**posts, "filter": title},
        "some": {**posts, "filter": {"fields": {"more.title": ["eq"]}}},
        "raw": {**posts, "filter": title},
        "asked": {**posts, "filter": {"fields": FIELDS}},
    }
    mappings["Post"]["more"] = posts
    mappings["User"]["found"] = {**posts, "filter": {"search": True}}
    if "and:" in schema:
        mappings["Query"]["posts"]["filter"] = {"fields": {"and": ["eq"]}}
    with pytest.raises(DefinitionError, match="Wrong GraphQL App") as caught:
        await service.define("wrong", SCHEMA + schema, mappings)
    assert message in str(caught.value)


async def test_the_stored_schema_stays_as_written(service: Service) -> None:
    assert service.definitions.find_one({"_id": "app"})["schema"] == SCHEMA


async def test_shapes_of_one_type_have_names_of_their_own(service: Service) -> None:
    text = """{ __type(name: "Query") { fields { name args { name type { name } } } } }"""
    fields = (await service.query("app", text)).data["__type"]["fields"]
    arguments = {
        field["name"]: one["type"]["name"]
        for field in fields
        for one in field["args"]
        if one["name"] == "where"
    }
    expected = {"posts": "PostWhere", "indexed": "QueryIndexedWhere", "things": "ThingWhere"}
    assert arguments == expected


async def test_interfaces_are_filtered(service: Service) -> None:
    data = (await service.query("app", '{ things(where: {title: {eq: "beta"}}) { title } }')).data
    assert data == {"things": [{"title": "beta"}]}
