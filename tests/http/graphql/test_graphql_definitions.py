"""Definitions as the endpoint sees them: where they are served, and what keeps them from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo.errors import DuplicateKeyError

from docgraph.codec import escape_keys
from docgraph.exchange import Deadline, Read, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import Conflict, DefinitionError, NotSupported
from docgraph.graphql.apps.app_index import ensure_index
from docgraph.graphql.sections import Graphql
from docgraph.observe.events import AppInvalid
from tests.http.harness import Document, Mongo, Service, build_definition, listening, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { items: [Item] } type Item { name: String }"
ASK = "{ items { name } }"


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        service.insert("items", {"name": "one"}, {"name": "two"})
        yield service


@pytest.fixture(autouse=True)
async def no_apps(service: Service) -> AsyncIterator[None]:
    yield
    service.definitions.delete_many({})
    await service.there(service.apps.revalidate())


def item_app(service: Service, id: Any, **descriptor: Any) -> Document:
    """An app with one field."""
    mappings = {"Query": {"items": service.find("items", {}, sort={"name": 1})}}
    return build_definition(id, SCHEMA, mappings, **descriptor)


async def is_served(service: Service, path: str) -> bool:
    reply = await service.query(path, ASK)
    assert reply.status in (200, 404), reply.text
    return reply.status == 200


# --- where an app is served -----------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["v1/users", "/v1/users", "v1/users/", "/v1/users/"])
@pytest.mark.parametrize("path", ["v1/users", "v1/users/", "v1//users", "v1/./users", "v1/us%65rs"])
async def test_slashes_at_the_ends_of_a_uri_do_not_matter(
    service: Service, uri: str, path: str
) -> None:
    """Decision 1."""
    await service.store(item_app(service, "users", uri=uri))

    assert await is_served(service, path)


@pytest.mark.parametrize(
    "path", ["V1/users", "v1/Users", "v1", "users", "v1/users/x", "v1%2Fusers"]
)
async def test_another_path_is_another_app(service: Service, path: str) -> None:
    """Decisions 1, 3 and 55: case matters, a uri is the only address, `%2F` separates nothing."""
    await service.store(item_app(service, "users", uri="v1/users"))

    assert not await is_served(service, path)


@pytest.mark.parametrize(
    ("id", "path"), [("with space", "with%20space"), ("über.µ", "%C3%BCber.%C2%B5"), ("a:b", "a:b")]
)
async def test_an_id_is_compared_with_the_decoded_path(
    service: Service, id: str, path: str
) -> None:
    """Decision 1."""
    await service.store(item_app(service, id))

    assert await is_served(service, path)


async def test_the_base_path_may_have_several_segments(mongo_client: Mongo, mongo_uri: str) -> None:
    """Decision 1."""
    async with running(mongo_client, mongo_uri, {"graphql": {"uri": "/api/v2/gql"}}) as service:
        service.insert("items", {"name": "one"})
        await service.store(item_app(service, "a"), item_app(service, "b", uri="deep/er"))

        assert await is_served(service, "a")
        assert await is_served(service, "deep/er")
        for path in ("/api/v2/a", "/api/gql/a", "/graphql/a"):
            reply = await service.request("POST", path, json={"query": ASK})
            assert "items" not in reply.text


async def test_an_id_of_any_type_is_fine_with_a_uri(service: Service) -> None:
    """`service.md`, rule 2."""
    ids = (ObjectId(), 7, Int64(8), 2.5, datetime(2020, 1, 1), {"a": 1})
    for number, id in enumerate(ids):
        await service.store(item_app(service, id, uri=f"n/{number}"))

    assert [await is_served(service, f"n/{number}") for number in range(len(ids))] == [True] * 6


async def test_a_definition_without_an_id_gets_one_if_it_has_a_uri(service: Service) -> None:
    """Decision 3."""
    document = item_app(service, None, uri="nameless")
    del document["_id"]

    await service.write("gql-apps", Write(WriteKind.INSERT, (document,)))

    assert await is_served(service, "nameless")
    assert isinstance(service.definitions.find_one()["_id"], ObjectId)


@pytest.mark.parametrize("id", [7, ObjectId(), "", "a/b", None, {"a": 1}])
async def test_without_a_uri_the_id_must_be_a_name(service: Service, id: Any) -> None:
    """Decision 3."""
    with pytest.raises(DefinitionError, match="Wrong GraphQL App definition: _id: must be a non-"):
        await service.store(item_app(service, id))

    assert service.definitions.count_documents({}) == 0


# --- enabled, disabled, deleted -------------------------------------------------------------------


@pytest.mark.parametrize("descriptor", [{}, {"description": "x"}, {"enabled": True}])
async def test_an_app_is_enabled_unless_it_says_otherwise(
    service: Service, descriptor: Document
) -> None:
    """Decision 2."""
    await service.store(item_app(service, "items", **descriptor))

    assert await is_served(service, "items")


async def test_a_disabled_or_deleted_app_is_byte_equal_to_one_that_never_was(
    service: Service,
) -> None:
    """Decision 2, drill I05."""
    await service.store(item_app(service, "disabled", enabled=False), item_app(service, "deleted"))
    await service.remove("deleted")
    replies = [await service.query(name, ASK) for name in ("never", "disabled", "deleted")]

    assert {reply.status for reply in replies} == {404}
    assert len({reply.response.content for reply in replies}) == 1
    headers = [
        [field for field in reply.headers.multi_items() if field[0] != "x-request-id"]
        for reply in replies
    ]
    assert headers[0] == headers[1] == headers[2]


async def test_a_change_is_served_at_the_next_request(service: Service) -> None:
    """Decision 2, and `service.md` on the cache."""
    await service.store(item_app(service, "items"))
    assert await is_served(service, "items")

    await service.store(item_app(service, "items", enabled=False))
    assert not await is_served(service, "items")

    await service.store(item_app(service, "items", uri="elsewhere"))
    assert not await is_served(service, "items")
    assert await is_served(service, "elsewhere")

    await service.remove("items")
    assert not await is_served(service, "elsewhere")


# --- collisions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a", {"uri": "x"}), ("b", {"uri": "x"})),
        (("a", {"uri": "x"}), ("b", {"uri": "/x/"})),
        (("a", {"uri": "x"}), ("x", {})),
        (("x", {}), ("a", {"uri": "x"})),
        (("x", {}), ("a", {"uri": "/x"})),
        (("a", {"uri": "x"}), ("b", {"uri": "a"})),
        (("b", {"uri": "a"}), ("a", {"uri": "x"})),
        ((1, {"uri": "x"}), (2, {"uri": "x"})),
        (("a", {"uri": "x", "enabled": False}), ("b", {"uri": "x"})),
    ],
)
async def test_the_id_or_uri_of_another_app_is_a_conflict(
    service: Service, first: tuple[Any, Document], second: tuple[Any, Document]
) -> None:
    """Decision 5, drill D05."""
    await service.store(item_app(service, first[0], **first[1]))

    with pytest.raises(Conflict, match="URI collision: another GraphQL app is already accessible"):
        await service.store(item_app(service, second[0], **second[1]))

    assert service.definitions.count_documents({}) == 1


async def test_an_app_does_not_collide_with_itself(service: Service) -> None:
    """Decision 5."""
    for descriptor in ({"uri": "x"}, {"uri": "/x"}, {"uri": "items"}, {}):
        await service.store(item_app(service, "items", **descriptor))

    assert await is_served(service, "items")


async def test_case_makes_another_uri(service: Service) -> None:
    """Decisions 1 and 5, drill D05."""
    await service.store(item_app(service, "x"), item_app(service, "X"))

    assert await is_served(service, "x")
    assert await is_served(service, "X")


async def test_a_definition_written_past_the_server_is_a_conflict_too(service: Service) -> None:
    """Decision 5: documents written directly have no hidden array."""
    await service.smuggle(item_app(service, "a", uri="/x"))

    for other in (
        item_app(service, "b", uri="x"),
        item_app(service, "x"),
        item_app(service, 7, uri="a"),
    ):
        with pytest.raises(Conflict):
            await service.store(other)


async def test_several_definitions_are_stored_together_or_not_at_all(service: Service) -> None:
    """Decision 4."""
    cases = [
        (DefinitionError, [item_app(service, "a"), {"_id": "b", "schema": SCHEMA}]),
        (Conflict, [item_app(service, "a"), item_app(service, "b", uri="a")]),
    ]
    for error, documents in cases:
        with pytest.raises(error, match="in document at index position 1"):
            await service.store(*documents)
    assert service.definitions.count_documents({}) == 0


async def test_inserting_an_existing_app_inserts_none(service: Service) -> None:
    """Decision 4."""
    await service.store(item_app(service, "b"))

    apps = item_app(service, "a"), item_app(service, "b")
    with pytest.raises(Conflict):
        await service.write("gql-apps", Write(WriteKind.INSERT, apps))

    assert service.definitions.count_documents({}) == 1


async def test_an_update_in_place_is_not_supported_and_changes_nothing(service: Service) -> None:
    """Decision 4."""
    await service.store(item_app(service, "items"))

    update = Write(WriteKind.UPDATE, update={"$set": {"schema": "x"}}, many=True)
    with pytest.raises(NotSupported, match="cannot be updated with bulk patch requests"):
        await service.write("gql-apps", update)

    assert service.definitions.find_one()["schema"] == SCHEMA


async def test_of_smuggled_definitions_that_collide_the_lowest_id_wins(service: Service) -> None:
    """Decision 5."""
    service.insert("others", {"name": "other"})
    low = item_app(service, 9, uri="x")
    high = item_app(service, 10, uri="x")
    high["mappings"]["Query"]["items"]["collection"] = "others"
    with listening(AppInvalid) as told:
        await service.smuggle(high, low)

    reply = await service.query("x", ASK)

    assert reply.data == {"items": [{"name": "one"}, {"name": "two"}]}
    assert [event.app for event in told] == ["10"]


async def test_a_smuggled_definition_whose_claim_is_taken_answers_its_own_error(
    service: Service,
) -> None:
    """Decision 5."""
    await service.smuggle(item_app(service, "a", uri="x"), item_app(service, "b", uri="a"))

    reply = await service.query("a", ASK)

    assert (reply.status, reply.messages) == (400, ["Invalid GraphQL app definition"])
    assert await is_served(service, "x")


async def test_two_racing_writers_cannot_both_win(service: Service) -> None:
    """Decision 5: the unique index of the database decides."""
    await service.there(ensure_index(service.app.store, Graphql(db=service.db)))
    await service.store(item_app(service, "a", uri="x"))
    rival = service.definitions.find_one({"_id": "a"})

    with pytest.raises(DuplicateKeyError):
        service.definitions.insert_one({**rival, "_id": "b", "_uris": ["b", "x"]})


# --- storage --------------------------------------------------------------------------------------


async def test_keys_are_stored_escaped_and_read_back_as_written(service: Service) -> None:
    """Decision 6."""
    document = item_app(service, "items")
    document["mappings"]["Query"]["items"]["find"] = {
        "name": {"$in": ["one", "$two"]},
        "a.b": {"$exists": False},
    }
    await service.store(document)

    stored = service.definitions.find_one({"_id": "items"})
    place = Resource(ResourceType.COLLECTION, service.db, "gql-apps")
    read_all = service.app.store.reads.read(place, Read(), deadline=Deadline.after_ms(30_000))
    (read,) = await service.there(read_all)

    find = stored["mappings"]["Query"]["items"]["find"]
    assert find["name"] == {"_$in": ["one", "_$two"]}
    assert find["a::b"] == {"_$exists": False}
    assert {key: value for key, value in read.items() if key != "_etag"} == document
    assert (await service.query("items", ASK)).data == {"items": [{"name": "one"}]}


@pytest.mark.parametrize("escape", [True, False])
async def test_escaped_and_plain_keys_in_the_database_both_work(
    service: Service, escape: bool
) -> None:
    """Decision 6."""
    document = build_definition(
        "things",
        "type Query { items(name: String): [Thing] } interface Thing { name: String } "
        "type Item implements Thing { name: String deep: String }",
        {
            "Query": {"items": service.find("items", {"name": {"$arg": ["name", {"$gt": ""}]}})},
            "Thing": {"$typeResolver": {"Item": "true"}},
            "Item": {"deep": "a.b"},
        },
    )
    await service.smuggle(escape_keys(document) if escape else document)

    reply = await service.query("things", '{ items(name: "two") { name __typename } }')

    assert reply.data == {"items": [{"name": "two", "__typename": "Item"}]}


async def test_a_version_8_definition_is_served_with_a_warning(service: Service) -> None:
    """Decision 8."""
    result = await service.store(item_app(service, "items", name="items"))

    assert await is_served(service, "items")
    (warning,) = result.warnings
    assert warning.startswith("descriptor.name: belongs to version 8 and has no effect: remove")


# --- definitions that cannot work -----------------------------------------------------------------

BAD: dict[str, Any] = {
    "no-schema": {"mappings": {"Query": {}}},
    "no-mappings": {"schema": SCHEMA},
    "nothing": {},
    "schema-number": {"schema": 7, "mappings": {}},
    "schema-null": {"schema": None, "mappings": {}},
    "schema-list": {"schema": [SCHEMA], "mappings": {}},
    "schema-empty": {"schema": "", "mappings": {}},
    "schema-broken": {"schema": "type Query {", "mappings": {}},
    "schema-unknown-type": {"schema": "type Query { a: Nope }", "mappings": {}},
    "schema-no-query": {"schema": "type A { b: Int }", "mappings": {}},
    "schema-other-query": {"schema": "schema { query: A } type A { b: Int }", "mappings": {}},
    "schema-mutation": {"schema": "type Query { a: Int } type Mutation { a: Int }"},
    "schema-scalar": {"schema": "scalar ObjectId type Query { a: Int }", "mappings": {}},
    "schema-deep": {"schema": "type Query { a: " + "[" * 5000 + "Int" + "]" * 5000 + " }"},
    "schema-nul": {"schema": "type Query { a: Int }\0", "mappings": {}},
    "mappings-list": {"schema": SCHEMA, "mappings": []},
    "mappings-text": {"schema": SCHEMA, "mappings": "Query"},
    "mappings-null": {"schema": SCHEMA, "mappings": None},
    "mappings-type-list": {"schema": SCHEMA, "mappings": {"Query": []}},
    "mappings-type-number": {"schema": SCHEMA, "mappings": {"Query": 5}},
    "field-number": {"schema": SCHEMA, "mappings": {"Query": {"items": 5}}},
    "field-list": {"schema": SCHEMA, "mappings": {"Query": {"items": []}}},
    "field-empty": {"schema": SCHEMA, "mappings": {"Query": {"items": {}}}},
    "field-no-db": {"schema": SCHEMA, "mappings": {"Query": {"items": {"collection": "c"}}}},
    "field-db-number": {"query": {"db": 5, "collection": "c"}},
    "field-admin": {"query": {"db": "admin", "collection": "c"}},
    "field-system": {"query": {"db": "d", "collection": "system.users"}},
    "field-find-text": {"query": {"db": "d", "collection": "c", "find": "x"}},
    "field-where": {"query": {"db": "d", "collection": "c", "find": {"$where": "1"}}},
    "field-limit": {"query": {"db": "d", "collection": "c", "limit": 5000}},
    "field-limit-text": {"query": {"db": "d", "collection": "c", "limit": "5"}},
    "field-fk": {"query": {"db": "d", "collection": "c", "find": {"a": {"$fk": "b"}}}},
    "field-arg": {"query": {"db": "d", "collection": "c", "find": {"a": {"$arg": 5}}}},
    "field-out": {"query": {"db": "d", "collection": "c", "stages": [{"$out": "x"}]}},
    "field-stages": {"query": {"db": "d", "collection": "c", "stages": {}}},
    "code": {"schema": Code("1"), "mappings": Code("2", {})},
    "descriptor-list": {"schema": SCHEMA, "mappings": {}, "descriptor": []},
    "descriptor-uri": {"schema": SCHEMA, "mappings": {}, "descriptor": {"uri": 7}},
    "descriptor-enabled": {"schema": SCHEMA, "mappings": {}, "descriptor": {"enabled": "yes"}},
    "descriptor-limits": {
        "schema": SCHEMA,
        "mappings": {},
        "descriptor": {"limits": {"depth": -1}},
    },
    "minkey": {"schema": MinKey(), "mappings": MaxKey()},
    "binary": {"schema": Binary(b"\xff\xfe"), "mappings": {}},
    "regex": {"schema": Regex("a"), "mappings": {"Query": Regex("b", "i")}},
    "timestamp": {"schema": Timestamp(1, 2), "mappings": {"a": Decimal128("NaN")}},
    "reference": {"schema": "x", "mappings": DBRef("a", 1)},
    "nan": {"schema": float("nan"), "mappings": float("inf")},
    "keys": {"schema": SCHEMA, "mappings": {"": {"": {"": ""}}, "Query": {"items": {"": {}}}}},
    "resolver": {
        "schema": "type Query { a: U } union U = A type A { b: Int }",
        "mappings": {"U": {"$typeResolver": {"A": "__import__('os')"}}},
    },
    "resolver-missing": {
        "schema": "type Query { a: U } union U = A type A { b: Int }",
        "mappings": {},
    },
    "visible": {"schema": "type Query { a(b: Int @visible(roles: [7])): Int }", "mappings": {}},
}


def bad_definition(name: str) -> Document:
    document = dict(BAD[name])
    if "query" in document:
        document = {"schema": SCHEMA, "mappings": {"Query": {"items": document["query"]}}}
    return {"_id": name, **document}


async def test_bad_definitions_in_the_database_answer_their_own_error_and_harm_nobody(
    service: Service,
) -> None:
    """Decision 8, drill D06: 400 for the caller, the details in the log, one line each."""
    with listening(AppInvalid) as told:
        await service.smuggle(*map(bad_definition, BAD), item_app(service, "good"))
        replies = {name: await service.query(name, ASK) for name in (*BAD, *BAD)}

    outcomes = {name: (reply.status, reply.text) for name, reply in replies.items()}
    expected = (
        400,
        '{"data":null,"errors":[{"message":"Invalid GraphQL app definition","extensions":'
        '{"classification":"ExecutionAborted","code":"invalid-definition"}}]}',
    )
    assert {name: got for name, got in outcomes.items() if got != expected} == {}
    assert await is_served(service, "good")
    assert sorted(event.app for event in told) == sorted(BAD)
    assert all(event.problems for event in told)


@pytest.mark.parametrize("name", BAD)
async def test_bad_definitions_are_never_stored(service: Service, name: str) -> None:
    """Decisions 4 and 7: the message names the place."""
    with pytest.raises(
        DefinitionError,
        match=r"^Wrong GraphQL App definition: [\w.$\[\]]+( \(line \d+, column \d+\))?: ",
    ):
        await service.store(bad_definition(name))

    assert service.definitions.count_documents({}) == 0


async def test_a_refused_write_leaves_the_served_app_as_it_was(service: Service) -> None:
    """Decision 4, drill D01."""
    await service.store(item_app(service, "items"))

    with pytest.raises(DefinitionError):
        await service.store({"_id": "items", "schema": "type Query {", "mappings": {}})

    assert await is_served(service, "items")


async def test_a_mended_definition_is_served(service: Service) -> None:
    """Decision 8."""
    await service.smuggle({**item_app(service, "items"), "schema": "type Query {"})
    assert (await service.query("items", ASK)).status == 400

    await service.smuggle(item_app(service, "items"))

    assert await is_served(service, "items")


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("uri", ["caf%C3%A9", "/caf%c3%a9/", "café"])
async def test_an_app_with_escapes_in_its_uri_is_served_at_the_decoded_path(
    service: Service, uri: str, eager: bool
) -> None:
    """Decision 1."""
    await service.store(item_app(service, "cafe", uri=uri))
    if not eager:
        service.apps.invalidate_all()

    assert await is_served(service, "caf%C3%A9")
    assert not await is_served(service, "caf%25C3%25A9")
    with pytest.raises(Conflict):
        await service.store(item_app(service, "other", uri="café"))
