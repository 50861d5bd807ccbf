"""Fields of the same name are counted while they are read, and none after one too many."""

from __future__ import annotations

import pytest
from graphql import FieldNode, build_schema, parse, validate
from graphql.language.parser import Parser
from graphql.validation import OverlappingFieldsCanBeMergedRule

from docgraph.graphql.definition.query_limits import (
    MAX_COMPARISONS,
    Merging,
    measure_merging,
    parse_query,
)
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.sections import GraphqlLimits

SCHEMA = build_schema("type Query { a: A } type A { a: A n: Int }")
LIMITS = GraphqlLimits(tokens=30_000)
TWICE = "query A {{ a {{ {0} }} }} query B {{ a {{ {0} }} }}"


def read(text: str) -> int:
    """How many comparisons there are in what was read."""
    return measure_merging(SCHEMA, parse_query(text, LIMITS), 10_000).comparisons


@pytest.fixture
def read_fields(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fields that the parser has begun to read."""
    begun: list[str] = []
    parse_field = Parser.parse_field

    def note(parser: Parser) -> FieldNode:
        begun.append("field")
        return parse_field(parser)

    monkeypatch.setattr(Parser, "parse_field", note)
    return begun


@pytest.mark.parametrize(
    ("field", "most", "read_until_refused"),
    [
        ("n ", 224, 1 + 224),
        ("a{n} ", 158, 1 + 2 * 158 + 1),
        ("a{a{n}} ", 129, 1 + 3 * 129 + 1),
        ("...on A{a{n}} ", 158, 1 + 2 * 158 + 1),
        ("k:n ", 224, 1 + 224),
    ],
)
@pytest.mark.parametrize("times", [300, 3_000])
def test_a_field_too_many_is_the_last_that_is_read(
    field: str, most: int, read_until_refused: int, times: int, read_fields: list[str]
) -> None:
    """The cost of a refusal does not grow with the text."""
    assert read("{ a { " + field * most + "} }") <= MAX_COMPARISONS
    read_fields.clear()

    with pytest.raises(OperationRefused) as refusal:
        parse_query("{ a { " + field * times + "} and no query any more", LIMITS)

    assert [error.code for error in refusal.value.errors] == ["limit-exceeded"]
    assert len(read_fields) == read_until_refused


@pytest.mark.parametrize(
    ("text", "comparisons"),
    [
        (TWICE.format("n " * 150), 22_350),
        ("{ a { ...F " + "n " * 100 + "} } fragment F on A { " + "n " * 100 + "}", 19_900),
        ("{ a { " + " ".join(f"k{number}: n" for number in range(300)) + " } }", 0),
        ("{ a { " + " ".join(f"k{number}: a {{ n n }}" for number in range(300)) + " } }", 300),
    ],
    ids=["two operations", "a fragment", "aliases", "places of their own"],
)
def test_what_is_within_the_bound_is_read(text: str, comparisons: int) -> None:
    assert read(text) == comparisons


def test_operations_are_counted_together() -> None:
    with pytest.raises(OperationRefused, match="the same name too often"):
        parse_query(TWICE.format("n " * 160), LIMITS)


def test_too_many_tokens_are_told_as_such() -> None:
    with pytest.raises(OperationRefused, match="more than 2500 tokens"):
        parse_query("{ a { " + "n " * 2_500 + "} }", GraphqlLimits())


@pytest.mark.parametrize("text", ["{ a { a { a { n } } ", "{ a { : n } }", "{ a { a(x: 1 } }"])
def test_what_is_no_query_is_a_syntax_error(text: str) -> None:
    with pytest.raises(OperationRefused) as refusal:
        parse_query(text, LIMITS)

    assert [error.code for error in refusal.value.errors] == ["invalid-syntax"]


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
