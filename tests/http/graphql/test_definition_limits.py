"""Definitions show what their author may read: joins, mappings, and names of hidden properties."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from docgraph.observe.events import AccessDenied
from tests.http.access_harness import (
    ADMIN,
    NOBODY,
    allow,
    build_rule,
    caller,
    ensure_rules,
    guarded,
    remove_rules,
)
from tests.http.harness import Document, Reply, Service, build_definition, listening
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

MANAGER = caller("mia", "manager")
MANAGED = {"allowManagementRequests": True}


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        for name in ("own", "open", "filtered", "projected", "closed", "users", "gql-apps"):
            assert (await one.request("PUT", f"/{name}", headers=ADMIN)).status == 201
        yield one


_FLAGS = {**MANAGED, "allowWriteMode": True}
RULES = (
    *(
        build_rule(f"path-prefix('/{path}')", "manager", mongo=_FLAGS)
        for path in ("own", "users", "_schemas", "gql-apps")
    ),
    build_rule("path-prefix('/open') and method('GET')", "manager"),
    build_rule("path-prefix('/filtered')", "manager", mongo={"readFilter": {"team": "blue"}}),
    build_rule("path-prefix('/projected')", "manager", mongo={"projectResponse": {"a": 1}}),
    build_rule("path-prefix('/closed') and method('PUT')", "manager"),
)


@pytest.fixture
async def service(server: Service) -> Service:
    """A manager of `own` and `users` who sees `open` whole, two collections in part, one not."""
    await ensure_rules(server, *RULES)
    database = server.mongo[server.db]
    changed = [f"_properties.{name}" for name in ("own", "users")]
    database["_properties"].delete_many({"_id": {"$in": changed}})
    for name in ("own", "users"):
        if len(database[name].index_information()) > 1:
            database[name].drop_indexes()
    for name in ("own", "users", "gql-apps"):
        if database[name].find_one({}, {"_id": 1}) is not None:
            database[name].delete_many({})
    return server


async def put(
    service: Service, stages: Any, path: str = "/own", who: dict[str, str] = MANAGER
) -> Reply:
    body = {"aggrs": [{"uri": "a", "stages": stages}]}
    return await service.request("PUT", path, headers=who, json=body)


def joins(name: Any) -> dict[str, list[Document]]:
    """Every way to another collection, plain and inside others."""
    lookup = {"$lookup": {"from": name, "localField": "a", "foreignField": "b", "as": "c"}}
    piped = {"$lookup": {"from": name, "pipeline": [], "as": "c"}}
    graph = {
        "from": name,
        "startWith": "$a",
        "connectFromField": "a",
        "connectToField": "b",
        "as": "c",
    }
    beside = {"from": "own", "pipeline": [{"$unionWith": name}], "as": "c"}
    return {
        "lookup": [lookup],
        "piped": [{"$match": {"x": 1}}, piped],
        "union": [{"$unionWith": name}],
        "union-coll": [{"$unionWith": {"coll": name}}],
        "graph": [{"$graphLookup": graph}],
        "facet": [{"$facet": {"f": [lookup], "g": []}}],
        "nested": [{"$lookup": beside}],
        "nested-union": [{"$unionWith": {"coll": "own", "pipeline": [piped]}}],
        "documents": [
            {"$lookup": {"pipeline": [{"$documents": []}, {"$unionWith": name}], "as": "d"}}
        ],
        "optional": [{"$ifvar": ["x", lookup]}],
        "otherwise": [{"$ifvar": ["x", {"$limit": 1}, [{"$limit": 2}, piped]]}],
        "escaped": [{"_$unionWith": name}],
        "escaped-inside": [{"$facet": {"f": [{"_$lookup": piped["$lookup"]}]}}],
        "optional-inside": [{"$facet": {"f": [{"$ifvar": ["x", piped]}]}}],
    }


# --- joins of stored aggregations -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["filtered", "projected", "closed", "missing", "acl", "users"])
async def test_a_join_shows_only_what_its_author_may_read(service: Service, name: str) -> None:
    if name == "users":
        await remove_rules(service, predicate="path-prefix('/users')")
    for way, stages in joins(name).items():
        with listening(AccessDenied) as heard:
            reply = await put(service, stages)
        assert (reply.status, reply.json["code"]) == (403, "security-violation"), (way, reply.text)
        assert f"'{name}'" in reply.json["message"], way
        assert [event.account for event in heard] == ["mia"], way
    assert service.mongo[service.db]["_properties"].find_one("_properties.own") is None


@pytest.mark.parametrize("name", ["open", "own"])
async def test_what_a_plain_get_shows_whole_may_be_joined(service: Service, name: str) -> None:
    for way, stages in joins(name).items():
        reply = await put(service, stages)
        assert reply.status == 200, (way, reply.text)


async def test_the_root_role_joins_everything(service: Service) -> None:
    for way, stages in joins("closed").items():
        assert (await put(service, stages, who=ADMIN)).status == 200, way


@pytest.mark.parametrize(
    "body",
    [
        {"aggrs": [{"uri": "a", "stages": [{"$unionWith": "closed"}]}]},
        {"$set": {"aggrs": [{"uri": "a", "stages": [{"$unionWith": "closed"}]}]}},
        {"$push": {"aggrs": {"uri": "b", "stages": [{"$unionWith": "closed"}]}}},
        {"aggrs.0.stages": [{"$unionWith": "closed"}]},
        {"aggrs.0.stages.0": {"_$unionWith": "closed"}},
    ],
)
async def test_a_patch_of_the_metadata_joins_no_more(service: Service, body: Any) -> None:
    assert (await put(service, [{"$unionWith": "open"}])).status == 200
    reply = await service.request("PATCH", "/own", headers=MANAGER, json=body)
    assert reply.status == 403, reply.text
    assert "'closed'" in reply.json["message"]
    shown = await service.request("GET", "/own/_meta", headers=ADMIN)
    assert "closed" not in shown.text


async def test_what_others_have_stored_may_stay(service: Service) -> None:
    """It is not the author of the change who shows it."""
    assert (await put(service, [{"$unionWith": "closed"}], who=ADMIN)).status == 200
    patched = await service.request("PATCH", "/own", headers=MANAGER, json={"note": "x"})
    assert patched.status == 200, patched.text
    added = {"$push": {"aggrs": {"uri": "b", "stages": [{"$unionWith": "open"}]}}}
    patched = await service.request("PATCH", "/own", headers=MANAGER, json=added)
    assert patched.status == 200, patched.text
    changed = {"aggrs.0.stages": [{"$unionWith": "closed"}, {"$limit": 1}]}
    patched = await service.request("PATCH", "/own", headers=MANAGER, json=changed)
    assert patched.status == 403


async def test_a_veto_or_a_login_that_get_needs_counts_too(service: Service) -> None:
    """Unknown callers are asked as such."""
    await allow(service, "path-prefix('/own')", "$unauthenticated", mongo=MANAGED)
    assert (await put(service, [{"$unionWith": "open"}], who=NOBODY)).status == 403
    await allow(service, "path-prefix('/open')", "$unauthenticated")
    assert (await put(service, [{"$unionWith": "open"}], who=NOBODY)).status == 200


async def test_a_path_that_another_service_takes_is_no_way_to_a_collection(
    service: Service,
) -> None:
    """`GET /ping` is open to everybody, and shows nothing of a collection of that name."""
    reply = await put(service, [{"$unionWith": "ping"}])
    assert reply.status == 403


async def test_row_filters_of_another_collection_do_not_matter(service: Service) -> None:
    other = {"readFilters": {f"{service.db}.other": {"a": 1}}}
    await allow(service, "path-prefix('/closed')", "manager", mongo=other)
    assert (await put(service, [{"$unionWith": "closed"}])).status == 200
    await remove_rules(service, mongo=other)
    own = {"readFilters": {f"{service.db}.closed": {"a": 1}}}
    await allow(service, "path-prefix('/closed')", "manager", mongo=own)
    assert (await put(service, [{"$unionWith": "closed"}, {"$limit": 1}])).status == 403


# --- what expressions cost ------------------------------------------------------------------------

PAIRS = {"$map": {"input": "$a", "in": {"$map": {"input": "$a", "in": {"$var": ["x", 1]}}}}}


@pytest.mark.parametrize(
    "stages",
    [
        [{"$project": {"x": PAIRS}}],
        [{"$match": {"$expr": PAIRS}}],
        [{"$group": {"_id": 1, "x": {"$push": PAIRS}}}],
        [{"$facet": {"f": [{"$set": {"x": PAIRS}}]}}],
        [{"$lookup": {"from": "own", "let": {"x": PAIRS}, "pipeline": [], "as": "c"}}],
        [{"$ifvar": ["x", {"$sortByCount": PAIRS}]}],
        [{"$set": {"a": {"$concatArrays": ["$a", "$a"]}}}] * 30,
    ],
)
async def test_expressions_of_authors_without_the_root_role_are_bounded(
    service: Service, stages: Any
) -> None:
    """They are callers who write expressions; those with the root role may do everything anyway."""
    reply = await put(service, stages)
    assert (reply.status, reply.json["code"]) == (400, "expression-too-large"), reply.text
    assert reply.json["message"].startswith("aggrs[0].stages[")
    assert (await put(service, stages, who=ADMIN)).status == 200


ORDINARY = (
    {"$match": {"$expr": {"$in": ["$n", {"$range": [0, {"$var": "n"}]}]}}},
    {"$geoNear": {"near": [0, 0], "distanceField": "d", "query": {"a": {"$exists": True}}}},
    {
        "$setWindowFields": {
            "sortBy": {"n": 1},
            "output": {"s": {"$sum": "$n", "window": {"documents": [-1, 0]}}},
        }
    },
    {"$group": {"_id": "$a", "all": {"$push": {"n": "$n"}}, "n": {"$sum": 1}}},
    {"$bucket": {"groupBy": "$n", "boundaries": [0, 9], "output": {"n": {"$push": "$$ROOT"}}}},
    {"$set": {"total": {"$sum": {"$map": {"input": "$a", "in": {"$add": ["$$this.n", 1]}}}}}},
    {"$fill": {"sortBy": {"n": 1}, "output": {"n": {"value": {"$add": [1, 2]}}}}},
    {"$unionWith": {"coll": "own", "pipeline": [{"$sort": {"n": {"$var": ["order", 1]}}}]}},
)


@pytest.mark.parametrize("stage", ORDINARY)
async def test_their_ordinary_stages_pass(service: Service, stage: Any) -> None:
    reply = await put(service, [stage, {"$limit": {"$var": ["limit", 5]}}])
    assert reply.status == 200, reply.text


# --- GraphQL apps ---------------------------------------------------------------------------------

SCHEMA = "type Query { items: [Item] } type Item { name: String }"


def app(service: Service, mapping: Document, id: str = "shop") -> Document:
    return build_definition(id, SCHEMA, {"Query": {"items": {"db": service.db, **mapping}}})


MAPPINGS: dict[str, Callable[[str], Document]] = {
    "find": lambda name: {"collection": name, "find": {}},
    "stages": lambda name: {"collection": name, "stages": [{"$limit": 1}]},
    "join": lambda name: {"collection": "open", "stages": [{"$unionWith": name}]},
    "escaped": lambda name: {"collection": "open", "stages": [{"_$unionWith": name}]},
    "optional": lambda name: {
        "collection": "open",
        "stages": [{"$ifarg": ["x", {"$limit": 1}, {"$unionWith": name}]}],
    },
}


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("name", ["closed", "filtered", "projected"])
async def test_an_app_maps_only_what_its_author_may_read(
    service: Service, mapping: str, name: str
) -> None:
    definition = app(service, MAPPINGS[mapping](name))
    for method, path, body in (
        ("POST", "/gql-apps", definition),
        ("POST", "/gql-apps", [app(service, MAPPINGS[mapping]("open"), "other"), definition]),
        ("PUT", "/gql-apps/shop", definition),
    ):
        query = "?wm=upsert" if method == "PUT" else ""
        who = ADMIN if query else MANAGER
        if query:  # it is there, and is to be replaced
            first = app(service, MAPPINGS[mapping]("open"))
            assert (await service.request("POST", "/gql-apps", headers=who, json=first)).status
        reply = await service.request(method, path, headers=MANAGER, json=body)
        assert reply.status == 403, reply.text
        assert f"'{service.db}.{name}'" in reply.json["message"]
    kept = service.mongo[service.db]["gql-apps"].find_one("shop")
    assert kept is None or name not in str(kept)


@pytest.mark.parametrize("mapping", MAPPINGS)
async def test_an_app_of_what_its_author_reads_is_written(service: Service, mapping: str) -> None:
    definition = app(service, MAPPINGS[mapping]("open"))
    reply = await service.request("POST", "/gql-apps", headers=MANAGER, json=definition)
    assert reply.status == 201, reply.text


async def test_collections_behind_one_that_is_named_twice_are_checked(service: Service) -> None:
    stages = [{"$unionWith": "open"}, {"$unionWith": "open"}, {"$unionWith": "closed"}]
    definition = app(service, {"collection": "open", "stages": stages})

    reply = await service.request("POST", "/gql-apps", headers=MANAGER, json=definition)

    assert (reply.status, reply.json["code"]) == (403, "security-violation"), reply.text
    assert f"'{service.db}.closed'" in reply.json["message"]


@pytest.mark.parametrize(
    "mapping", [{"find": {"$expr": PAIRS}}, {"stages": [{"$set": {"x": PAIRS}}]}]
)
async def test_expressions_of_apps_are_bounded_stored_or_tried(
    service: Service, mapping: Document
) -> None:
    text = json.dumps({"collection": "open", **mapping}).replace("$var", "$arg")
    definition = app(service, json.loads(text))
    await allow(service, "path-prefix('/_tools') or path-prefix('/graphql')", "manager")

    async def tell(path: str, body: Any, who: dict[str, str]) -> Reply:
        return await service.request("POST", path, headers=who, json=body)

    draft = {"definition": definition, "query": "{ items { name } }"}
    for path, body in (("/_tools/draft", draft), ("/gql-apps", definition)):
        reply = await tell(path, body, MANAGER)
        assert reply.status == 400, reply.text
        assert "expression-too-large" in reply.text
        assert "mappings.Query.items." in reply.text
        assert (await tell(path, body, ADMIN)).status in (200, 201)


async def store_app_of_root(service: Service, **descriptor: Any) -> Document:
    """An app of a collection that others do not see, with a field for one role only."""
    definition = app(service, MAPPINGS["find"]("closed"))
    definition["schema"] = SCHEMA.replace("name: String", 'name: String @visible(roles: ["admin"])')
    definition["descriptor"] = {"uri": "admins", **descriptor}
    reply = await service.request("POST", "/gql-apps", headers=ADMIN, json=definition)
    assert reply.status == 201, reply.text
    return definition


@pytest.mark.parametrize(
    "patch",
    [
        {"descriptor": {"uri": "public"}},
        {"descriptor.uri": "public"},
        {"$set": {"descriptor.uri": "public"}},
        {"$unset": {"descriptor": 1}},
        {"$unset": {"descriptor.uri": 1}},
        {"$rename": {"descriptor": "was"}},
        {"descriptor.limits": {"depth": 50}},
        {"schema": SCHEMA},
        {"schema": SCHEMA, "descriptor.enabled": False},
        {"mappings.Query.items.find": {"a": 1}},
        {"mappings.Query.items.limit": 5},
        {"mappings.Query.items.find": {"a": True}},
    ],
    ids=str,
)
async def test_who_may_not_read_what_an_app_maps_changes_nothing_of_who_sees_it(
    service: Service, patch: Document
) -> None:
    definition = await store_app_of_root(service)
    kept = service.mongo[service.db]["gql-apps"].find_one("shop")
    reply = await service.request("PATCH", "/gql-apps/shop", headers=MANAGER, json=patch)
    assert (reply.status, reply.json["code"]) == (403, "security-violation"), reply.text
    whole = {**definition, "descriptor": {"uri": "public"}}
    for method, path in (("PUT", "/gql-apps/shop?wm=upsert"), ("POST", "/gql-apps?wm=upsert")):
        reply = await service.request(method, path, headers=MANAGER, json=whole)
        assert reply.status == 403, reply.text
    assert service.mongo[service.db]["gql-apps"].find_one("shop") == kept
    reply = await service.request("PATCH", "/gql-apps/shop", headers=ADMIN, json=patch)
    assert reply.status == 200, reply.text


@pytest.mark.parametrize(("stored", "written"), [(True, 1), (1, True), (0, False)])
async def test_a_boolean_in_a_mapping_is_no_number(
    service: Service, stored: Any, written: Any
) -> None:
    """They match other documents, although Python finds them equal."""
    definition = app(service, {"collection": "closed", "find": {"a": stored}})
    await service.request("POST", "/gql-apps", headers=ADMIN, json=definition)
    patch = {"mappings.Query.items.find": {"a": written}}
    reply = await service.request("PATCH", "/gql-apps/shop", headers=MANAGER, json=patch)
    assert reply.status == 403, reply.text
    union = [{"$match": {"a": stored}}, {"$unionWith": "closed"}]
    assert (await put(service, union, who=ADMIN)).status == 200
    changed = [{"$match": {"a": written}}, {"$unionWith": "closed"}]
    assert (await put(service, changed)).status == 403


async def test_an_app_of_the_root_role_can_be_switched_off_by_others(service: Service) -> None:
    definition = await store_app_of_root(service)
    for patch in ({"note": "x"}, {"descriptor.description": "x"}, {"descriptor.enabled": False}):
        reply = await service.request("PATCH", "/gql-apps/shop", headers=MANAGER, json=patch)
        assert reply.status == 200, reply.text
    for on in ({"descriptor.enabled": True}, {"descriptor": {"uri": "admins"}}):
        reply = await service.request("PATCH", "/gql-apps/shop", headers=MANAGER, json=on)
        assert reply.status == 403, reply.text
    reply = await service.request("PUT", "/gql-apps/shop", headers=MANAGER, json=definition)
    assert reply.status == 403, reply.text


async def test_an_app_that_is_written_as_it_is_stays(service: Service) -> None:
    definition = await store_app_of_root(service)
    path = "/gql-apps/shop?wm=upsert"
    reply = await service.request("PUT", path, headers=MANAGER, json=definition)
    assert reply.status == 200, reply.text


async def test_an_app_of_what_its_editor_reads_may_get_another_address(service: Service) -> None:
    definition = app(service, MAPPINGS["join"]("own"))
    await service.request("POST", "/gql-apps", headers=ADMIN, json=definition)
    patch = {"descriptor": {"uri": "elsewhere"}}
    reply = await service.request("PATCH", "/gql-apps/shop", headers=MANAGER, json=patch)
    assert reply.status == 200, reply.text


@pytest.mark.parametrize(
    "mapping",
    [
        {"collection": "users", "find": {"password": {"$gt": "$2b"}}},
        {"collection": "users", "find": {}, "sort": {"password": 1}},
        {"collection": "users", "stages": [{"$group": {"_id": "$password"}}]},
        {
            "collection": "open",
            "stages": [{"$unionWith": {"coll": "users", "pipeline": [{"$unset": "password"}]}}],
        },
    ],
)
async def test_only_the_root_role_names_the_password_in_an_app(
    service: Service, mapping: Document
) -> None:
    definition = app(service, mapping)
    reply = await service.request("POST", "/gql-apps", headers=MANAGER, json=definition)
    assert reply.status == 403, reply.text
    assert "'password'" in reply.json["message"]
    reply = await service.request("POST", "/gql-apps", headers=ADMIN, json=definition)
    assert reply.status == 201, reply.text


# --- names of hidden properties -------------------------------------------------------------------

INDEXES: tuple[Document, ...] = (
    {"keys": {"password": 1}},
    {"keys": {"a": 1, "password": -1}},
    {"keys": {"password": "hashed"}},
    {"keys": {"password.x": 1}},
    {"keys": {"password.$**": 1}},
    {"keys": {"$**": 1}},
    {"keys": {"$**": "text"}},
    {"keys": {"$**": 1}, "ops": {"wildcardProjection": {"password": 1}}},
    {"keys": {"$**": 1}, "ops": {"wildcardProjection": {"a": 0}}},
    {"keys": {"$**": 1}, "ops": {"wildcardProjection": {"_id": 0}}},
    {"keys": {"$**": 1}, "ops": {"wildcardProjection": {"a": {"password": 1}}}},
    {"keys": {"$**": 1}, "ops": {"wildcardProjection": {"a": 1, "password.x": 1}}},
    {"keys": {"$**": 1}, "ops": {"wildcardProjection": {}}},
    {"keys": {"$**": "text"}, "ops": {"weights": {"a": 2}}},
    {"keys": {"a": 1}, "ops": {"partialFilterExpression": {"password": {"$gt": "$2b$12$m"}}}},
    {
        "keys": {"a": 1},
        "ops": {"partialFilterExpression": {"$and": [{"a": 1}, {"password": "x"}]}},
    },
    {"keys": {"a": 1}, "ops": {"partialFilterExpression": {"$or": [{"password": "x"}]}}},
    {"keys": {"a": 1}, "ops": {"unique": True, "partialFilterExpression": {"password.a": 1}}},
    {"keys": {"a": "text"}, "ops": {"weights": {"password": 2}}},
    {"keys": {"a": "text"}, "ops": {"language_override": "password"}},
)


async def test_only_the_root_role_names_the_password_in_an_index(service: Service) -> None:
    service.mongo[service.db]["users"].drop_indexes()
    for index in INDEXES:
        reply = await service.request("PUT", "/users/_indexes/o", headers=MANAGER, json=index)
        assert (reply.status, reply.json["code"]) == (403, "security-violation"), index
        assert list(service.mongo[service.db]["users"].index_information()) == ["_id_"], index


@pytest.mark.parametrize(
    "projection", [{"n": 1}, {"n": True, "a.b": 1.0}, {"_id": 0, "n": 1}, {"_id": 1}], ids=str
)
async def test_an_index_of_named_properties_of_users_is_made(
    service: Service, projection: Document
) -> None:
    service.mongo[service.db]["users"].drop_indexes()
    index = {"keys": {"$**": 1}, "ops": {"wildcardProjection": projection}}
    reply = await service.request("PUT", "/users/_indexes/o", headers=MANAGER, json=index)
    assert reply.status == 201, reply.text


async def test_other_indexes_of_users_are_made(service: Service) -> None:
    service.mongo[service.db]["users"].drop_indexes()
    index = {"keys": {"team": 1}, "ops": {"partialFilterExpression": {"team": {"$exists": True}}}}
    for who, body in ((MANAGER, index), (ADMIN, INDEXES[0])):
        reply = await service.request("PUT", "/users/_indexes/o", headers=who, json=body)
        assert reply.status == 201, reply.text
        service.mongo[service.db]["users"].drop_indexes()
    reply = await service.request("PUT", "/own/_indexes/o", headers=MANAGER, json=INDEXES[0])
    assert reply.status == 201  # of another collection it is a property like others


# --- indexes under conditions ---------------------------------------------------------------------

UNSHOWN: tuple[Document, ...] = (
    {"keys": {"secret": 1}},
    {"keys": {"name": 1, "secret.x": -1}},
    {"keys": {"home": 1}},
    {"keys": {"home.street": 1}},
    {"keys": {"home.0.street": 1}},
    {"keys": {"secret": "hashed"}},
    {"keys": {"secret.$**": 1}},
    {"keys": {"$**": 1}},
    {"keys": {"$**": "text"}},
    {"keys": {"$**": 1}, "ops": {"wildcardProjection": {"secret": 0}}},
    {"keys": {"$**": 1}, "ops": {"wildcardProjection": {"home": 1}}},
    {"keys": {"name": "text"}, "ops": {"language_override": "secret"}},
    {"keys": {"name": "text"}, "ops": {"weights": {"secret": 2}}},
    {
        "keys": {"name": 1, "z": 1},
        "ops": {"unique": True, "partialFilterExpression": {"secret": {"$gte": "T"}}},
    },
    {"keys": {"name": 1}, "ops": {"partialFilterExpression": {"$and": [{"secret": "T"}]}}},
    {"keys": {"name": 1}, "ops": {"partialFilterExpression": {"home": {"$exists": True}}}},
)
HIDING: dict[str, Document] = {
    "but": {"secret": 0, "home.street": 0},
    "only": {"name": 1, "age": 1, "language": 1, "home.city": 1},
}


async def restrict(service: Service, mongo: Document) -> None:
    """Make this the only rule of `own`."""
    await remove_rules(service, predicate="path-prefix('/own')")
    await allow(service, "path-prefix('/own')", "manager", mongo={**MANAGED, **mongo})


async def put_index(service: Service, index: Document, mongo: Document) -> Reply:
    """The same person without a rule of their own may make the index; under this one, or not."""
    await restrict(service, mongo)
    service.mongo[service.db]["own"].drop_indexes()
    return await service.request("PUT", "/own/_indexes/o", headers=MANAGER, json=index)


@pytest.mark.parametrize("hiding", HIDING)
async def test_an_index_names_nothing_that_a_permission_hides(
    service: Service, hiding: str
) -> None:
    await restrict(service, {"projectResponse": HIDING[hiding]})
    service.mongo[service.db]["own"].drop_indexes()
    for index in UNSHOWN:
        reply = await service.request("PUT", "/own/_indexes/o", headers=MANAGER, json=index)
        assert (reply.status, reply.json["code"]) == (403, "security-violation"), index
        assert list(service.mongo[service.db]["own"].index_information()) == ["_id_"], index


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize(
    "index",
    [
        {"keys": {"name": 1, "age": -1}, "ops": {"unique": True}},
        {"keys": {"home.city": 1}},
        {"keys": {"name": "text"}, "ops": {"weights": {"name": 2}}},
        {"keys": {"$**": 1}, "ops": {"wildcardProjection": {"name": 1, "home.city": 1}}},
        {"keys": {"name": 1}, "ops": {"partialFilterExpression": {"age": {"$gt": 5}}}},
    ],
    ids=str,
)
async def test_an_index_of_what_a_permission_shows_is_made(
    service: Service, index: Document, hiding: str
) -> None:
    reply = await put_index(service, index, {"projectResponse": HIDING[hiding]})
    assert reply.status == 201, reply.text


def row_filters(service: Service) -> tuple[Document, ...]:
    filter = {"team": "blue"}
    return {"readFilter": filter}, {"readFilters": {f"{service.db}.own": filter}}


@pytest.mark.parametrize(
    "index",
    [
        {"keys": {"name": 1}, "ops": {"unique": True}},
        {"keys": {"name": 1, "z": 1}, "ops": {"unique": 1}},
        {"keys": {"a": 1, "b": 1}, "ops": {"partialFilterExpression": {"secret": {"$gte": "T"}}}},
        {"keys": {"at": "2d"}, "ops": {"min": 0, "max": 50}},
        {"keys": {"at": "2dsphere"}},
        {"keys": {"a": 1, "at": "hashed"}},
        {"keys": {"name": "text"}},
    ],
    ids=str,
)
async def test_an_index_does_not_depend_on_rows_that_are_not_shown(
    service: Service, index: Document
) -> None:
    for mongo in row_filters(service):
        reply = await put_index(service, index, mongo)
        assert (reply.status, reply.json["code"]) == (403, "security-violation")
    elsewhere = {"readFilters": {f"{service.db}.open": {"team": "blue"}}}
    assert (await put_index(service, index, elsewhere)).status == 201


async def test_plain_indexes_are_made_under_a_row_filter(service: Service) -> None:
    for mongo in row_filters(service):
        for index in ({"keys": {"name": 1, "age": -1}}, {"keys": {"$**": 1}}):
            reply = await put_index(service, index, mongo)
            assert reply.status == 201, reply.text


PIPELINES: tuple[list[Document], ...] = (
    [{"$match": {"password": "x"}}],
    [{"$match": {"$or": [{"password": {"$exists": True}}]}}],
    [{"$project": {"a": "$password"}}],
    [{"$project": {"password": 1}}],
    [{"$group": {"_id": "$$ROOT.password"}}],
    [{"$set": {"a": {"$getField": "password"}}}],
    [{"$set": {"a": {"$getField": {"field": {"$literal": "password"}, "input": "$$ROOT"}}}}],
    [{"$unset": "password"}],
    [{"$sort": {"password": 1}}],
    [{"$sortByCount": "$password"}],
    [{"$facet": {"f": [{"$match": {"password": {"$var": "x"}}}]}}],
    [{"$ifvar": ["x", {"$match": {"password": {"$var": "x"}}}]}],
)


async def test_only_the_root_role_names_the_password_in_an_aggregation(service: Service) -> None:
    for stages in PIPELINES:
        joined = [{"$lookup": {"from": "users", "pipeline": stages, "as": "u"}}]
        for path, pipeline in (("/users", stages), ("/own", joined)):
            reply = await put(service, pipeline, path)
            assert reply.status == 403, (stages, reply.text)
            assert "'password'" in reply.json["message"], stages
    # Only now: what is stored may stay, and would let the same be written again.
    for stages in PIPELINES:
        assert (await put(service, stages, "/own")).status == 200, stages
        assert (await put(service, stages, "/users", ADMIN)).status == 200, stages


async def test_a_join_by_the_password_is_refused(service: Service) -> None:
    join = {"from": "users", "localField": "a", "foreignField": "password", "as": "u"}
    reply = await put(service, [{"$lookup": join}])
    assert reply.status == 403
    assert "'password'" in reply.json["message"]


HARMLESS: Document = {
    "properties": {},
    "dependentRequired": {},
    "required": ["a"],
    "allOf": [{}],
}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"password": {"pattern": "^a"}}},
        {"required": ["password"]},
        {"allOf": [{"if": {"required": ["a", "password"]}}]},
        {"dependentRequired": {"a": ["password"]}},
    ],
)
async def test_only_the_root_role_names_the_password_in_a_schema(
    service: Service, schema: Document
) -> None:
    await service.request("PUT", "/_schemas", headers=ADMIN)
    whole = {"_id": "s", "$schema": "http://json-schema.org/draft-07/schema#", **schema}
    reply = await service.request("POST", "/_schemas", headers=MANAGER, json=whole)
    assert reply.status == 403, reply.text
    assert "'password'" in reply.json["message"]
    for who, body in ((MANAGER, {**whole, **HARMLESS}), (ADMIN, whole)):
        reply = await service.request("POST", "/_schemas?wm=upsert", headers=who, json=body)
        assert reply.status in (200, 201), reply.text


async def test_the_schema_of_users_cannot_come_from_another_database(service: Service) -> None:
    body = {"jsonSchema": {"schemaId": "s", "schemaStoreDb": "elsewhere"}}
    reply = await service.request("PUT", "/users", headers=MANAGER, json=body)
    assert reply.status == 403, reply.text
    reply = await service.request("PUT", "/own", headers=MANAGER, json=body)
    assert reply.status == 200, reply.text


SCHEMA_OF_OWN: Document = {"properties": {"secret": {"maxLength": 3}}}


@pytest.mark.parametrize(
    "mongo", [{"projectResponse": {"secret": 0}}, {"readFilter": {"team": "blue"}}], ids=str
)
async def test_who_sees_a_collection_in_part_does_not_choose_what_is_checked_there(
    service: Service, mongo: Document
) -> None:
    """A write that fails or not, by a schema of one's own, would answer every question."""
    await service.request("PUT", "/_schemas", headers=ADMIN)
    body: Document = {"jsonSchema": {"schemaId": "s"}}
    await remove_rules(service, predicate="path-prefix('/own')")
    await allow(service, "path-prefix('/own')", "manager", mongo={**MANAGED, **mongo})
    for method, change in (("PUT", body), ("PATCH", body), ("PATCH", {"jsonSchema.schemaId": "s"})):
        reply = await service.request(method, "/own", headers=MANAGER, json=change)
        assert reply.status == 403, reply.text
    written = "/_schemas/s?wm=upsert"
    reply = await service.request("PUT", written, headers=MANAGER, json=SCHEMA_OF_OWN)
    assert reply.status in (200, 201), reply.text
    assert (await service.request("PUT", "/own", headers=ADMIN, json=body)).status == 200
    reply = await service.request("PUT", written, headers=MANAGER, json=SCHEMA_OF_OWN)
    assert (reply.status, "'own'" in reply.json["message"]) == (403, True), reply.text
    reply = await service.request("PATCH", "/own", headers=MANAGER, json={"note": "x"})
    assert reply.status == 200, reply.text
    reply = await service.request("PUT", "/own", headers=MANAGER, json={})
    assert reply.status == 200, reply.text


async def test_who_sees_a_collection_whole_or_not_at_all_writes_schemas(service: Service) -> None:
    await service.request("PUT", "/_schemas", headers=ADMIN)
    body = {"jsonSchema": {"schemaId": "s"}}
    for path in ("/own", "/closed"):
        assert (await service.request("PUT", path, headers=ADMIN, json=body)).status == 200
    written = "/_schemas/s?wm=upsert"
    reply = await service.request("PUT", written, headers=MANAGER, json=SCHEMA_OF_OWN)
    assert reply.status in (200, 201), reply.text
    assert (await service.request("PUT", "/own", headers=MANAGER, json=body)).status == 200
    await service.request("PUT", "/closed", headers=ADMIN, json={})
