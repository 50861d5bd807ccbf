"""A filter on documents, moved to the part of an event that contains the document."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.exchange.errors import NotSupported
from docgraph.store.guard.event_stages import match_below

EXPRESSION = {"$gt": ["$a", 1]}


@pytest.mark.parametrize(
    ("filter", "moved"),
    [
        ({}, {}),
        ({"a": 1, "b.c": {"$gt": 2}}, {"$and": [{"d.a": 1}, {"d.b.c": {"$gt": 2}}]}),
        ({"$or": [{"a": 1}]}, {"$and": [{"$or": [{"$and": [{"d.a": 1}]}]}]}),
        ({"a": 1, "$comment": "c"}, {"$and": [{"d.a": 1}]}),
        (
            {"$jsonSchema": {"required": ["a"]}},
            {"$and": [{"$jsonSchema": {"properties": {"d": {"required": ["a"]}}}}]},
        ),
        (
            {"$expr": EXPRESSION},
            {
                "$and": [
                    {
                        "$expr": {
                            "$cond": [
                                {"$eq": [{"$type": "$d"}, "object"]},
                                {"$let": {"vars": {"CURRENT": "$d"}, "in": EXPRESSION}},
                                False,
                            ]
                        }
                    }
                ]
            },
        ),
    ],
)
def test_a_filter_matches_the_document_of_an_event(filter: Any, moved: Any) -> None:
    assert match_below(filter, "d") == {"$and": [{"d": {"$type": "object"}}, moved]}


@pytest.mark.parametrize(
    "filter", [{"$text": {"$search": "x"}}, {"$where": "1"}, {"$expr": {"$eq": ["$$ROOT", 1]}}]
)
def test_conditions_on_a_whole_document_cannot_be_moved(filter: Any) -> None:
    with pytest.raises(NotSupported):
        match_below(filter, "d")
