"""Join keys: equal exactly when the database finds the values equal (decision 13)."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Regex

from docgraph.codec.equality import candidate_keys, equality_key
from docgraph.graphql.conditions import is_comparable


@pytest.mark.parametrize(
    ("document", "path", "reached"),
    [
        ({"a": 1}, "a", [1]),
        ({"a": [1, 2]}, "a", [1, 2, [1, 2]]),
        ({"a": {"b": 1}}, "a.b", [1]),
        ({"a": [{"b": 1}, {"b": [2]}, 3]}, "a.b", [1, 2, [2]]),
        ({"a": [[{"b": 1}]]}, "a.b", []),
        ({"a": [1, 2]}, "a.0", [1]),
        ({"a": [[1, 2]]}, "a.0", [[1, 2]]),
        ({"a": {"0": 1}}, "a.0", [1]),
        ({"a": [{"b": 1}]}, "a.0.b", [1]),
        ({}, "a", [None]),
    ],
)
def test_candidates_are_what_a_filter_compares_with(
    document: dict[str, Any], path: str, reached: list[Any]
) -> None:
    found = candidate_keys(document, tuple(path.split(".")))

    assert set(found) == {equality_key(value) for value in reached}


def test_patterns_and_operators_do_not_mean_themselves_in_a_command() -> None:
    assert not is_comparable(Regex("a"))
    assert not is_comparable({"$gt": 1})
    assert is_comparable({"a": {"$gt": 1}})
    assert is_comparable({})
