"""Completing values: the generated way for what is sound, the careful way for what is not."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from bson import Int64
from graphql import (
    GraphQLFloat,
    GraphQLInt,
    GraphQLList,
    GraphQLNonNull,
    GraphQLOutputType,
    GraphQLString,
)

from docgraph.codec import JsonMode
from docgraph.graphql.definition.scalars import serializer
from docgraph.graphql.errors import Damaged, FieldPosition
from docgraph.graphql.execute.complete import complete_block
from docgraph.graphql.execute.result import encode_data
from docgraph.graphql.plan.leaves import LeafField, TypenameField
from docgraph.graphql.plan.plan_tree import Block
from docgraph.runtime.allocations import embed_json
from docgraph.variables import compile_field

UNCHANGED: dict[str, type] = {"String": str, "Int": int, "Float": float}


def leaf(key: str, type_: GraphQLOutputType, path: str | None = None) -> LeafField:
    named: Any = type_
    while hasattr(named, "of_type"):
        named = named.of_type
    steps = tuple((path or key).split("."))
    show: Callable[[Any], Any] = serializer(named.name, JsonMode.GRAPHQL)
    position = FieldPosition(f"T.{key}")
    return LeafField(
        key, type_, position, steps, compile_field(steps), show, UNCHANGED.get(named.name)
    )


def complete(fields: list[Any], *documents: dict[str, Any]) -> list[Any]:
    return complete_block(Block("T", tuple(fields)), documents, []).items


def test_fields_come_in_the_order_of_the_selection() -> None:
    fields = [leaf("b", GraphQLInt), TypenameField("kind", "T"), leaf("a", GraphQLString, "x.a")]

    (found,) = complete(fields, {"x": {"a": "one"}, "b": 1})

    assert list(found.items()) == [("b", 1), ("kind", "T"), ("a", "one")]


def test_missing_and_null_fields_are_null() -> None:
    assert complete([leaf("a", GraphQLInt)], {}, {"a": None}) == [{"a": None}, {"a": None}]


@pytest.mark.parametrize(
    ("type_", "stored", "shown"),
    [
        (GraphQLInt, Int64(5), 5),
        (GraphQLFloat, 1, 1.0),
        (GraphQLFloat, float("inf"), {"$numberDouble": "Infinity"}),
        (GraphQLList(GraphQLString), ["a", None], ["a", None]),
        (GraphQLList(GraphQLFloat), [1, float("nan")], [1.0, {"$numberDouble": "NaN"}]),
        (GraphQLList(GraphQLList(GraphQLInt)), [[1], [], None], [[1], [], None]),
    ],
)
def test_values_are_shown_as_their_type_says(
    type_: GraphQLOutputType, stored: Any, shown: Any
) -> None:
    assert complete([leaf("a", type_)], {"a": stored}) == [{"a": shown}]


def test_one_bad_value_costs_no_other() -> None:
    """Decision 16."""
    sound, damaged = complete(
        [leaf("a", GraphQLInt), leaf("b", GraphQLList(GraphQLInt))],
        {"a": 1, "b": [1]},
        {"a": "x", "b": [1, "y"]},
    )

    assert sound == {"a": 1, "b": [1]}
    assert isinstance(damaged, Damaged)
    assert damaged.value == {"a": None, "b": [1, None]}
    assert [error.path for error in damaged.errors.first] == [("a",), ("b", 1)]


def test_null_where_none_may_be_makes_the_object_null() -> None:
    fields = [leaf("a", GraphQLNonNull(GraphQLInt)), leaf("b", GraphQLInt)]

    (damaged,) = complete(fields, {"b": "never looked at"})

    assert damaged.value is None
    assert [(error.path, error.code) for error in damaged.errors.first] == [
        (("a",), "null-in-non-null")
    ]


def test_null_in_a_list_of_non_null_takes_the_list() -> None:
    type_ = GraphQLList(GraphQLNonNull(GraphQLInt))

    (damaged,) = complete([leaf("a", type_)], {"a": [1, None, "x"]})

    assert damaged.value == {"a": None}
    assert [error.path for error in damaged.errors.first] == [("a", 1)]


def test_document_that_is_none_has_only_nulls() -> None:
    assert complete([leaf("a", GraphQLInt)], "a scalar of a union") == [{"a": None}]  # type: ignore[arg-type]


def test_long_answers_are_encoded_in_slices_and_never_beyond_the_limit() -> None:
    data = {"list": [{"n": n} for n in range(1000)], "one": {"x": None}}
    text = encode_data(data, 1_000_000)

    assert text is not None
    assert encode_data(data, len(text)) == text
    assert encode_data(data, len(text) - 1) is None
    assert text.startswith(b'{"list":[{"n":0},{"n":1}')
    assert text.endswith(b'{"n":999}],"one":{"x":null}}')
    assert encode_data({"a": "x" * 10}, 5) is None


@pytest.mark.parametrize(
    "item",
    [
        {"a": "text", "b": {"c": 1, "d": None}},
        {"a": None, "b": [1, "two", None]},
        {"a": ["x", "y"], "b": [{"c": "z"}]},
        {},
        {"a": b'{"json":true}', "b": 1.5},
        "text",
        ["x", [2, {"a": "x"}]],
        7,
    ],
)
@pytest.mark.parametrize("other", [None, {"a": 1, "b": "text"}, {"a": "text"}, ["x"], "text", 1])
def test_long_lists_of_any_values_are_encoded_as_they_are(item: Any, other: Any) -> None:
    data = {"list": [item, other] * 300}

    text = orjson.dumps(data, embed_json)

    assert encode_data(data, len(text)) == text
    assert encode_data(data, len(text) - 1) is None


SHARED = ["x" * 1_000_000]
ALIASES = {f"alias{number}": SHARED for number in range(50)}
TEXTS = {f"alias{number}": SHARED[0] for number in range(50)}
MANY = [["x" * 1_000] * 300] * 50


@pytest.mark.parametrize(
    "data",
    [
        ALIASES,
        {"list": [{"shared": SHARED} for _ in range(250)]},
        {"object": ALIASES},
        {"object": TEXTS},
        {"a": {"b": {"c": ALIASES, "d": 1}}},
        {"list": [ALIASES]},
        {"list": [{"object": {"list": [TEXTS]}}]},
        {"list": MANY},
        {"object": {"one": "x", "many": {"lists": MANY}}},
        SHARED * 50,
        [{"k" * 200_000: 1}] * 1000,
        [{"k" * 200_000: 1, "one": {"id": 1}}] * 1000,
        [{"k" * 2_000: 1, "many": [{"j" * 2_000: 1}] * 100}] * 1000,
        [{"many": [{f"f{n}": n for n in range(40)}] * 1000}] * 1000,
        [{f"f{n}": n for n in range(50_000)}] * 1000,
    ],
    ids=range(15),
)
def test_a_large_value_that_is_shared_is_not_written_for_each_before_the_limit_counts(
    data: Any,
) -> None:
    tracemalloc.start()
    try:
        assert encode_data(data, 2_000_000) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 25_000_000


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"a": []},
        {"a": {}},
        {"a": {"b": {}, "c": [], "d": None}},
        {"a": {f"k{n}": n for n in range(1000)}, "b": {f"é{n}": [n] * n for n in range(50)}},
        {"a": {"x": "y" * 100_000, "n": 1, "z": ["y" * 70_000], "m": 2, "o": 3}},
        {"a": [{"x": "y" * 100_000, "n": [1, {"o": "p" * 66_000}]}, 5, None, {"q": "r" * 90_000}]},
        [[1, 2], [], ["x" * 70_000]],
    ],
)
def test_parts_are_the_same_text_as_the_whole(data: Any) -> None:
    text = orjson.dumps(data)

    assert encode_data(data, len(text)) == text
    assert encode_data(data, len(text) - 1) is None


@pytest.mark.parametrize("first", [{"author": None}, {"author": {"bio": "x"}}])
def test_a_response_of_shared_values_is_not_built_beyond_its_limit(first: Any) -> None:
    author = {"bio": "x" * 1_000_000, "books": [{"title": "y"}]}
    flat = {"bio": author["bio"]}
    for shared in ({"author": author}, flat, [author], [flat]):
        tracemalloc.start()
        try:
            assert encode_data({"books": [*[first] * 300, *[shared] * 200]}, 2_000_000) is None
            assert tracemalloc.get_traced_memory()[1] < 20_000_000
        finally:
            tracemalloc.stop()
