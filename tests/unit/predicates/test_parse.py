"""The grammar of graphql-behaviour 5.3 and its errors."""

from __future__ import annotations

import pytest

from docgraph.predicates import PredicateError, parse_predicate
from docgraph.predicates.parse import All, AnyOf, Literal, Not, PredicateCall


def call(name: str, *values: str, column: int = 1, **named: tuple[str, ...]) -> PredicateCall:
    return PredicateCall(name, values, tuple(named.items()), column)


def test_true_and_false_are_literals() -> None:
    assert parse_predicate("true") == Literal(True)
    assert parse_predicate(" false ") == Literal(False)


def test_not_binds_tighter_than_and_and_and_tighter_than_or() -> None:
    tree = parse_predicate("not a and b or c")

    assert tree == AnyOf(
        (All((Not(call("a", column=5)), call("b", column=11))), call("c", column=16))
    )


def test_parentheses_change_the_order() -> None:
    tree = parse_predicate("a and (b or c)")

    assert tree == All((call("a"), AnyOf((call("b", column=8), call("c", column=13)))))


@pytest.mark.parametrize("text", ["f(a, b)", "f[a, b]", "f({a, b})", "f( a ,b )", "f[{a,\tb}]"])
def test_values_stand_in_round_or_square_brackets_with_or_without_braces(text: str) -> None:
    assert parse_predicate(text) == call("f", "a", "b")


def test_values_can_be_given_by_name() -> None:
    tree = parse_predicate("field-eq(field=a.b, value='\"x y\"')")

    assert tree == call("field-eq", field=("a.b",), value=('"x y"',))


def test_a_named_value_can_be_an_array() -> None:
    assert parse_predicate("f(x={a, b})") == call("f", x=("a", "b"))


def test_a_quote_of_its_own_kind_is_escaped_inside_quotes() -> None:
    assert parse_predicate(
        r"f('it\'s', "
        r'"say \"a\"")'
    ) == call("f", "it's", 'say "a"')


def test_json_escapes_survive_in_single_quotes() -> None:
    assert parse_predicate(r"""f('"a\"b"')""") == call("f", r'"a\"b"')


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "expected a predicate"),
        ("a and", 6, "expected a predicate, found the end"),
        ("a b", 3, "expected 'and', 'or' or the end, found 'b'"),
        ("AND a", 5, "expected"),
        ("not not a", 5, "expected a predicate, found 'not'"),
        ("f(a", 4, "expected ','"),
        ("f(a,)", 5, "expected a value"),
        ("(a", 3, "expected ')'"),
        ("f('')", 3, "cannot be empty"),
        ("f('a", 3, "not closed"),
        ("ab'c'", 3, "cannot start inside a word"),
        ("a -> b", 3, "reserved"),
        ("f(a=1, b)", 8, "without name"),
        ("f(1, a=1)", 6, "a name is expected"),
        ("f(a=1, a=2)", 8, "appears twice"),
        ("f(a=1) ; g", 8, "expected"),
    ],
)
def test_errors_name_the_column_and_what_was_expected(text: str, column: int, words: str) -> None:
    with pytest.raises(PredicateError, match=words.replace("(", r"\(").replace(")", r"\)")) as e:
        parse_predicate(text)

    assert e.value.column == column


@pytest.mark.parametrize("text", ["not(" * 10_000 + "a", "(" * 500 + "a", "not " * 50_000])
def test_hostile_nesting_is_refused(text: str) -> None:
    """Reliability D04."""
    with pytest.raises(PredicateError):
        parse_predicate(text)


def test_long_chains_are_flat() -> None:
    tree = parse_predicate(" and ".join(["a"] * 900))

    assert isinstance(tree, All)
    assert len(tree.parts) == 900
