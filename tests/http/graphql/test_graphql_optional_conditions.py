"""`$ifarg` in filters: conditions that hold only when their arguments are given (decision 9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest

from docgraph.exchange.errors import DefinitionError
from docgraph.observe.engine_events import CommandFinished
from tests.http.harness import Mongo, Service, listening, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SHOPS = [{"_id": 1, "name": "a"}, {"_id": 2, "name": "b"}]
CUSTOMERS: list[dict[str, Any]] = [
    {"_id": 1, "tier": "gold", "age": 30, "shop": 1},
    {"_id": 2, "tier": "gold", "shop": 2},
    {"_id": 3, "tier": None, "age": 50, "shop": 1},
    {"_id": 4, "age": 60, "shop": 1},
]
CUSTOMER = "(tier: String, min: Int): [Customer]"
SCHEMA = f"""
type Query {{ customers{CUSTOMER} whole{CUSTOMER} matched{CUSTOMER} other{CUSTOMER} shops: [Shop] }}
type Shop {{ id: Int customers{CUSTOMER} }}
type Customer {{ id: Int }}
"""
BY_TIER = {"$ifarg": ["tier", {"tier": {"$arg": "tier"}}]}
BY_AGE = {"$ifarg": ["min", {"age": {"$gte": {"$arg": "min"}}}]}
ORDERED = {"sort": {"_id": 1}}


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        service.insert("customers", *CUSTOMERS)
        service.insert("shops", *SHOPS)
        both = [BY_TIER, BY_AGE]
        query = {
            "customers": service.find("customers", {"$and": both}, **ORDERED),
            "whole": service.find("customers", BY_TIER, **ORDERED),
            "matched": service.stages(
                "customers", {"$match": {"$and": both}}, {"$sort": {"_id": 1}}
            ),
            "other": service.find("customers", {"$ifarg": ["tier", BY_TIER, {"_id": 4}]}),
            "shops": service.find("shops", {}, **ORDERED),
        }
        joined = {"$and": [{"shop": {"$fk": "_id"}}, *both]}
        mappings = {
            "Query": query,
            "Shop": {"id": "_id", "customers": service.find("customers", joined, **ORDERED)},
            "Customer": {"id": "_id"},
        }
        await service.define("shop", SCHEMA, mappings)
        yield service


async def ids(service: Service, field: str) -> list[int]:
    reply = await service.query("shop", f"{{ found: {field} {{ id }} }}")
    return [row["id"] for row in reply.data["found"]]


@pytest.mark.parametrize("field", ["customers", "matched"])
@pytest.mark.parametrize("given", list(product([False, True], repeat=2)))
async def test_what_is_not_asked_for_filters_nothing(
    service: Service, field: str, given: tuple[bool, bool]
) -> None:
    by_tier, by_age = given
    arguments = ['tier: "gold"'] * by_tier + ["min: 20"] * by_age
    rows = [row for row in CUSTOMERS if not by_tier or row.get("tier") == "gold"]
    rows = [row for row in rows if not by_age or row.get("age", 0) >= 20]

    found = await ids(service, f"{field}({', '.join(arguments)})" if arguments else field)

    assert found == [row["_id"] for row in rows]


async def test_a_condition_can_be_the_whole_filter(service: Service) -> None:
    assert await ids(service, "whole") == [1, 2, 3, 4]
    assert await ids(service, 'whole(tier: "gold")') == [1, 2]


async def test_null_is_given(service: Service) -> None:
    assert await ids(service, "whole(tier: null)") == [3, 4]


async def test_another_condition_can_stand_in_its_place(service: Service) -> None:
    assert await ids(service, "other") == [4]
    assert await ids(service, 'other(tier: "gold")') == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("", [[1, 3, 4], [2]]), ('(tier: "gold")', [[1], [2]]), ("(min: 40)", [[3, 4], []])],
)
async def test_relations_take_them_and_still_cost_one_command(
    service: Service, arguments: str, expected: list[list[int]]
) -> None:
    query = f"{{ shops {{ customers{arguments} {{ id }} }} }}"
    with listening(CommandFinished) as commands:
        shops = (await service.query("shop", query)).data["shops"]

    assert [[row["id"] for row in shop["customers"]] for shop in shops] == expected
    assert len([one for one in commands if one.app == "shop"]) == 2


@pytest.mark.parametrize(
    "find",
    [{"$or": [BY_TIER]}, {"tier": BY_TIER}, {**BY_TIER, "age": 1}, {"a": {"$elemMatch": BY_TIER}}],
)
async def test_elsewhere_it_is_refused_when_written(service: Service, find: Any) -> None:
    mappings = {"Query": {"whole": service.find("customers", find)}}

    with pytest.raises(DefinitionError, match=r"\$ifarg"):
        await service.define("wrong", SCHEMA, mappings)
