"""`search`, `near` and row filters: conditions of `where` that need an index or a fence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.observe.command_events import CommandFinished
from tests.http.access_harness import ADA, allow, guarded
from tests.http.harness import Document, Mongo, Service, listening
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query { places(limit: Int): [Place!]  bare: [Place!]  owners: [Owner!] }
type Place { id: Int  name: String  at: BsonDocument  area: Area }
type Area { at: BsonDocument }
type Owner { places: [Place!] }
"""
FIELDS = {"name": ["eq", "contains", "prefix"], "at": ["near"], "area.at": ["near"]}
ROME = {"longitude": 12.5, "latitude": 41.9, "maxDistance": 3_000_000}


def point(longitude: float, latitude: float) -> Document:
    return {"type": "Point", "coordinates": [longitude, latitude]}


PLACES: list[Document] = [
    {"_id": 1, "name": "old town of Paris", "at": point(2.35, 48.85), "team": "blue"},
    {"_id": 2, "name": "town town town", "at": point(12.4, 41.8), "team": "blue"},
    {"_id": 3, "name": "harbour", "at": point(9.2, 45.5), "team": "blue"},
    {"_id": 4, "name": "town hall", "at": point(12.5, 41.9), "team": "red"},
]


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as service:
        service.insert("places", *PLACES)
        service.insert("bare", *PLACES)
        service.insert("owners", {"_id": "blue"}, {"_id": "red"})
        places = service.mongo[service.db]["places"]
        places.create_index({"at": "2dsphere"})
        places.create_index({"name": "text"})
        filter_ = {"fields": FIELDS, "search": True}
        limit = {"$arg": ["limit", 100]}
        mappings: Document = {
            "Query": {
                "places": {**service.find("places"), "limit": limit, "filter": filter_},
                "bare": {**service.find("bare"), "filter": {**filter_, "indexed-only": True}},
                "owners": service.find("owners", {}, sort={"_id": 1}),
            },
            "Place": {"id": "_id"},
            "Owner": {
                "places": {
                    **service.find("places", {"team": {"$fk": "_id"}}, sort={"_id": 1}),
                    "filter": {"fields": FIELDS},
                }
            },
        }
        mappings["Query"]["places"]["orderBy"] = {"fields": ["name"]}
        await service.define("app", SCHEMA, mappings)
        await allow(service, "path-prefix('/graphql')", "admin")
        rows = {f"{service.db}.places": {"team": "@user.team"}}
        await allow(service, "path-prefix('/graphql')", "user", mongo={"readFilters": rows})
        yield service


ADMIN = {"X-Caller": '{"name": "root", "roles": ["admin"], "properties": {}}'}


async def find(
    service: Service, where: Any, headers: Any = ADMIN, arguments: str = ""
) -> list[int]:
    text = f"query ($where: PlaceWhere) {{ places(where: $where{arguments}) {{ id }} }}"
    reply = await service.query("app", text, {"where": where}, headers=headers)
    return [place["id"] for place in reply.data["places"]]


@pytest.mark.parametrize(
    ("where", "everyone", "blue"),
    [
        ({"search": "town"}, [2, 4, 1], [2, 1]),
        ({"search": "town", "name": {"contains": "all"}}, [4], []),
        ({"search": "town", "or": [{"name": {"prefix": "old"}}]}, [1], [1]),
        ({"at": {"near": {**ROME, "nearestFirst": True}}}, [4, 2, 3, 1], [2, 3, 1]),
        (
            {"at": {"near": {**ROME, "nearestFirst": True}}, "name": {"prefix": "town"}},
            [4, 2],
            [2],
        ),
        ({"name": {"contains": "own"}}, [1, 2, 4], [1, 2]),
        ({"not": {"name": {"contains": "own"}}}, [3], [3]),
        ({"at": {"near": {**ROME, "maxDistance": 50_000}}}, [2, 4], [2]),
        (
            {"or": [{"at": {"near": {**ROME, "maxDistance": 50}}}, {"name": {"eq": "harbour"}}]},
            [3, 4],
            [3],
        ),
    ],
)
async def test_searches_under_row_filters(
    service: Service, where: Any, everyone: list[int], blue: list[int]
) -> None:
    is_ordered = "search" in where or "nearestFirst" in str(where)
    for headers, expected in ((ADMIN, everyone), (ADA, blue)):
        found = await find(service, where, headers)
        assert (found if is_ordered else sorted(found)) == expected


