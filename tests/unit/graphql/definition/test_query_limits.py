"""What a query may cost (decision 26)."""

from __future__ import annotations

import time

import pytest
from graphql import get_introspection_query

from docgraph.graphql.definition.query_limits import (
    check_limits,
    find_deep_nesting,
    parse_query,
    replace_limits,
)
from docgraph.graphql.errors import Classification, OperationRefused
from docgraph.graphql.sections import GraphqlLimits

LIMITS = GraphqlLimits()


def check(text: str, limits: GraphqlLimits = LIMITS) -> None:
    check_limits(parse_query(text, limits), limits)


def reject(text: str, limits: GraphqlLimits = LIMITS) -> OperationRefused:
    started = time.process_time()
    with pytest.raises(OperationRefused) as error:
        check(text, limits)
    assert time.process_time() - started < 5
    assert len(error.value.errors) == 1
    return error.value


def nested(levels: int, leaf: str = "a") -> str:
    return "{a" * (levels - 1) + "{" + leaf + "}" + "}" * (levels - 1)


def test_the_limits_are_those_of_the_configuration_and_then_of_the_app() -> None:
    configured = GraphqlLimits(depth=7, aliases=8)

    limits = replace_limits(configured, {"aliases": 9, "root-fields": 3})

    assert (limits.depth, limits.aliases, limits.root_fields, limits.tokens) == (7, 9, 3, 2500)


@pytest.mark.parametrize(
    "more", [{}, {"input_value_deprecation": True, "schema_description": True}]
)
def test_the_introspection_query_of_graphiql_passes(more: dict[str, bool]) -> None:
    """Decision 26."""
    check(get_introspection_query(**more))


def test_depth_counts_levels_of_fields() -> None:
    check(nested(15))

    assert "more than 15 levels" in str(reject(nested(16)))


def test_depth_counts_fragments_as_if_they_were_written_out() -> None:
    text = "{...F}" + " fragment F on Q " + nested(11, "...G") + " fragment G on Q " + nested(6)

    assert "more than 15 levels" in str(reject(text))
    check(text, GraphqlLimits(depth=16))


def test_inline_fragments_add_no_level() -> None:
    check("{" + "... on Q {" * 40 + "a" + "}" * 40 + "}")


@pytest.mark.parametrize("count", [51, 1000])
def test_aliases_are_counted_also_those_of_typename(count: int) -> None:
    text = "{a{" + " ".join(f"a{i}: __typename" for i in range(count)) + "}}"

    assert reject(text).errors[0].message in (
        "the query has more than 50 aliases",
        "Syntax Error: Document contains more than 2500 tokens. Parsing aborted.",
    )


def test_fifty_aliases_pass() -> None:
    check("{a{" + " ".join(f"a{i}: b" for i in range(50)) + "}}")


def test_root_fields_are_counted_through_fragments() -> None:
    check("{" + " a" * 20 + "}")

    assert "more than 20 fields of Query" in str(reject("{" + " a" * 21 + "}"))
    assert "more than 20 fields of Query" in str(
        reject("{...F ...F ...F} fragment F on Query {" + " a" * 7 + "}")
    )


@pytest.mark.parametrize("directive", ["@skip(if: true)", "@unknown"])
def test_directives_are_counted_and_give_one_error(directive: str) -> None:
    """Reliability G08."""
    assert "more than 50 directives" in str(reject("{a " + f"{directive} " * 51 + "}"))
    assert "directives" in str(reject("query ($a: Int " + "@x " * 51 + ") {a}"))
    assert "directives" in str(reject("query " + "@x " * 51 + " {a}"))


def test_fragment_definitions_are_counted() -> None:
    text = "{a}" + "".join(f" fragment F{i} on Q {{a}}" for i in range(51))

    assert "more than 50 fragments" in str(reject(text))


@pytest.mark.parametrize("length", [1, 2, 10, 50])
def test_fragment_cycles_are_left_to_validation(length: int) -> None:
    """Reliability G09."""
    check(
        "{...F0}"
        + "".join(f" fragment F{i} on Q {{...F{(i + 1) % length}}}" for i in range(length))
    )


@pytest.mark.parametrize("exponent", [14, 20, 30, 45])
@pytest.mark.parametrize("body", ["...F{0} ...F{0}", "a: x {{...F{0}}} b: x {{...F{0}}}"])
def test_doubling_fragments_are_decided_fast(exponent: int, body: str) -> None:
    """Reliability G10."""
    text = "{r{...F0}}" + "".join(
        f" fragment F{i} on Q {{{body.format(i + 1)}}}" for i in range(exponent)
    )

    reject(text + f" fragment F{exponent} on Q {{a}}", GraphqlLimits(depth=100, aliases=200))


@pytest.mark.parametrize("depth", [101, 1_000, 10_000])
@pytest.mark.parametrize(("start", "end"), [("{a", "}"), ("{a(x: [", "])}"), ("{a(x: {b: ", "})}")])
def test_nesting_beyond_the_parser_is_a_clean_syntax_error(
    depth: int, start: str, end: str
) -> None:
    """Reliability G06."""
    if start.startswith("{a("):
        text = "{a(x: " + start[6:] * depth + end[:-2] * depth + ")}"
    else:
        text = start * depth + end * depth

    error = reject(text).errors[0]

    assert error.classification is Classification.SYNTAX
    assert error.message == "the query is nested deeper than 100 levels"


def test_brackets_in_strings_and_comments_do_not_nest() -> None:
    brackets = "{[(" * 100

    check(f'{{a(x: "{brackets}\\"{brackets}", y: """{brackets}\\"""" {brackets}""")}} #{brackets}')


def test_deep_nesting_is_told_with_its_place() -> None:
    assert find_deep_nesting("{\n" * 99 + "{}") is None
    assert find_deep_nesting("{\n" * 99 + "{ {}") == (100, 3)


def test_tokens_and_text_are_bounded() -> None:
    assert "more than 2500 tokens" in str(reject("{" + " a" * 2600 + "}"))
    assert "longer than 65536 characters" in str(reject("#" * 70_000))


def test_a_syntax_error_has_its_place() -> None:
    error = reject("{\n  a(\n}").errors[0]

    assert error.classification is Classification.SYNTAX
    assert error.code == "invalid-syntax"
    assert error.locations == ((3, 1),)


@pytest.mark.parametrize("text", ["", "# only a comment", "{}", "{ a { } }", "{", "}", "\x00"])
def test_what_is_no_document_is_a_syntax_error(text: str) -> None:
    """Reliability G16."""
    assert reject(text).errors[0].classification is Classification.SYNTAX


def test_introspection_is_bounded_by_itself() -> None:
    deep = "{__schema{types" + "{ofType" * 20 + "{name}" + "}" * 20 + "}}"

    assert "levels of introspection" in str(reject(deep))


@pytest.mark.parametrize(
    "place", ["{ a(n: %s) }", "{ a(n: {b: [%s]}) }", "query ($v: Int = %s) { a }"]
)
def test_a_number_of_very_many_digits_is_refused_in_our_words(place: str) -> None:
    """Decision 22: Python's own text about it would name what to call to allow it."""
    with pytest.raises(OperationRefused) as refusal:
        parse_query(place % ("9" * 5_000), GraphqlLimits())

    (error,) = refusal.value.errors
    assert error.message == "a number of the query has more than 400 digits"
    assert error.locations == ((1, place.index("%") + 1),)


def test_digits_in_a_text_are_not_counted() -> None:
    parse_query('{ a(s: "' + "9" * 5_000 + '") }', GraphqlLimits())
