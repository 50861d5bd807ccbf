"""Updates that are applied in memory, where a document is checked whole: as the database does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from bson import Decimal128, Int64

from docgraph.exchange.errors import RequestError
from docgraph.rest.patch import apply_update
from tests.databases import drop, new_name
from tests.http.harness import Mongo

DOCUMENT: dict[str, Any] = {
    "_id": 1,
    "i": 5,
    "long": Int64(7),
    "f": 1.5,
    "dec": Decimal128("1.10"),
    "s": "m",
    "at": datetime(2024, 1, 2),
    "list": [1, 2, 2, 3],
    "objects": [{"a": 1}, {"a": 2}],
    "pairs": [{"a": 1, "b": 2}],
    "o": {"x": 1, "deep": {"y": [1, {"z": 2}]}},
    "null": None,
    "yes": True,
}


@pytest.fixture(scope="module")
def collection(mongo_client: Mongo) -> Iterator[Any]:
    name = new_name()
    yield mongo_client[name]["documents"]
    drop(mongo_client, name)


@pytest.mark.parametrize(
    "update",
    [
        {"$set": {"i": 6, "new": {"a": 1}}},
        {"$set": {"o.deep.y.1.z": 3, "o.fresh.a": 1, "list.1": 9}},
        {"$unset": {"i": "", "o.deep.y": "", "none": ""}},
        {"$unset": {"list.1": ""}},
        {"$inc": {"i": 1, "long": 1, "f": 1, "none": 4, "o.x": -3}},
        {"$inc": {"i": 2147483647}},
        {"$inc": {"i": Int64(1)}},
        {"$inc": {"dec": 1, "i": 0.5}},
        {"$mul": {"i": 3, "f": 2, "none": 5, "long": 2}},
        {"$min": {"i": 3, "f": 9, "s": "a", "none": 1}},
        {"$max": {"i": 3, "f": 9, "s": "z", "at": datetime(2025, 1, 1)}},
        {"$push": {"list": 4, "none": "x"}},
        {"$push": {"list": {"$each": [8, 9], "$position": 1}}},
        {"$push": {"list": {"$each": [8, 9], "$slice": 3}}},
        {"$push": {"list": {"$each": [8], "$slice": -2}}},
        {"$push": {"list": {"$each": [8], "$position": -1}}},
        {"$push": {"objects": {"a": 3}}},
        {"$addToSet": {"list": 2}},
        {"$addToSet": {"list": {"$each": [3, 4, 4]}, "objects": {"a": 1}}},
        {"$addToSet": {"none": True, "list": True}},
        {"$addToSet": {"objects": {"a": True}, "list": {"$each": [Decimal128("2"), Int64(3)]}}},
        {"$addToSet": {"pairs": {"$each": [{"b": 2, "a": 1}, {"a": 1.0, "b": 2}]}}},
        {"$pop": {"list": 1}},
        {"$pop": {"list": -1, "none": 1}},
        {"$pull": {"list": 2, "none": 1}},
        {"$pullAll": {"list": [1, 3], "objects": [{"a": 1}]}},
        {"$pullAll": {"list": [Decimal128("2.0")], "objects": [{"a": True}]}},
        {"$pullAll": {"pairs": [{"b": 2, "a": 1}]}},
        {"$rename": {"i": "j", "none": "k", "o.x": "o.w"}},
        {"$rename": {"s": "o.s"}},
    ],
)
def test_an_update_does_in_memory_what_the_database_does(
    collection: Any, update: dict[str, Any]
) -> None:
    collection.replace_one({"_id": 1}, DOCUMENT, upsert=True)
    collection.update_one({"_id": 1}, update)
    expected = collection.find_one({"_id": 1})

    result = apply_update(DOCUMENT, update)

    assert result == expected
    for key, value in expected.items():
        if not isinstance(value, Decimal128):
            assert type(result[key]) is type(value), key


@pytest.mark.parametrize(
    "update",
    [
        {"$inc": {"s": 1}},
        {"$inc": {"yes": 1}},
        {"$inc": {"i": "1"}},
        {"$inc": {"long": Int64((1 << 63) - 1)}},
        {"$push": {"i": 1}},
        {"$push": {"list": {"$each": 3}}},
        {"$push": {"list": {"$each": [1], "$slice": "x"}}},
        {"$addToSet": {"o": 1}},
        {"$pop": {"list": 3}},
        {"$pop": {"i": 1}},
        {"$pull": {"i": 3}},
        {"$pullAll": {"list": 3}},
        {"$rename": {"i": 3}},
        {"$rename": {"list.0": "x"}},
        {"$nonsense": {"i": 1}},
    ],
)
def test_what_the_database_refuses_is_refused_in_memory(
    collection: Any, update: dict[str, Any]
) -> None:
    from pymongo.errors import OperationFailure

    collection.replace_one({"_id": 1}, DOCUMENT, upsert=True)

    with pytest.raises(OperationFailure):
        collection.update_one({"_id": 1}, update)
    with pytest.raises(RequestError):
        apply_update(DOCUMENT, update)


@pytest.mark.parametrize(
    "update", [{"$pull": {"list": {"$gt": 1}}}, {"$bit": {"i": {"and": 1}}}, {"$min": {"null": 1}}]
)
def test_what_cannot_be_foreseen_is_refused(update: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        apply_update(DOCUMENT, update)