async def test_a_search_can_have_another_order(service: Service) -> None:
    found = await find(service, {"search": "town"}, ADMIN, ", orderBy: [{name: ASC}]")
    assert found == [1, 4, 2]


async def test_nearest_first_is_an_order(service: Service) -> None:
    text = "query ($w: PlaceWhere) { places(where: $w, orderBy: [{name: ASC}]) { id } }"
    where = {"at": {"near": {**ROME, "nearestFirst": True}}}
    reply = await service.query("app", text, {"w": where}, headers=ADMIN)
    assert reply.error["message"].startswith("orderBy cannot be combined with nearestFirst")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"or": [{"search": "town"}]}, "where.or[0].search: a search is only possible at the top"),
        ({"not": {"search": "town"}}, "where.not.search: a search is only possible at the top"),
        (
            {"and": [{"at": {"near": {**ROME, "nearestFirst": True}}}]},
            "where.and[0].at.near: nearestFirst is only possible at the top of where",
        ),
        (
            {"search": "town", "at": {"near": {**ROME, "nearestFirst": True}}},
            "where.search: search cannot be combined with another search or nearestFirst",
        ),
        (
            {
                "at": {"near": {**ROME, "nearestFirst": True}},
                "area": {"at": {"near": {**ROME, "nearestFirst": True}}},
            },
            "where.area.at.near: nearestFirst cannot be combined",
        ),
        (
            {"area": {"at": {"near": {**ROME, "nearestFirst": True}}}},
            "where: nearestFirst needs a 2dsphere index of the field",
        ),
    ],
)
async def test_searches_elsewhere_are_rejected(service: Service, where: Any, message: str) -> None:
    text = "query ($where: PlaceWhere) { places(where: $where) { id } }"
    reply = await service.query("app", text, {"where": where}, headers=ADMIN)
    assert reply.error["message"].startswith(message)
    assert reply.error["extensions"]["classification"] == "ValidationError"


async def test_relations_know_no_order_by_distance(service: Service) -> None:
    text = "query ($near: GeoNear) { owners { places(where: {at: {near: $near}}) { id } } }"
    data = (await service.query("app", text, {"near": ROME}, headers=ADMIN)).data
    found = [[place["id"] for place in owner["places"]] for owner in data["owners"]]
    assert found == [[1, 2, 3], [4]]

    ordered = {**ROME, "nearestFirst": True}
    reply = await service.query("app", text, {"near": ordered}, headers=ADMIN)
    assert "not in relations" in reply.errors[0]["message"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"search": "town"}, "where.search: the collection has no text index"),
        ({"at": {"near": {**ROME, "nearestFirst": True}}}, "where: nearestFirst needs"),
        ({"at": {"near": ROME}}, "where: every alternative needs a condition on an indexed field"),
        ({"name": {"contains": "town"}}, "where: every alternative needs"),
    ],
)
async def test_missing_indexes_are_reported(service: Service, where: Any, message: str) -> None:
    text = "query ($where: PlaceWhere) { bare(where: $where) { id } }"
    with listening(CommandFinished) as commands:
        reply = await service.query("app", text, {"where": where}, headers=ADMIN)
    assert reply.error["message"].startswith(message)
    assert not any(one.app for one in commands)


async def test_contains_runs_behind_the_row_filter(service: Service) -> None:
    """The pattern sees only rows that the caller may see (decision 49)."""
    with listening(CommandFinished) as commands:
        assert await find(service, {"name": {"contains": "own"}}, ADA) == [1, 2]
    assert "aggregate" in [one.command for one in commands if one.app]
