"""Stages that could tell the id of an event are found, for those who are not shown `_id`."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.exchange.errors import SecurityViolation
from docgraph.store.guard.event_stages import check_ids_unread, hides_ids

HIDING = {"name": 1}


@pytest.mark.parametrize(
    "stage",
    [
        {"$set": {"fullDocument.token": "$_id._data"}},
        {"$set": {"fullDocument.token": {"$toString": ["$_id"]}}},
        {"$addFields": {"fullDocument.event": "$$ROOT"}},
        {"$set": {"fullDocument.token": "$$CURRENT._id"}},
        {"$set": {"fullDocument.token": {"$getField": "_id"}}},
        {"$set": {"fullDocument.token": {"$getField": {"$concat": ["_", "id"]}}}},
        {"$match": {"_id._data": {"$gt": "82"}}},
        {"$match": {"_id": "82"}},
        {"$match": {"_id": 2}},
        {"$match": {"$or": [{"_id": {"$exists": True}}]}},
        {"$match": {"$expr": {"$gt": ["$_id._data", "82"]}}},
        {"$project": {"fullDocument": "$_id"}},
        {"$replaceWith": {"$mergeObjects": [{"_id": "$_id"}, {"fullDocument": "$_id"}]}},
    ],
)
def test_stages_that_could_tell_the_id_are_refused(stage: dict[str, Any]) -> None:
    with pytest.raises(SecurityViolation):
        check_ids_unread([{"$match": {}}, stage], HIDING)
    check_ids_unread([stage], {"_id": 1, "name": 1})
    check_ids_unread([stage], None)


def test_stages_that_leave_the_id_where_it_is_are_not() -> None:
    stages: list[dict[str, Any]] = [
        {"$match": {"fullDocument._id": 1, "documentKey._id": {"$gt": 2}}},
        {"$project": {"_id": 1, "fullDocument": 1, "copy": "$documentKey._id"}},
        {"$set": {"fullDocument.x": "$fullDocument.name"}},
        {"$match": {"_id": {"$in": []}}},
    ]
    check_ids_unread(stages, HIDING)


@pytest.mark.parametrize(
    ("shown", "hides"),
    [
        (None, False),
        ({}, False),
        ({"name": 0}, False),
        ({"_id": 1}, False),
        ({"name": 1}, True),
        ({"_id": 0}, True),
        ({"_id.part": 0}, True),
        ({"_id.part": 1}, True),
    ],
)
def test_an_id_of_which_a_part_is_hidden_is_hidden(shown: Any, hides: bool) -> None:
    assert hides_ids(shown) is hides
