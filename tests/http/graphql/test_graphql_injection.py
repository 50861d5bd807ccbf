"""What callers send stays a value: no operator, stage, path or collection comes from them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.exchange.errors import DefinitionError
from tests.http.harness import Document, Mongo, Service, build_definition, names_of, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query {
  byText(v: String): [Row]
  byId(v: ID): [Row]
  byInt(v: Int): [Row]
  byLong(v: Long): [Row]
  byObjectId(v: ObjectId): [Row]
  byDate(v: DateTime): [Row]
  byEnum(v: Kind): [Row]
  byList(v: [String]): [Row]
  byInput(v: Where): [Row]
  byWhole(v: Where): [Row]
  byDocument(v: BsonDocument): [Row]
  matched(v: String): [Row]
  matchedInput(v: Where): [Row]
  computed(v: String): [Row]
  computedDocument(v: BsonDocument): [Row]
  matchedDocument(v: BsonDocument): [Row]
  sorted(v: String): [Row]
}
enum Kind { A B }
input Where { name: String, secret: String }
type Row { name: String shown: String }
"""
OPERATORS: list[Any] = [
    {"$ne": None},
    {"$gt": ""},
    {"$regex": ".*"},
    {"$in": ["one", "two"]},
    {"$exists": True},
    {"$where": "true"},
    {"$not": {"$eq": "x"}},
    {"$expr": {"$eq": [1, 1]}},
    {"$type": "string"},
    [{"$ne": None}],
]


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        service.insert(
            "rows",
            {"name": "one", "secret": "s3cret", "kind": "A"},
            {"name": "two", "secret": "hidden", "kind": "B"},
            {"name": "$secret", "secret": "x"},
        )
        value = {"$arg": "v"}
        fields = ("byText", "byId", "byInt", "byLong", "byObjectId", "byDate")
        queries: Document = {name: service.find("rows", {"name": value}) for name in fields}
        shown = {"$project": {"name": 1, "shown": value}}
        queries |= {
            "byEnum": service.find("rows", {"kind": value}),
            "byList": service.find("rows", {"name": {"$in": value}}),
            "byInput": service.find("rows", {"name": {"$arg": "v.name"}}),
            "byWhole": service.find("rows", {"name": value}),
            "byDocument": service.find("rows", value),
            "matched": service.stages("rows", {"$match": {"name": value}}),
            "matchedInput": service.stages("rows", {"$match": {"name": value}}),
            "matchedDocument": service.stages("rows", {"$match": value}),
            "computed": service.stages("rows", {"$sort": {"name": -1}}, shown),
            "computedDocument": service.stages("rows", {"$sort": {"name": -1}}, shown),
            "sorted": service.find("rows", {}, sort={"name": 1}, limit=1),
        }
        await service.define("shop", SCHEMA, {"Query": queries})
        yield service


async def ask(service: Service, field: str, type_: str, value: Any) -> Any:
    query = f"query ($v: {type_}) {{ {field}(v: $v) {{ name shown }} }}"
    return await service.query("shop", query, {"v": value})


