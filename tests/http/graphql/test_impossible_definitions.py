"""Decision 7: what MongoDB rejects for every document is refused when it is written.

Each stage and operator that docgraph knows is given arguments of wrong types. MongoDB is asked
first which of these fail for every document; a definition with them must not be stored.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from itertools import count
from threading import Event
from typing import Any

import pytest
from bson import ObjectId
from pymongo.errors import OperationFailure

from docgraph.exchange.errors import DefinitionError
from docgraph.store.guard.stage_checks import READ_STAGES
from docgraph.variables.shapes import _KNOWN
from tests.http.harness import Mongo, Service, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

WRONG: list[Any] = [1, "x", [], {}, None, {"a": 1}, [1, 2, 3, 4, 5], -1, "$a", {"$foo": 1}]
SUPPLIED = {"$arg": ["@user._id", 1]}
JAVASCRIPT = {"$accumulator", "$function", "$where"}
ACCUMULATORS = frozenset(
    {"$sum", "$first", "$firstN", "$max", "$push", "$mergeObjects", "$top", "$topN", "$count"}
)
VALUES: list[Any] = [1, "x", [1], {"x": 1}, None, ObjectId(), datetime(2020, 1, 1, tzinfo=UTC)]
FILLED = [*(f"value{number}" for number in range(len(VALUES))), "2d", "2dsphere", "text"]
MISSING_INDEX = (26, 27, 291)
ITEM = "type Item { _id: ID }"
BATCH = 400  # mappings of a definition
# A stored text "keep" is what $$KEEP is; a server with search may know more than this one.
UNKNOWN: list[Any] = [{"stages": [{"$match": {"b": SUPPLIED}}, {"$redact": "$a"}]}]


def _build_wrong(shape: str, supplied: Any) -> list[dict[str, Any]]:
    """Mappings of one shape, with a value that may be supplied next to the argument."""
    beside = {"b": supplied}
    names, build = SHAPES[shape]
    return [build(name, wrong, beside) for wrong in WRONG for name in sorted(names - JAVASCRIPT)]


def _build_stages(name: str, wrong: Any, beside: Any) -> dict[str, Any]:
    before = [] if name == "$geoNear" else [{"$match": beside}]
    return {"stages": [*before, {name: wrong}]}


SHAPES: dict[str, tuple[frozenset[str], Callable[[str, Any, Any], dict[str, Any]]]] = {
    "stage": (READ_STAGES, _build_stages),
    "expression": (
        _KNOWN["expression"],
        lambda name, wrong, beside: {"stages": [{"$addFields": {**beside, "v": {name: wrong}}}]},
    ),
    "accumulator": (
        ACCUMULATORS,
        lambda name, wrong, beside: {
            "stages": [{"$group": {"_id": beside["b"], "v": {name: wrong}}}]
        },
    ),
    "filter": (_KNOWN["filter"], lambda name, wrong, beside: {"find": {**beside, name: wrong}}),
    "condition": (
        _KNOWN["condition"],
        lambda name, wrong, beside: {"find": {**beside, "a": {name: wrong}}},
    ),
}


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        db = service.mongo[service.db]
        db.create_collection("none")
        for number, value in enumerate(VALUES):
            db[f"value{number}"].insert_one({"a": value})
        for kind in ("text", "2d", "2dsphere"):
            db[kind].create_index([("a", kind)])
        db["text"].insert_one({"a": "x"})
        db["2d"].insert_one({"a": [1, 2]})
        db["2dsphere"].insert_one({"a": {"type": "Point", "coordinates": [1, 2]}})
        yield service


def _fails_always(service: Service, mapping: dict[str, Any]) -> bool:
    """Whether MongoDB rejects it for every document, with any index."""
    try:
        _run(service, "none", mapping)
    except OperationFailure as error:
        if error.code not in MISSING_INDEX:
            return True
    for name in FILLED:
        try:
            _run(service, name, mapping)
        except OperationFailure:
            continue
        return False
    return True


def _run(service: Service, name: str, mapping: dict[str, Any]) -> None:
    collection = service.mongo[service.db][name]
    if "find" in mapping:
        list(collection.find(mapping["find"]))
    else:
        list(collection.aggregate(mapping["stages"]))


async def _find_stored(service: Service, mappings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that no error of a definition with all of them names."""
    left = {f"f{number}": service.find("items", **one) for number, one in enumerate(mappings)}
    named = {""}
    while left and named:
        schema = f"type Query {{ {' '.join(f'{name}: [Item]' for name in left)} }} {ITEM}"
        named = set()
        try:
            await service.define("app", schema, {"Query": left})
        except DefinitionError as error:
            named |= set(re.findall(r"mappings\.Query\.(f\d+)\.[fs]", str(error.details)))
        left = {name: one for name, one in left.items() if name not in named}
    return [mappings[int(name[1:])] for name in left]


