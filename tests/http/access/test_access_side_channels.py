"""Rules hold where a request says something beside its body, or learns something beside its answer.

Filters of upserts, stages that come before anything is hidden, updates that fail or not.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.http.access_harness import ADA, ADMIN, NOBODY, allow, forget_rules, guarded, restore
from tests.http.harness import Reply, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

FLAGS = {"allowWriteMode": True, "allowBulkPatch": True}
INDEXES = {"_id_", "home_2dsphere", "name_text"}
ANN = {
    "_id": "a",
    "name": "Ann",
    "email": "ann@example.org",
    "salary": 5000,
    "home": {"type": "Point", "coordinates": [1.5, 2.5]},
    "years": {"2024": {"total": "secret"}, "total": "shown"},
}
LARGEST = (1 << 63) - 1
ORIGIN = {"type": "Point", "coordinates": [0, 0]}


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    forget_rules(server)
    restore(server, "people", ANN)
    people = server.mongo[server.db]["people"]
    if people.index_information().keys() != INDEXES:  # the first test, or one before made others
        people.drop_indexes()
        people.create_index([("home", "2dsphere")])
        people.create_index([("name", "text")])
    return server


async def hide(service: Service, shown: dict[str, int]) -> None:
    mongo = {"projectResponse": shown, **FLAGS}
    await allow(service, "path-prefix('/people')", "$unauthenticated", mongo=mongo)


def stored(service: Service, id: str = "a") -> Any:
    return service.mongo[service.db]["people"].find_one({"_id": id})


# --- upserts --------------------------------------------------------------------------------------

BODY_RULES = {
    "whitelist": "bson-request-whitelist(name)",
    "blacklist": "bson-request-blacklist(tenant)",
    "not contains": "not bson-request-contains(tenant)",
    "not equals": "not bson-request-prop-equals(key=tenant, value='\"t2\"')",
}


@pytest.mark.parametrize("rule", BODY_RULES.values(), ids=BODY_RULES.keys())
@pytest.mark.parametrize("parameter", ["filter", "shardkey"])
@pytest.mark.parametrize("mode", ["wm", "writeMode"])
async def test_the_filter_of_an_upsert_stores_nothing_that_a_rule_on_the_body_forbids(
    service: Service, rule: str, parameter: str, mode: str
) -> None:
    await allow(service, f"path-prefix('/people') and {rule}", "user", mongo=FLAGS)
    query = urlencode({mode: "UPSERT", parameter: json.dumps({"tenant": "t2"})})

    reply = await service.request(
        "PATCH", f"/people/new?{query}", headers=ADA, json={"name": "New"}
    )

    assert reply.status == 403
    assert stored(service, "new") is None


async def test_upserts_and_filters_alone_pass_rules_on_the_body(service: Service) -> None:
    await allow(
        service, "path-prefix('/people') and bson-request-whitelist(name)", "user", mongo=FLAGS
    )
    filter = urlencode({"filter": json.dumps({"name": "Ann"})})

    async def patch(path: str) -> int:
        return (await service.request("PATCH", path, headers=ADA, json={"name": "Ann"})).status

    assert await patch("/people/new?wm=upsert") == 201
    assert await patch(f"/people/a?{filter}") == 200
    assert await patch(f"/people/a?{filter}&wm=update") == 200


# --- updates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("checked", [False, True], ids=["operators", "whole documents"])
@pytest.mark.parametrize("operator", ["$inc", "$mul"])
@pytest.mark.parametrize("guess", [4999, 5000])
async def test_an_overflow_does_not_tell_a_hidden_number(
    service: Service, operator: str, guess: int, checked: bool
) -> None:
    await hide(service, {"salary": 0})
    if checked:
        await service.request("PUT", "/_schemas", headers=ADMIN)
        await service.request(
            "PUT", "/_schemas/any?wm=upsert", headers=ADMIN, json={"type": "object"}
        )
        demand = {"jsonSchema": {"schemaId": "any"}}
        assert (await service.request("PATCH", "/people", headers=ADMIN, json=demand)).status == 200
    operand = LARGEST - guess if operator == "$inc" else LARGEST // guess
    body = {operator: {"salary": {"$numberLong": str(operand)}}}
    try:
        reply = await service.request("PATCH", "/people/a", headers=NOBODY, json=body)
    finally:
        if checked:
            undo = {"$unset": {"jsonSchema": True}}
            await service.request("PATCH", "/people", headers=ADMIN, json=undo)

    assert reply.status == 403
    assert stored(service)["salary"] == 5000


async def test_a_shown_number_can_be_counted_up(service: Service) -> None:
    await hide(service, {"email": 0})

    reply = await service.request("PATCH", "/people/a", json={"$inc": {"salary": 1}})

    assert reply.status == 200
    assert stored(service)["salary"] == 5001


async def test_a_name_of_digits_is_hidden_where_only_others_are_shown(service: Service) -> None:
    await hide(service, {"name": 1, "years.total": 1})
    hidden = "years.2024.total"
    filter = urlencode({"filter": json.dumps({hidden: {"$regex": "^s"}})})

    assert (await service.request("GET", f"/people?{filter}")).status == 401
    assert (await service.request("GET", f"/people/_size?{filter}")).status == 401
    assert (await service.request("GET", f"/people?sort={hidden}")).status == 401
    copy = {"$rename": {hidden: "name"}}
    assert (await service.request("PATCH", "/people/a", json=copy)).status == 403
    assert stored(service)["name"] == "Ann"
    shown = urlencode({"filter": json.dumps({"years.total": "shown"})})
    assert (await service.request("GET", f"/people?{shown}")).status == 200


async def test_a_hint_does_not_tell_which_documents_an_index_leaves_out(service: Service) -> None:
    await hide(service, {"email": 0})
    service.mongo[service.db]["people"].create_index(
        "salary", partialFilterExpression={"email": {"$gt": "m"}}
    )

    reply = await service.request("GET", "/people?hint={'salary':1}")

    assert reply.status == 401


# --- aggregations ---------------------------------------------------------------------------------

_NEAR = {"near": ORIGIN, "distanceField": "distance", "spherical": True}
_SEARCH = {"$match": {"$text": {"$search": "Ann"}, "email": {"$var": "guess"}}}
TELLING: dict[str, list[Any]] = {
    "the place": [{"$geoNear": {**_NEAR, "key": "home", "includeLocs": "place"}}],
    "any place": [{"$geoNear": {**_NEAR, "includeLocs": "place"}}],
    "a join by it": [
        {"$set": {"guess": {"$var": "guess"}}},
        {
            "$lookup": {
                "from": "people",
                "localField": "guess",
                "foreignField": "email",
                "as": "found",
            }
        },
    ],
    "a search inside a union": [{"$unionWith": {"coll": "people", "pipeline": [_SEARCH]}}],
    "a search inside a join": [
        {"$lookup": {"from": "people", "pipeline": [_SEARCH], "as": "found"}}
    ],
}


async def aggregate(service: Service, stages: list[Any]) -> Reply:
    one = {"uri": "one", "type": "pipeline", "stages": stages}
    written = await service.request("PATCH", "/people", headers=ADMIN, json={"aggrs": [one]})
    assert written.status == 200, written.text
    avars = urlencode({"avars": json.dumps({"guess": "ann@example.org"})})
    return await service.request("GET", f"/people/_aggrs/one?{avars}")


@pytest.mark.parametrize("shown", [{"email": 0, "home": 0}, {"name": 1}], ids=["hides", "keeps"])
@pytest.mark.parametrize("stages", TELLING.values(), ids=TELLING.keys())
async def test_no_stage_uses_what_is_not_hidden_from_it_yet(
    service: Service, stages: list[Any], shown: dict[str, int]
) -> None:
    await hide(service, shown)

    reply = await aggregate(service, stages)

    assert reply.status == 403
    assert "example.org" not in reply.text
    assert "1.5" not in reply.text


async def test_distances_and_joins_by_what_is_shown_are_answered(service: Service) -> None:
    await hide(service, {"email": 0})
    near = {"$geoNear": {**_NEAR, "key": "home"}}
    by_name = {"from": "people", "localField": "name", "foreignField": "name", "as": "found"}

    reply = await aggregate(service, [near, {"$lookup": by_name}])

    assert reply.status == 200
    (row,) = reply.json
    assert row["distance"] > 0
    assert [one["_id"] for one in row["found"]] == ["a"]
    assert "example.org" not in reply.text


# --- mergeRequest ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [[], [1], "text", None, {"tenant": "t2", "x": 1}, {}])
async def test_a_merged_path_is_there_whatever_a_pipeline_makes_of_its_object(
    service: Service, value: Any
) -> None:
    mongo = {"mergeRequest": {"meta.owner.tenant": "t1"}}
    await allow(service, "path-prefix('/people')", "user", mongo=mongo)
    for made in ({"meta": value}, {"meta": {"owner": value, "kept": 1}}):
        body = [{"$set": {key: {"$literal": one} for key, one in made.items()}}]

        reply = await service.request("PATCH", "/people/a", headers=ADA, json=body)

        assert reply.status == 200
        assert stored(service)["meta"]["owner"]["tenant"] == "t1"
    assert stored(service)["meta"]["kept"] == 1
