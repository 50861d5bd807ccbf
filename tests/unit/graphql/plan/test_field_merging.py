"""Counting what merging costs: as the rule of the specification would compare, without doing so."""

from __future__ import annotations

import pytest
from graphql import build_schema, parse, validate
from graphql.validation import OverlappingFieldsCanBeMergedRule

from docgraph.graphql.plan.field_merging import Merging, measure_merging

SCHEMA = build_schema(
    "interface I { n: Int i: I } type Query { a: A i: I u: U } union U = A | B"
    " type A implements I { n: Int i: I a(x: Int, y: Int): A t: Int }"
    " type B implements I { n: Int! i: I a(x: Int, y: Int): A t: Int }"
)


def measure(query: str, most: int = 10_000) -> Merging:
    return measure_merging(SCHEMA, parse(query), most)


@pytest.mark.parametrize(
    ("query", "comparisons"),
    [
        ("{ a { n t } }", 0),
        ("{ a { n n n } }", 3),
        ("{ a { a { n } a { n } } }", 2),
        ("{ a { a { a { n } } } a { a { a { n } } } }", 4),
        ("{ a { n ... on A { n } ... { n } ...F } } fragment F on A { n }", 6),
        ("{ a { ...F ...F ...F } } fragment F on A { n }", 0),
        ("{ a { x: n x: n y: n } }", 1),
        ("{ a { n n } } query B { a { n n } }", 2),
        ("{ __schema { types { name name } } __typename __typename }", 2),
        ("{ nope { n n } a { ...Nope } }", 1),
    ],
)
def test_each_is_compared_with_each_at_its_place_of_the_answer(
    query: str, comparisons: int
) -> None:
    assert measure(query) == Merging(comparisons, alike=True)


@pytest.mark.parametrize(
    "query",
    [
        "{ a { n: t n } }",
        "{ a { a(x: 1) { n } a(x: 2) { n } } }",
        "{ a { a(x: 1, y: 2) { n } a(y: 2, x: 1) { n } } }",
        "{ u { ... on A { n } ... on B { n } } }",
        "{ a { a { n } } a { a { n: t } } }",
        "{ a { ...F a { n } } } fragment F on A { a { n: t } }",
    ],
)
def test_what_is_not_the_same_is_left_to_the_rule(query: str) -> None:
    assert not measure(query).alike


@pytest.mark.parametrize(
    "query",
    [
        "{ a { a(x: 1) { n } a(x: 1) { n } } }",
        "{ u { ... on A { t } ... on B { t } } i { n ... on A { n i { n } } i { n } } }",
        "{ a { ...F ...G } } fragment F on A { a { n ...G } } fragment G on A { n a { t } }",
    ],
)
def test_what_is_the_same_has_no_conflict(query: str) -> None:
    assert measure(query).alike
    assert validate(SCHEMA, parse(query), [OverlappingFieldsCanBeMergedRule]) == []


def test_fragments_in_a_circle_are_left_to_the_rules() -> None:
    circle = "fragment F on A { a { ...F } i { ... on A { ...F } } }"

    assert not measure("{ a { ...F } } " + circle, most=1_000).alike