LOOKUP = {"from": "other", "localField": "a", "foreignField": "b", "as": "o"}
UNKNOWN_VARIABLE = [{"$match": {"$expr": {"$eq": ["$a", "$$k"]}}}]
TEXT = {"$text": {"$search": "x"}}
NEAR = {"a": {"$near": [1, 2]}}
WHOLE: list[dict[str, Any]] = [
    {"stages": [{"$lookup": {**LOOKUP, "localField": "$a"}}]},
    {"stages": [{"$lookup": {**LOOKUP, "as": "$o"}}]},
    {"stages": [{"$lookup": {**LOOKUP, "as": ""}}]},
    {"stages": [{"$lookup": {**LOOKUP, "unknown": 1}}]},
    {"stages": [{"$lookup": {**LOOKUP, "let": {"k": 1}}}]},
    {"stages": [{"$lookup": {"from": "x", "let": {"A": 1}, "pipeline": [], "as": "o"}}]},
    {"stages": [{"$lookup": {"from": "x", "pipeline": UNKNOWN_VARIABLE, "as": "o"}}]},
    {"find": {"$nor": [TEXT]}},
    {"find": {"$and": [TEXT, TEXT]}},
    {"find": {"$and": [{"$or": [TEXT, {"b": 1}]}, {"$or": [TEXT, {"b": 1}]}]}},
    {"find": {**TEXT, **NEAR}},
    {"find": {"$and": [NEAR, {"b": {"$nearSphere": [1, 2]}}]}},
    {"find": {"$or": [NEAR, {"b": 1}]}},
    {"find": {"$nor": [NEAR]}},
    {"stages": [{"$match": {"$nor": [TEXT]}}]},
    {"stages": [{"$documents": [{"a": 1}]}]},
    {"stages": [{"$redact": {"$cond": [True, "x", "y"]}}]},
    {"stages": [{"$group": {"_id": None, "v": {"$firstN": {"n": 0, "input": "$a"}}}}]},
    {"stages": [{"$group": {"_id": None, "v": {"$maxN": {"n": -1, "input": "$a"}}}}]},
    {
        "stages": [
            {"$group": {"_id": 1, "v": {"$topN": {"n": 0, "sortBy": {"a": 1}, "output": "$a"}}}}
        ]
    },
    {"stages": [{"$set": {"v": {"$convert": {"input": "$a", "to": "foo"}}}}]},
    {"stages": [{"$set": {"v": {"$dateToString": {"date": "$a", "format": "%Q"}}}}]},
    {"stages": [{"$set": {"v": {"$year": {"date": "$$NOW", "timezone": "No/Where"}}}}]},
    {"stages": [{"$match": {"$expr": {"$convert": {"input": 1, "to": "foo"}}}}]},
    {"stages": [{"$set": {"v": {"$dateAdd": {"startDate": "$$NOW", "unit": "foo", "amount": 1}}}}]},
]