def literal(value: Any) -> str:
    """A value as GraphQL writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {literal(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return json.dumps(value)


# --- arguments that are values --------------------------------------------------------------------


@pytest.mark.parametrize("payload", OPERATORS, ids=json.dumps)
@pytest.mark.parametrize(
    ("field", "type_"),
    [
        ("byText", "String"),
        ("byId", "ID"),
        ("byInt", "Int"),
        ("byLong", "Long"),
        ("byObjectId", "ObjectId"),
        ("byDate", "DateTime"),
        ("byEnum", "Kind"),
        ("matched", "String"),
        ("computed", "String"),
    ],
)
async def test_an_operator_is_no_value_of_a_scalar(
    service: Service, field: str, type_: str, payload: Any
) -> None:
    """Decision 20a, drill N01: by variable, and as a literal."""
    reply = await ask(service, field, type_, payload)
    assert (reply.status, reply.json["data"]) == (400, None)

    reply = await service.query("shop", f"{{ {field}(v: {literal(payload)}) {{ name }} }}")
    assert (reply.status, reply.json["data"]) == (400, None)


@pytest.mark.parametrize("text", ["$secret", "$$ROOT", "$$CURRENT.secret", "{$ne: null}", "$where"])
async def test_a_text_that_looks_like_a_path_is_a_text(service: Service, text: str) -> None:
    """Decision 20a: `"$password"` is a text, not a path."""
    for field in ("byText", "matched"):
        reply = await ask(service, field, "String", text)
        expected = ["$secret"] if text == "$secret" else []
        assert names_of(reply.data[field]) == expected

    reply = await ask(service, "computed", "String", text)
    assert {row["shown"] for row in reply.data["computed"]} == {text}


@pytest.mark.parametrize("payload", OPERATORS[:-1], ids=json.dumps)
async def test_an_operator_inside_an_input_object_or_list_is_refused(
    service: Service, payload: Any
) -> None:
    """Decision 20a, drill N01."""
    for field, type_, value in (
        ("byList", "[String]", [payload]),
        ("byInput", "Where", {"name": payload}),
        ("byInput", "Where", payload),
        ("byWhole", "Where", {"$ne": None}),
    ):
        reply = await ask(service, field, type_, value)
        assert (reply.status, reply.json["data"]) == (400, None)


async def test_an_input_object_is_compared_as_a_whole(service: Service) -> None:
    """Decision 20a: its fields are no conditions."""
    for field in ("byWhole", "matchedInput"):
        reply = await ask(service, field, "Where", {"name": "one"})
        assert reply.data[field] == []


# --- documents ------------------------------------------------------------------------------------


async def test_a_document_argument_may_carry_query_operators(service: Service) -> None:
    """Decision 20a."""
    for field in ("byDocument", "matchedDocument"):
        reply = await ask(service, field, "BsonDocument", {"name": {"$in": ["one", "two"]}})
        assert names_of(reply.data[field]) == ["one", "two"]
    reply = await service.query("shop", "{ byDocument(v: {name: {_x: 1}}) { name } }")
    assert reply.data == {"byDocument": []}


def wrap(payload: Document, depth: int) -> Document:
    for level in range(depth):
        payload = {"$and": [payload]} if level % 2 else {"$or": [payload, {"name": "x"}]}
    return payload


@pytest.mark.parametrize("depth", [0, 1, 5, 20])
@pytest.mark.parametrize(
    "payload",
    [
        {"$where": "true"},
        {"$expr": {"$eq": [1, 1]}},
        {"$expr": {"$function": {"body": "function() { return true }", "args": [], "lang": "js"}}},
        {"name": {"$function": {"body": "f", "args": [], "lang": "js"}}},
        {"name": {"$accumulator": {}}},
        {"a": {"$elemMatch": {"$where": "1"}}},
        {"a": [{"$where": "1"}]},
    ],
    ids=json.dumps,
)
async def test_code_in_a_document_argument_is_refused(
    service: Service, payload: Document, depth: int
) -> None:
    """Decision 20a, drill N02."""
    for field in ("byDocument", "matchedDocument"):
        reply = await ask(service, field, "BsonDocument", wrap(payload, depth))
        assert reply.json["data"] in (None, {field: None}), reply.text
        assert reply.errors


async def test_escapes_do_not_hide_an_operator(service: Service) -> None:
    """Drill N02: `\\u0024where`."""
    body = (
        '{"query": "query ($v: BsonDocument) { byDocument(v: $v) { name } }", '
        '"variables": {"v": {"\\u0024where": "true"}}}'
    )
    reply = await service.send("shop", body, "application/json")

    assert reply.json["data"] in (None, {"byDocument": None})


async def test_in_an_expression_a_document_is_a_value(service: Service) -> None:
    """Decision 20a: wrapped in `$literal`."""
    reply = await ask(service, "computedDocument", "BsonDocument", {"$concat": ["$secret", ""]})

    assert "s3cret" not in reply.text


# --- definitions ----------------------------------------------------------------------------------

STAGES: list[Document] = [
    {"$out": "evil"},
    {"$out": {"db": "evil", "coll": "x"}},
    {"$merge": "evil"},
    {"$merge": {"into": {"db": "evil", "coll": "x"}}},
    {"$currentOp": {}},
    {"$listSessions": {}},
    {"$listLocalSessions": {}},
    {"$collStats": {}},
    {"$indexStats": {}},
    {"$planCacheStats": {}},
    {"$changeStream": {}},
    {"$listSampledQueries": {}},
    {"$shardedDataDistribution": {}},
    {"$queryStats": {}},
    {"$listCatalog": {}},
    {"$match": {"$where": "1"}},
    {"$match": {"$expr": {"$function": {"body": "f", "args": [], "lang": "js"}}}},
    {"$group": {"_id": None, "a": {"$accumulator": {}}}},
    {"$lookup": {"from": {"db": "other", "coll": "x"}, "as": "y", "pipeline": []}},
    {"$unionWith": {"coll": "system.users"}},
    {"$lookup": {"from": "system.profile", "as": "y", "localField": "a", "foreignField": "b"}},
    {"$OUT": "evil"},
    {"$unknownStage": {}},
    {},
    {"$match": {}, "$out": "evil"},
]


@pytest.mark.parametrize("stage", STAGES, ids=json.dumps)
async def test_a_dangerous_stage_is_refused_wherever_it_stands(
    service: Service, mongo_client: Mongo, stage: Document
) -> None:
    """Decision 20a, drill N04."""
    for stages in (
        [stage],
        [{"$facet": {"a": [stage]}}],
        [{"$lookup": {"from": "rows", "as": "x", "pipeline": [stage]}}],
        [{"$unionWith": {"coll": "rows", "pipeline": [stage]}}],
        [{"$ifarg": ["v", stage]}],
        [{"$ifarg": ["v", {"$match": {}}, [stage]]}],
    ):
        definition = build_definition(
            "bad",
            "type Query { a(v: String): [Row] } type Row { name: String }",
            {"Query": {"a": service.stages("rows", *stages)}},
        )
        with pytest.raises(DefinitionError, match=r"mappings\.Query\.a\.stages"):
            await service.store(definition)
    assert "evil" not in mongo_client.list_database_names()


@pytest.mark.parametrize(
    "mapping",
    [
        {"stages": [{"$arg": "v"}]},
        {"stages": {"$arg": "v"}},
        {"collection": {"$arg": "v"}},
        {"db": {"$arg": "v"}, "collection": "rows"},
        {"stages": [{"$lookup": {"from": {"$arg": "v"}, "as": "x", "pipeline": []}}]},
        {"stages": [{"$unionWith": {"$arg": "v"}}]},
        {"stages": [{"$lookup": {"from": "rows", "as": "x", "pipeline": {"$arg": "v"}}}]},
        {"stages": [{"$facet": {"$arg": "v"}}]},
    ],
    ids=json.dumps,
)
async def test_a_stage_or_collection_never_comes_from_an_argument(
    service: Service, mapping: Document
) -> None:
    """Decision 20a, drill N05: refused when written, or when asked."""
    mapping = {"db": service.db, "collection": "rows", **mapping}
    definition = build_definition(
        "sly",
        "type Query { a(v: BsonDocument, s: String): [Row] } type Row { name: String }",
        {"Query": {"a": mapping}},
    )
    try:
        await service.store(definition)
    except DefinitionError:
        return
    values: list[Any] = [
        {"$out": "evil"},
        {"$match": {}},
        {"a": [{"$match": {}}]},
        {"coll": "rows"},
    ]
    for value in values:
        reply = await service.query(
            "sly", "query ($v: BsonDocument) { a(v: $v) { name } }", {"v": value}
        )
        assert reply.json["data"] in (None, {"a": None}), reply.text


@pytest.mark.parametrize("db", ["admin", "config", "local", "", "a$b", "a/b", "a\0b", "x" * 300])
async def test_databases_that_are_not_for_apps_are_refused(service: Service, db: str) -> None:
    """Decision 20a, drill N06."""
    definition = build_definition(
        "bad", "type Query { a: Int }", {"Query": {"a": {"db": db, "collection": "c"}}}
    )
    with pytest.raises(DefinitionError, match=r"mappings\.Query\.a"):
        await service.store(definition)


@pytest.mark.parametrize("collection", ["system.users", "system.js", "", "a$b", "a\0b", "x" * 300])
async def test_collections_that_are_not_for_apps_are_refused(
    service: Service, collection: str
) -> None:
    """Decision 20a, drill N06."""
    mapping = {"db": service.db, "collection": collection}
    definition = build_definition("bad", "type Query { a: Int }", {"Query": {"a": mapping}})
    with pytest.raises(DefinitionError, match=r"mappings\.Query\.a"):
        await service.store(definition)


async def test_errors_name_no_host_file_or_python_type(service: Service) -> None:
    """Decision 22, drill I06."""
    await service.define(
        "broken",
        "type Query { a: [Row] b: [Row] } type Row { name: String }",
        {
            "Query": {
                "a": service.stages("rows", {"$project": {"name": {"$toInt": "$name"}}}),
                "b": service.find("rows", {"name": {"$regex": {"$arg": ["@user.pattern", "("]}}}),
            }
        },
    )

    reply = await service.query("broken", "{ a { name } b { name } }")

    assert reply.status == 200
    assert len(reply.errors) == 2
    for part in ("127.0.0.1", "Traceback", ".py", "pymongo", "Error(", service.db, "$toInt"):
        assert part not in reply.text
