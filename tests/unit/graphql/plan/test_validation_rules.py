"""Errors of values in a query: the argument or variable, the path in it, and the location."""

from __future__ import annotations

import pytest
from graphql import build_schema, parse, specified_rules, validate
from graphql.validation import OverlappingFieldsCanBeMergedRule

from docgraph.graphql.plan.validation_rules import Merging, choose_rules, measure_merging

RULES = choose_rules(introspection=True, alike=False)
SCHEMA = build_schema(
    "type Query { f(n: Int, ids: [Int!], by: By, must: Int! = 1, kind: Kind, x: [Float], d: Doc,"
    " dec: Decimal128): Int } scalar Doc scalar Decimal128"
    " input By { n: Int, deeper: [By!] } enum Kind { A }"
)


@pytest.mark.parametrize(
    ("query", "start", "location"),
    [
        ('{ f(n: "x") }', "Argument 'n' has invalid value: Int cannot", (1, 8)),
        ("{ f(n: {a: 1}) }", "Argument 'n' has invalid value: Int cannot", (1, 8)),
        ("{ f(ids: [1, true]) }", "Argument 'ids' has invalid value at [1]: Int cannot", (1, 14)),
        (
            '{ f(by: {deeper: [{n: "x"}]}) }',
            "Argument 'by' has invalid value at .deeper[0].n: Int cannot",
            (1, 23),
        ),
        ("{ f(by: {no: 1}) }", "Argument 'by' has invalid value: Expected value of type", (1, 10)),
        ("{ f(kind: B) }", "Argument 'kind' has invalid value: Value 'B' does not", (1, 11)),
        ("{ f(must: null) }", "Argument 'must' has invalid value: Expected value of", (1, 11)),
        ('{ f @skip(if: "x") }', "Argument 'if' has invalid value: Boolean cannot", (1, 15)),
        (
            'query ($v: Int = "x") { f(n: $v) }',
            "Variable '$v' has invalid default value: Int cannot",
            (1, 18),
        ),
        (
            'query ($v: [By] = [{n: "x"}]) { f(by: {deeper: $v}) }',
            "Variable '$v' has invalid default value at [0].n: Int cannot",
            (1, 24),
        ),
    ],
)
def test_an_error_of_a_value_names_its_owner_and_its_place(
    query: str, start: str, location: tuple[int, int]
) -> None:
    """Drill G13."""
    errors = validate(SCHEMA, parse(query), RULES, hide_suggestions=True)

    assert errors[0].message.startswith(start)
    assert [(place.line, place.column) for place in errors[0].locations or ()] == [location]


@pytest.mark.parametrize(
    ("query", "owner"),
    [
        ("{ f(x: 1e400) }", "Argument 'x' has invalid value"),
        ("{ f(x: [1, -1e400]) }", "Argument 'x' has invalid value"),
        ("{ f(x: 1" + "0" * 309 + ") }", "Argument 'x' has invalid value"),
        ("{ f(d: {a: [1e400]}) }", "Argument 'd' has invalid value"),
        (
            "query ($v: [Float] = [1e400]) { f(x: $v) }",
            "Variable '$v' has invalid default value",
        ),
    ],
)
def test_a_number_that_a_double_cannot_hold_does_not_become_infinite(
    query: str, owner: str
) -> None:
    """Drill G15: never a silent change."""
    (error,) = validate(SCHEMA, parse(query), RULES)

    assert error.message.startswith(f"{owner}: ")
    assert error.message.endswith("is beyond the range of a double")


def test_a_decimal_may_be_larger_than_a_double() -> None:
    assert validate(SCHEMA, parse("{ f(dec: 1e400, x: 1e-400) }"), RULES) == []


def test_all_rules_of_the_specification_are_there() -> None:
    assert len(RULES) == len(specified_rules) + 1
    assert len(choose_rules(introspection=False, alike=False)) == len(RULES) + 1
    assert len(choose_rules(introspection=True, alike=True)) == len(RULES) - 1


@pytest.mark.parametrize("query", ["{ f(n: 1, ids: [1], by: {n: 1}, kind: A) }", "{ f(ids: 1) }"])
def test_values_that_fit_are_no_errors(query: str) -> None:
    assert validate(SCHEMA, parse(query), RULES) == []


POSTS = build_schema(
    "interface I { n: Int i: I } type Query { a: A i: I u: U } union U = A | B"
    " type A implements I { n: Int i: I a(x: Int, y: Int): A t: Int }"
    " type B implements I { n: Int! i: I a(x: Int, y: Int): A t: Int }"
)


def measure(query: str, most: int = 10_000) -> Merging:
    return measure_merging(POSTS, parse(query), most)


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
    assert validate(POSTS, parse(query), [OverlappingFieldsCanBeMergedRule]) == []


def test_fragments_in_a_circle_are_left_to_the_rules() -> None:
    circle = "fragment F on A { a { ...F } i { ... on A { ...F } } }"

    assert not measure("{ a { ...F } } " + circle, most=1_000).alike
