"""At every door, an expression that could burn a core or the memory is rejected before it runs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.http.batches import entry, failed_entry
from tests.http.harness import Reply
from tests.http.rest_harness import Api

pytestmark = pytest.mark.anyio


def build_doubling(times: int) -> dict[str, Any]:
    """Nested `$let`, each of which doubles the array of the one around it."""
    body: Any = {"$size": "$$v"}
    for _ in range(times):
        body = {"$let": {"vars": {"v": {"$concatArrays": ["$$v", "$$v"]}}, "in": body}}
    return {"$let": {"vars": {"v": [1]}, "in": body}}


def build_nesting(times: int) -> dict[str, Any]:
    """Arrays in one another: some 10 000 of them overflow the stack of the database."""
    numbers = {"$range": [0, times]}
    return {"$size": {"$reduce": {"input": numbers, "initialValue": [], "in": ["$$value"]}}}


def build_levels(value: Any, times: int) -> Any:
    """A value in so many arrays."""
    for _ in range(times):
        value = [value]
    return value


def build_loops(times: int) -> dict[str, Any]:
    """A loop inside of a loop."""
    inner = {"$map": {"input": {"$range": [0, times]}, "as": "b", "in": "$$b"}}
    return {"$size": {"$map": {"input": {"$range": [0, times]}, "as": "a", "in": inner}}}


ATTACKS = {
    "memory": (build_doubling(27), "a value of more than 1 MiB"),
    "time": (build_loops(400), "more than 100000 steps for one document"),
    "depth": (build_nesting(30_000), "a value of more than 1000 levels"),
    "range": ({"$size": {"$range": [0, "$n"]}}, "the bounds of $range must be known"),
}


def expr(expression: Any) -> dict[str, Any]:
    return {"$expr": {"$gt": [expression, 0]}}


def at(path: str, **parameters: Any) -> str:
    """A path with parameters."""
    texts = (f"{name}={quote(json.dumps(value))}" for name, value in parameters.items())
    return f"{path}?{'&'.join(texts)}"


Door = Callable[[Api, Any], Awaitable[Reply]]
PATCH = [{"$set": {"x": 1}}]

DOORS: dict[str, Door] = {
    "keys": lambda api, one: api.get("/things", keys={"x": one}),
    "keys, in a list": lambda api, one: api.get("/things", keys={"b": [one]}),
    "keys of a document": lambda api, one: api.get("/things/1", keys={"x": one}),
    "keys, paging": lambda api, one: api.get("/things", keys={"x": one}, after=""),
    "filter": lambda api, one: api.get("/things", filter=expr(one)),
    "filters": lambda api, one: api.get("/things", filter=[{"n": 1}, expr(one)]),
    "filter, inside": lambda api, one: api.get("/things", filter={"$nor": [{"$and": [expr(one)]}]}),
    "filter and count": lambda api, one: api.get("/things", filter=expr(one), count="true"),
    "shardkey": lambda api, one: api.get("/things/1", shardkey=expr(one)),
    "size": lambda api, one: api.get("/things/_size", filter=expr(one)),
    "document": lambda api, one: api.get("/things/1", filter=expr(one)),
    "pipeline": lambda api, one: api.patch("/things/1", [{"$set": {"x": one}}]),
    "pipeline, replacing": lambda api, one: api.patch("/things/1", [{"$replaceWith": {"x": one}}]),
    "pipeline, later": lambda api, one: api.patch("/things/1", [*PATCH, {"$project": {"x": one}}]),
    "patch, filter": lambda api, one: api.patch("/things/1", {"x": 1}, filter=expr(one)),
    "bulk, filter": lambda api, one: api.patch("/things/*", {"x": 1}, filter=expr(one)),
    "bulk delete": lambda api, one: api.delete("/things/*", filter=expr(one)),
    "delete": lambda api, one: api.delete("/things/1", filter=expr(one)),
}


@pytest.fixture
def api(api: Api) -> Api:
    api.things.insert_one({"_id": "1", "n": 100_000, "a": [1]})
    return api


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("attack", ATTACKS)
async def test_costly_expressions_are_400_with_place_and_reason(
    api: Api, door: str, attack: str
) -> None:
    expression, reason = ATTACKS[attack]
    before = api.things.find_one()

    reply = await DOORS[door](api, expression)

    assert (reply.status, reply.json["code"]) == (400, "expression-too-large"), reply.text
    place, found = reply.json["message"].split(": ", 1)
    assert place.startswith(("filter.", "projection.", "update["))
    assert reason in found
    assert api.things.find_one() == before


@pytest.mark.parametrize("door", DOORS)
async def test_the_same_expressions_with_small_numbers_are_evaluated(api: Api, door: str) -> None:
    for expression in (build_doubling(3), build_loops(10), build_nesting(150)):
        reply = await DOORS[door](api, expression)
        assert reply.status in (200, 204, 404), reply.text
        if reply.status == 404 or door.endswith("delete"):
            return  # a document is deleted once; no `n` is 1


@pytest.mark.parametrize("attack", ATTACKS)
async def test_entries_of_a_batch_are_no_way_around(api: Api, attack: str) -> None:
    expression, reason = ATTACKS[attack]
    entries = [
        entry("GET", at("/things/1", keys={"x": expression})),
        entry("DELETE", at("/things/1", filter=expr(expression))),
        entry("PATCH", "/things/1", [{"$set": {"x": expression}}]),
    ]
    for one in entries:
        reply = await api.post("/_batch", [entry("GET", "/things/1"), one])
        assert (reply.status, reply.json["code"]) == (400, "expression-too-large"), reply.text
        assert failed_entry(reply) == 1
        assert reason in reply.text


async def test_what_an_author_stored_runs(api: Api) -> None:
    """Those who may do everything store it: here a loop inside of a loop over a stored array."""
    pairs = {"$map": {"input": "$a", "as": "x", "in": {"$map": {"input": "$a", "in": "$$x"}}}}
    stages = [{"$project": {"pairs": pairs}}]
    stored = {"_id": "_properties.things", "aggrs": [{"uri": "x", "stages": stages}]}
    api.mongo[api.db]["_properties"].insert_one(stored)

    assert (await api.get("/things", keys={"pairs": pairs})).status == 400
    assert (await api.get("/things/_aggrs/x")).json == [{"_id": "1", "pairs": [[1]]}]


@pytest.mark.parametrize(
    "deepen",
    [
        lambda api: api.patch("/things/1", [{"$set": {"z": build_levels("$z", 40)}}]),
        lambda api: api.patch("/things/1", [{"$replaceWith": {"z": build_levels("$$ROOT", 40)}}]),
    ],
)
async def test_updates_that_deepen_a_document_again_and_again_end_with_400(
    api: Api, deepen: Callable[[Api], Awaitable[Reply]]
) -> None:
    statuses = [(await deepen(api)).status for _ in range(7)]

    assert statuses[0] == 200
    assert statuses[-1] == 400
    assert api.things.find_one() is not None
    deep = {"z": {"$reduce": {"input": {"$range": [0, 400]}, "initialValue": 1, "in": ["$$value"]}}}
    reply = await api.get("/things", keys=deep)
    assert reply.status == 400, reply.text