@pytest.mark.parametrize("mapping", WHOLE, ids=repr)
async def test_a_definition_that_never_works_is_refused(
    service: Service, mapping: dict[str, Any]
) -> None:
    """Also where MongoDB finds out only when it evaluates the stage."""
    assert _fails_always(service, mapping)
    assert await _find_stored(service, [mapping]) == []


async def test_writes_beside_the_check_hide_no_fault(service: Service) -> None:
    """Equal errors of the database are equal at different cluster times."""
    is_over = Event()

    def write() -> None:
        for number in count():
            service.mongo[service.db]["busy"].update_one(
                {"_id": number % 9}, {"$inc": {"n": 1}}, upsert=True
            )
            if is_over.is_set():
                return

    writing = asyncio.create_task(asyncio.to_thread(write))
    mapping = {"stages": [{"$set": {"v": {"$dateToString": {"date": "$a", "format": "%Q"}}}}]}
    stored = [await _find_stored(service, [mapping]) for _ in range(5)]
    is_over.set()
    await writing
    assert stored == [[]] * 5


BAD = {"$convert": {"input": "$a", "to": "foo"}}
SOMETIMES: list[Any] = [
    {"$set": {"v": {"$dateAdd": {"startDate": "$a", "unit": "foo", "amount": 1}}}},  # null
    {"$set": {"v": {"$year": {"date": "$a", "timezone": "No/Where"}}}},
    {"$set": {"v": {"$cond": [{"$eq": ["$a", "rare"]}, 1, BAD]}}},
    {"$set": {"v": {"$or": [{"$eq": ["$a", "rare"]}, BAD]}}},
    {"$set": {"v": {"$divide": [1, {"$cond": [{"$in": ["$a", ["rare"]]}, 1, 0]}]}}},
    {"$set": {"v": {"$divide": [1, {"$toInt": {"$eq": ["$a", "rare"]}}]}}},
    {"$redact": {"$cond": [{"$eq": ["$a", "rare"]}, "$$KEEP", "x"]}},
    {"$match": {"a": {"$ne": "rare"}, "$expr": BAD}},
    {"$set": {"v": {"$size": {"$getField": "b"}}}},
    {"$set": {"v": {"$size": "$$ROOT.b"}}},
    {"$set": {"v": {"$strLenCP": {"$concat": ["$a", "$c"]}}}},
    {"$bucket": {"groupBy": "$n", "boundaries": [1000, 2000]}},
    {"$replaceWith": "$b.c"},
]


async def test_a_definition_that_works_for_one_document_is_stored(service: Service) -> None:
    rare = {"a": "rare", "b": [{"c": {"d": 1}}], "c": "x", "n": 1500}
    service.mongo[service.db]["rare"].insert_one(rare)
    service.mongo[service.db]["null"].insert_one({"a": None, "b": {"c": {}}})
    for stage in SOMETIMES:
        assert any(_works(service, name, stage) for name in ("rare", "null")), stage

    mappings = [{"stages": [stage]} for stage in SOMETIMES]
    assert await _find_stored(service, mappings) == mappings


def _works(service: Service, name: str, stage: Any) -> bool:
    try:
        _run(service, name, {"stages": [stage]})
    except OperationFailure:
        return False
    return True


@pytest.mark.parametrize("shape", SHAPES)
async def test_arguments_that_never_work_are_refused(service: Service, shape: str) -> None:
    """Also next to a placeholder, where the database cannot be asked about the whole."""
    pairs = zip(_build_wrong(shape, 1), _build_wrong(shape, SUPPLIED), strict=True)
    impossible = [written for plain, written in pairs if _fails_always(service, plain)]
    stored = []
    for start in range(0, len(impossible), BATCH):
        stored += await _find_stored(service, impossible[start : start + BATCH])

    assert len(impossible) > len(WRONG)
    assert [one for one in stored if one not in UNKNOWN] == []
