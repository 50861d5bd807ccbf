"""Authors and collections with several paths, or none: what a plain GET shows of them decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.access_harness import ADMIN, build_rule, caller, ensure_rules, guarded
from tests.http.harness import Document, Reply, Service, build_definition
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

MANAGER = caller("mia", "manager")
MANAGED = {"allowManagementRequests": True}
PART = {"readFilter": {"team": "blue"}}
WHOLE: Document = {}
OWN = build_rule("path-prefix('/own')", "manager", mongo=MANAGED)
APPS = build_rule("path-prefix('/gql-apps')", "manager")
SCHEMA = "type Query { items: [Item] } type Item { name: String }"


def may(path: str, **mongo: Any) -> Document:
    return build_rule(f"path-prefix('{path}') and method('GET')", "manager", mongo=mongo)


@module_application
async def service(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    """`twice` has two paths, and every collection of the database has one."""
    db = "test_author_paths"
    mounts = [{"what": f"/{db}", "where": "/"}, {"what": f"/{db}/twice", "where": "/again"}]
    settings = {"mongo": {"mongo-mounts": mounts}}
    async with guarded(mongo_client, mongo_uri, settings, db=db) as one:
        for name in ("own", "twice", "users", "gql-apps"):
            assert (await one.request("PUT", f"/{name}", headers=ADMIN)).status == 201
        yield one


async def join(service: Service, name: str) -> Reply:
    body: Document = {"aggrs": [{"uri": "a", "stages": [{"$unionWith": name}]}]}
    assert (await service.request("PUT", "/own", headers=ADMIN, json={})).status == 200
    return await service.request("PUT", "/own", headers=MANAGER, json=body)


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (WHOLE, WHOLE, 200),
        (WHOLE, PART, 200),
        (PART, WHOLE, 200),
        (PART, PART, 403),
        (None, WHOLE, 200),
        (WHOLE, None, 200),
        (None, PART, 403),
        (None, None, 403),
    ],
)
async def test_one_path_that_shows_all_of_a_collection_suffices(
    service: Service, first: Document | None, second: Document | None, status: int
) -> None:
    paths = {"/twice": first, "/again": second}
    given = [may(path, **mongo) for path, mongo in paths.items() if mongo is not None]
    await ensure_rules(service, OWN, *given)

    reply = await join(service, "twice")

    assert reply.status == status, reply.text


@pytest.mark.parametrize(
    ("put", "get", "status"),
    [
        (WHOLE, WHOLE, 200),
        (PART, WHOLE, 403),
        (WHOLE, PART, 403),
        (WHOLE, None, 200),
    ],
)
async def test_an_author_who_sees_or_writes_a_part_binds_no_schema(
    service: Service, put: Document, get: Document | None, status: int
) -> None:
    """What fails or passes validation would reveal the rest of the collection."""
    writing = build_rule("path('/own') and method('PUT')", "manager", mongo={**MANAGED, **put})
    await ensure_rules(service, writing, *([] if get is None else [may("/own", **get)]))
    assert (await service.request("PUT", "/own", headers=ADMIN, json={})).status == 200

    body = {"jsonSchema": {"schemaId": "s"}}
    reply = await service.request("PUT", "/own", headers=MANAGER, json=body)

    assert reply.status == status, reply.text


@pytest.mark.parametrize(("again", "status"), [(WHOLE, 200), (PART, 403)])
async def test_an_author_who_sees_all_at_another_path_binds_a_schema(
    service: Service, again: Document, status: int
) -> None:
    writing = build_rule("path('/twice') and method('PUT')", "manager", mongo=MANAGED)
    await ensure_rules(service, writing, may("/twice", **PART), may("/again", **again))
    assert (await service.request("PUT", "/twice", headers=ADMIN, json={})).status == 200

    body = {"jsonSchema": {"schemaId": "s"}}
    reply = await service.request("PUT", "/twice", headers=MANAGER, json=body)

    assert reply.status == status, reply.text


@pytest.mark.parametrize(("most", "status"), [(1_000, 201), (1, 403)])
async def test_no_schema_is_written_if_too_many_collections_have_one(
    service: Service, monkeypatch: pytest.MonkeyPatch, most: int, status: int
) -> None:
    """Those beyond the limit would not be checked."""
    for name in ("own", "twice"):
        bound = {"jsonSchema": {"schemaId": "s"}}
        assert (await service.request("PUT", f"/{name}", headers=ADMIN, json=bound)).status < 300
    await service.request("PUT", "/_schemas", headers=ADMIN)
    await ensure_rules(service, build_rule("path-prefix('/')", "manager", mongo=MANAGED))
    monkeypatch.setattr("docgraph.access.author_limits._MAX_BOUND", most)

    reply = await service.request(
        "PUT", f"/_schemas/s{most}?wm=upsert", headers=MANAGER, json={"type": "object"}
    )

    assert reply.status == status, reply.text


async def test_the_schema_of_users_is_one_of_their_database(service: Service) -> None:
    """Also where the binding names that database."""
    await ensure_rules(service, build_rule("path-prefix('/users')", "manager", mongo=MANAGED))
    for db, status in ((service.db, 200), ("elsewhere", 403)):
        body = {"jsonSchema": {"schemaId": "s", "schemaStoreDb": db}}
        reply = await service.request("PUT", "/users", headers=MANAGER, json=body)
        assert reply.status == status, reply.text


def app(db: str) -> Document:
    mapping = {"db": db, "collection": "items", "find": {}}
    return build_definition("shop", SCHEMA, {"Query": {"items": mapping}})


async def test_an_app_maps_no_collection_that_no_path_shows(service: Service) -> None:
    """Databases without a mount: rules cannot decide about them."""
    await ensure_rules(service, APPS, may("/"))

    reply = await service.request("POST", "/gql-apps", headers=MANAGER, json=app("unmounted"))

    assert (reply.status, reply.json["code"]) == (403, "security-violation"), reply.text
    assert "'unmounted.items'" in reply.json["message"]


async def test_an_app_maps_any_collection_where_everything_is_approved(
    mongo_client: Any, mongo_uri: str
) -> None:
    """The full authorizer, next to the rules of the database, restricts nobody."""
    approving = {"fullAuthorizer": {"enabled": True}}
    async with guarded(mongo_client, mongo_uri, approving) as one:
        for name in ("own", "gql-apps"):
            assert (await one.request("PUT", f"/{name}", headers=ADMIN)).status == 201
        reply = await one.request("POST", "/gql-apps", headers=MANAGER, json=app("unmounted"))
        assert reply.status == 201, reply.text
        assert (await join(one, "anything")).status == 200
        body = {"jsonSchema": {"schemaId": "s"}}
        reply = await one.request("PUT", "/own", headers=MANAGER, json=body)
        assert reply.status == 200, reply.text


async def test_the_path_next_to_a_definition_may_depend_on_the_host(
    mongo_client: Any, mongo_uri: str
) -> None:
    """A mount with variables has no other known path: their values are those of the request."""
    mounts = {"mongo": {"mongo-mounts": [{"what": "/{host[0]}", "where": "/api"}]}}
    async with guarded(mongo_client, mongo_uri, mounts) as one:
        host = {"Host": f"{one.db}.example.org"}
        assert (await one.request("PUT", "/api/own", headers={**ADMIN, **host})).status == 201
        writing = build_rule("path('/api/own')", "manager", mongo=MANAGED)
        await ensure_rules(one, writing, may("/api/open"))
        for name, status in (("open", 200), ("closed", 403)):
            body = {"aggrs": [{"uri": "a", "stages": [{"$unionWith": name}]}]}
            reply = await one.request("PUT", "/api/own", headers={**MANAGER, **host}, json=body)
            assert reply.status == status, reply.text


async def test_a_collection_next_to_a_definition_may_have_no_path(
    mongo_client: Any, mongo_uri: str
) -> None:
    """With mounts of single collections, other collections of the database are not reachable."""
    db = "test_author_single"
    mounts = [{"what": f"/{db}/own", "where": "/own"}, {"what": f"/{db}/open", "where": "/shown"}]
    single = {"mongo": {"mongo-mounts": mounts}}
    async with guarded(mongo_client, mongo_uri, single, db=db) as one:
        assert (await one.request("PUT", "/own", headers=ADMIN)).status == 201
        await ensure_rules(one, OWN, may("/"))
        assert (await join(one, "open")).status == 200
        assert (await join(one, "closed")).status == 403
