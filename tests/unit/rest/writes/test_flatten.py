"""Dotted keys and `$currentDate` in the bodies of POST and PUT."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from docgraph.codec.types import Timestamp
from docgraph.exchange.errors import RequestError
from docgraph.rest.writes.flatten import prepare_document


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ({"a.b": 1}, {"a": {"b": 1}}),
        ({"a.b.c": 1, "a.b.d": 2, "a.e": 3}, {"a": {"b": {"c": 1, "d": 2}, "e": 3}}),
        ({"x.0": 1}, {"x": [1]}),
        ({"x.2": 1}, {"x": [None, None, 1]}),
        ({"x.1.y": 1, "x.0": 5}, {"x": [5, {"y": 1}]}),
        ({"a": {"b": 1}, "a.c": 2}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1], "a.1": 2}, {"a": [1, 2]}),
        ({"0.a": 1}, {"0": {"a": 1}}),
        ({"a": {"b.c": 1}}, {"a": {"b.c": 1}}),
    ],
)
def test_dotted_keys_at_the_top_are_places(body: dict[str, Any], expected: Any) -> None:
    assert prepare_document(body) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"a": {"b": 1}, "a.0": 1},
            "a field key using the dot notation points to a non-array value",
        ),
        ({"a": 1, "a.0": 1}, "a field key using the dot notation points to a non-array value"),
        ({"a": 1, "a.b": 1}, "points into a value that is neither object nor array: 'a.b'"),
        ({"a": [1], "a.b": 1}, "names 'b' in an array"),
        ({"a..b": 1}, "has an empty name: 'a..b'"),
        ({".a": 1}, "has an empty name"),
        ({"a.99999999999999999999": 1}, "has an index over 10000"),
    ],
)
def test_a_place_that_cannot_be_is_400(body: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        prepare_document(body)

    assert message in caught.value.message


@pytest.mark.parametrize("operator", ["$set", "$inc", "$push", "$nonsense", "$"])
def test_operators_are_refused(operator: str) -> None:
    with pytest.raises(RequestError) as caught:
        prepare_document({operator: {"a": 1}})

    assert caught.value.message == (
        "update operators (but $currentDate) cannot be used on POST and PUT requests"
    )


def test_current_date_is_the_present_instant() -> None:
    document = prepare_document(
        {
            "$currentDate": {
                "a": True,
                "b": {"$type": "date"},
                "c": {"$type": "timestamp"},
                "d.e": True,
            }
        }
    )

    now = datetime.now(UTC).replace(tzinfo=None)
    for date in (document["a"], document["b"], document["d"]["e"]):
        assert timedelta(0) <= now - date < timedelta(minutes=1)
        assert date.microsecond % 1000 == 0  # what is stored has no more
    assert isinstance(document["c"], Timestamp)
    assert "$currentDate" not in document


@pytest.mark.parametrize("operand", [1, {"a": 1}, {"a": False}, {"a": {"$type": "x"}}])
def test_a_wrong_current_date_is_400(operand: Any) -> None:
    with pytest.raises(RequestError, match=r"^wrong \$currentDate operator$"):
        prepare_document({"$currentDate": operand})
