"""Command templates: what is checked once, and the values that are checked at every call."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex
from bson.son import SON
from bson.timestamp import Timestamp

from docgraph.exchange.errors import DocgraphError, SecurityViolation
from docgraph.store.guard.stage_checks import (
    KeptStage,
    Policy,
    check_filter,
    check_pipeline,
    holds_only_values,
)
from docgraph.store.sections import AggregationSecurity
from docgraph.variables import Scope, compile_template, matches_nothing
from docgraph.variables.value_marks import NOTHING

DEFAULT = Policy.from_section(AggregationSecurity())


class Text(str):
    """A text of another class, which could have keys."""


SCALARS: list[Any] = [
    *(
        None,
        True,
        1,
        2.5,
        "x",
        "$password",
        "$$ROOT",
        "$where",
        "a.b",
        "\0",
        "$" * 100_000,
        b"$out",
    ),
    *(Int64(1), Decimal128("1"), ObjectId(), uuid.uuid4(), Binary(b"x", 128), datetime(2020, 1, 1)),
    *(DatetimeMS(1), Timestamp(1, 1), MinKey(), MaxKey(), Code("1"), float("nan"), 1 << 62),
]
COMPOUND: list[Any] = [
    {"$where": "1"},
    {"$gt": ""},
    {"$expr": {"$function": {}}},
    {"a": {"$where": "1"}},
    {"$out": "x"},
    {"$literal": {"$where": "1"}},
    {"a.b": 1, "$ne": None},
    SON([("$where", "1")]),
    [{"$where": "1"}],
    [[{"$ne": 1}]],
    ({"$where": "1"},),
    [{"$lookup": {"from": "users", "as": "x"}}, {"$out": "y"}],
    Regex("^a"),
    re.compile("a"),
    [Regex("(a+)+$")],
    Text("x"),
]
HOSTILE = [*SCALARS, *COMPOUND]


COMPARED = {"$eq", "$ne", "$gt", "$in", "$nin", "$literal"}


def _find_operators(value: Any) -> Iterator[str]:
    """The names of operators in a filter or in stages, without what is compared or literal."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _find_operators(inner)
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        if key[:1] == "$":
            yield key
        is_array = key[:1] != "$" and isinstance(inner, list | tuple)  # it is compared
        if key not in COMPARED and not is_array:
            yield from _find_operators(inner)


def _render(source: Any, context: Any, value: Any) -> Any:
    """What a template becomes with a value; None: the field fails, or finds nothing."""
    try:
        rendered = compile_template(source, context=context).render(Scope({"x": value}))
    except DocgraphError:
        return None
    return None if matches_nothing(rendered) or rendered is NOTHING else rendered


FILTERS: dict[str, Any] = {
    "value": {"a": {"$arg": "x"}},
    "equality": {"a": {"$eq": {"$arg": "x"}}},
    "membership": {"a": {"$in": {"$arg": "x"}}},
    "range": {"a": {"$gt": {"$arg": "x"}}},
    "member": {"$or": [{"a": {"$arg": "x"}}, {"b": 1}]},
    "negation": {"a": {"$ne": {"$arg": "x"}}},
    "expression": {"$expr": {"$eq": ["$a", {"$arg": "x"}]}},
}
ALLOWED = {"$eq", "$in", "$gt", "$or", "$ne", "$expr", "$literal"}


@pytest.mark.parametrize("source", FILTERS.values(), ids=FILTERS)
def test_a_value_never_becomes_an_operator_or_a_path(source: Any) -> None:
    """Decision 69."""
    for value in HOSTILE:
        rendered = _render(source, "filter", value)
        if rendered is not None:
            assert rendered.keys() <= source.keys(), value
            assert set(_find_operators(rendered)) <= ALLOWED, value


STAGES: list[dict[str, Any]] = [
    {"$match": {"a": {"$arg": "x"}}},
    {"$set": {"b": {"$arg": "x"}}},
    {"$group": {"_id": {"$arg": "x"}, "n": {"$sum": 1}}},
    {"$limit": 1},
]


def test_a_value_never_becomes_a_stage() -> None:
    """Decision 69."""
    names = [next(iter(stage)) for stage in STAGES]
    for value in HOSTILE:
        rendered = _render(STAGES, "stages", value)
        if rendered is not None:
            assert [next(iter(stage)) for stage in rendered] == names, value
            operators = set(_find_operators(rendered)) - set(names)
            assert operators <= {"$eq", "$in", "$literal", "$sum"}, value


SHAPES: dict[str, Any] = {
    "plain": lambda value: {"a": value},
    "equality": lambda value: {"a": {"$eq": value}},
    "membership": lambda value: {"a": {"$in": [1, value]}},
    "members": lambda value: {"a": {"$in": value}},
    "two": lambda value: {"_id": 1, "a": value},
    "operators": lambda value: {"a": {"$eq": 1, "$gt": value}},
    "range": lambda value: {"a": {"$gt": value}},
    "condition": lambda value: {"$or": value},
}
# The same checks without the quick answer for filters that just compare.
SEARCHING = Policy(operators=frozenset({"$eq"}))
object.__setattr__(SEARCHING, "refused", DEFAULT.refused)


def _refuses(filter_: Any, policy: Policy) -> str | None:
    try:
        check_filter(filter_, policy=policy)
        check_pipeline([{"$match": filter_}], db="blog", policy=policy)
    except DocgraphError as error:
        return error.message
    return None


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_quick_check_of_values_rejects_what_the_search_rejects(shape: Any) -> None:
    """Decisions 20a and 69: the types of inserted values are checked at every call."""
    assert not SEARCHING.may_compare
    for value in HOSTILE:
        assert _refuses(shape(value), DEFAULT) == _refuses(shape(value), SEARCHING), value


def test_only_values_without_keys_are_passed_without_a_search() -> None:
    for value in COMPOUND:
        assert not holds_only_values({"a": {"$eq": value}}), value
        assert not holds_only_values({"a": {"$in": [value]}}), value
    assert not holds_only_values({"$where": "1"})
    assert not holds_only_values({1: 1})
    assert holds_only_values({"a": 1, "b": {"$in": ["x", None]}, "c": {"$eq": "$where"}})


@pytest.mark.parametrize("operator", ["$eq", "$in", "$match"])
def test_an_operator_that_the_configuration_rejects_is_searched_for(operator: str) -> None:
    policy = Policy(operators=frozenset({operator}))

    with pytest.raises(SecurityViolation):
        check_pipeline([{"$match": {"a": {operator: [1]}}}], db="blog", policy=policy)


def test_values_next_to_kept_stages_are_checked_at_every_call() -> None:
    """Decision 69."""
    kept = [KeptStage({"$limit": 1}), KeptStage({"$project": {"a": 1}})]
    for value in ("x", {"$eq": 1}, "$where"):
        check_pipeline([{"$match": {"a": value}}, *kept], db="blog", policy=DEFAULT)

    wrongs: list[Any] = [{"a": {"$where": "1"}}, {"$where": "1"}, {"a": [{"$function": {}}]}]
    for wrong in wrongs:
        with pytest.raises(SecurityViolation):
            check_pipeline([{"$match": wrong}, *kept], db="blog", policy=DEFAULT)
