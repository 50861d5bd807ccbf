"""Mappings as values: fields, enums, type resolvers."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec.bson_types import Decimal128, Int64, ObjectId
from docgraph.codec.equality import unordered_key
from docgraph.graphql.definition.mapping import (
    EnumMapping,
    FieldMapping,
    TypeResolver,
    build_vocabulary,
)
from docgraph.predicates import PredicateError, compile_predicate

ID = ObjectId("64b5f0a1c2d3e4f5a6b7c8d9")


def holds(text: str, value: Any) -> bool:
    return bool(compile_predicate(text, build_vocabulary(set()))(value))


def test_a_field_mapping_reads_its_path() -> None:
    mapping = FieldMapping(("a", "0", "b"))

    assert mapping.get({"a": [{"b": 3}]}) == 3
    assert mapping.text == "a.0.b"
    assert mapping == FieldMapping(("a", "0", "b"))


@pytest.mark.parametrize(
    "group",
    [
        [1, 1.0, Int64(1), Decimal128("1"), Decimal128("1.0")],
        [True],
        [0, -0.0],
        [False],
        ["1"],
        [None],
        [float("nan"), Decimal128("NaN")],
        [{"a": 1, "b": [2]}, {"b": [2.0], "a": Int64(1)}],
        [{"a": True, "b": [2]}],
        [[1, 2], [1.0, 2.0]],
        [[2, 1]],
        [ID],
        [str(ID)],
        [b"x"],
        ["x"],
        [2**53 + 1, Int64(2**53 + 1)],
        [2.0**53],
    ],
)
def test_equality_is_by_value_for_numbers_and_by_keys_for_documents(group: list[Any]) -> None:
    """Decision 18."""
    assert len({unordered_key(value) for value in group}) == 1


def test_different_values_are_different() -> None:
    values = [1, True, "1", None, 2, [1], {"a": 1}, {"a": True}, 1.5, ID, str(ID), b"1"]

    assert len({unordered_key(value) for value in values}) == len(values)


def test_an_enum_knows_names_and_stored_values() -> None:
    mapping = EnumMapping("E", {"A": 1, "B": "b", "C": True, "D": "D", "X": 1.0})

    assert mapping.stored["A"] == 1
    assert [mapping.name_of(value) for value in (1, 1.0, Int64(1), "b", True, "D")] == [
        "A",
        "A",
        "A",
        "B",
        "C",
        "D",
    ]
    with pytest.raises(ValueError, match="enum E has no name for the stored value"):
        mapping.name_of("A")


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("field-exists(a)", {"a": None}, True),
        ("field-exists(a)", {}, False),
        ("field-exists(a)", None, False),
        ("field-exists(a)", 5, False),
        ("field-exists(a, b.c)", {"a": 1, "b": {"c": 1}}, True),
        ("field-exists(a, b.c)", {"a": 1, "b": {}}, False),
        ("field-exists(l.0.x)", {"l": [{"x": 1}]}, True),
        ("field-exists(l.1)", {"l": [1]}, False),
        ("field-exists(fields={a})", {"a": 1}, True),
        ("field-eq(field=a, value=1)", {"a": 1.0}, True),
        ("field-eq(field=a, value=1)", {"a": Int64(1)}, True),
        ("field-eq(field=a, value=1)", {"a": True}, False),
        ("field-eq(field=a, value=true)", {"a": True}, True),
        ("field-eq(field=a, value=null)", {"a": None}, True),
        ("field-eq(field=a, value=null)", {}, False),
        ("field-eq(field=a.b, value='\"x\"')", {"a": {"b": "x"}}, True),
        ('field-eq(field=a, value=\'{"x": 1, "y": [2]}\')', {"a": {"y": [2], "x": 1}}, True),
        ("field-eq(field=a, value='{\"x\": 1}')", {"a": {"x": 1, "y": 2}}, False),
        ("field-eq(field=l.0, value=3)", {"l": [3]}, True),
        (f'field-eq(field=_id, value=\'{{"$oid": "{ID}"}}\')', {"_id": ID}, True),
        ("field-eq(field=d, value='{\"$date\": 5}')", {"d": 5}, False),
        ("value-eq(3)", 3.0, True),
        ("value-eq('\"x\"')", "x", True),
        ("value-eq(null)", {}, False),
        ("true", None, True),
        ("not field-exists(a) and true", {}, True),
    ],
)
def test_the_three_predicates(text: str, value: Any, expected: bool) -> None:
    """Decision 18."""
    assert holds(text, value) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("field-eq(field=a, value=bar)", "is not valid JSON"),
        ("value-eq('{')", "is not valid JSON"),
        ("path('/x')", "unknown predicate path"),
        ("field-equals(field=a, value=1)", "unknown predicate field-equals"),
        ("field-eq(a, 1)", "takes its values by name"),
        ("field-eq(field=a)", "needs a value for value"),
        ("field-exists(a..b)", "is not a path"),
    ],
)
def test_wrong_predicates_are_refused(text: str, words: str) -> None:
    with pytest.raises(PredicateError) as error:
        holds(text, {})

    assert words in str(error.value)


def test_needed_paths_are_in_dot_notation() -> None:
    paths: set[str] = set()
    vocabulary = build_vocabulary(paths)

    compile_predicate("field-eq(field='l[0].x', value=1) or field-exists(a.b)", vocabulary)
    assert paths == {"l.0.x", "a.b"}
    compile_predicate("value-eq(1)", vocabulary)
    assert "" in paths


def test_the_first_predicate_that_holds_names_the_type() -> None:
    """Decision 18: in the order of the definition."""
    paths: set[str] = set()
    vocabulary = build_vocabulary(paths)
    texts = {"B": "field-exists(b.c)", "A": "field-eq(field=a, value=1)", "Z": "field-exists(a)"}
    resolver = TypeResolver(
        tuple((name, compile_predicate(text, vocabulary)) for name, text in texts.items()),
        frozenset(paths),
    )

    assert resolver.resolve({"a": 1, "b": {"c": 0}}) == "B"
    assert resolver.resolve({"a": 1}) == "A"
    assert resolver.resolve({"a": 2}) == "Z"
    assert resolver.resolve({}) is None
    assert resolver.needed_paths == {"a", "b.c"}
