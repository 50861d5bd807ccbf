"""Loops inside one expression that a supplied value makes too long."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128, Int64

from docgraph.exchange.errors import LoopTooLarge
from docgraph.store import Policy, check_filter, check_pipeline


def given(value: Any) -> dict[str, Any]:
    """A supplied value, as it stands in an expression."""
    return {"$literal": value}


def up_to(value: Any) -> dict[str, Any]:
    return {"$range": [0, value]}


def loop(over: Any, body: Any = 1) -> dict[str, Any]:
    return {"$map": {"input": over, "in": body}}


def check(expression: Any) -> None:
    """As part of a pipeline, of a joined one, and of a filter."""
    stage = {"$project": {"x": expression}}
    check_pipeline([stage], db="d", policy=Policy())
    check_pipeline(
        [{"$lookup": {"from": "c", "pipeline": [stage], "as": "y"}}], db="d", policy=Policy()
    )
    check_filter({"$expr": {"$eq": [expression, 1]}}, policy=Policy())


@pytest.mark.parametrize(
    "expression",
    [
        up_to(given(10_001)),
        up_to(given(1e300)),
        up_to(given(Int64(2**40))),
        up_to(given(Decimal128("1E+9"))),
        {"$range": [given(-10_001), 0]},
        {"$range": [given(0), 100_000, given(1)]},
        {"$range": [100_000, 0, given(-1)]},
        up_to({"$multiply": [given(9_000), given(9_000)]}),
        up_to({"$toInt": given("100000000")}),
        up_to({"$multiply": ["$n", given(100_000)]}),
        loop(up_to(given(200)), loop(up_to(given(200)))),
        loop(given(list(range(200))), loop(given(list(range(200))))),
        {"$reduce": {"input": up_to(given(9_000)), "initialValue": 0, "in": loop(up_to(given(2)))}},
        {"$filter": {"input": up_to(given(200)), "cond": {"$in": [1, up_to(given(200))]}}},
        {"$let": {"vars": {"r": up_to(given(200))}, "in": loop("$$r", loop("$$r"))}},
        loop({"$concatArrays": [up_to(given(9_000)), up_to(given(9_000))]}),
    ],
)
def test_a_supplied_value_may_not_make_loops_too_long(expression: Any) -> None:
    with pytest.raises(LoopTooLarge, match="more than 10000 times for one document"):
        check(expression)


@pytest.mark.parametrize(
    "expression",
    [
        up_to(given(10_000)),
        {"$range": [given(1), given(1_000_000), given(1_000)]},
        up_to({"$min": [given(1_000_000), 100]}),
        up_to(1_000_000),
        up_to({"$size": "$items"}),
        loop("$items", loop("$items")),
        loop(up_to(given(100)), loop(up_to(given(100)))),
        loop(up_to(given(10_000)), {"$add": ["$$this", given(1_000_000)]}),
        {"$add": [given(1_000_000), 1]},
        given({"$range": [0, {"$literal": 1_000_000}]}),
        up_to(given("many")),
        up_to(given(None)),
    ],
)
def test_other_loops_are_as_they_were(expression: Any) -> None:
    check(expression)
