"""Predicates become functions with the words that their user brings."""

from __future__ import annotations

import pytest

from docgraph.predicates import (
    Arguments,
    Parameter,
    Predicate,
    PredicateError,
    Word,
    bind_arguments,
    compile_predicate,
    compile_tree,
    parse_predicate,
    place_in_order,
)
from docgraph.predicates.parse import Call


def build_has(arguments: Arguments) -> Predicate:
    return lambda subject: all(name in subject for name in arguments["names"])


def build_size(arguments: Arguments) -> Predicate:
    size = int(arguments["size"][0])
    return lambda subject: len(subject) == size


VOCABULARY = {
    "has": Word([Parameter("names", is_list=True, is_default=True)], build_has),
    "size": Word([Parameter("size"), Parameter("unit", is_required=False)], build_size),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", True),
        ("has(a)", True),
        ("has(a, b)", True),
        ("has(a, c)", False),
        ("has[c] or size(size=2)", True),
        ("not has(a) or false", False),
        ("not (has(c) and true)", True),
        ("has(a) and not has(c) and size(size=2, unit=x)", True),
    ],
)
def test_the_function_says_what_the_text_says(text: str, expected: bool) -> None:
    assert compile_predicate(text, VOCABULARY)({"a", "b"}) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__import__('os')", "unknown predicate __import__"),
        ("has", "has needs a value for names"),
        ("size(2)", "size takes its values by name: size=…, unit=…"),
        ("size(size={1, 2})", "size takes one value for size"),
        ("has(nmaes=a)", "has has no parameter nmaes"),
        ("size(size=x)", "size: invalid literal"),
    ],
)
def test_wrong_words_and_arguments_are_refused(text: str, words: str) -> None:
    with pytest.raises(PredicateError, match="column 1: ") as error:
        compile_predicate(text, VOCABULARY)

    assert words in str(error.value)


def test_a_condition_is_told_whether_it_is_turned_round() -> None:
    told: dict[str, bool] = {}

    def compile_call(call: Call, is_negated: bool) -> Predicate:
        told[call.name] = is_negated
        return lambda subject: call.name in subject

    tree = parse_predicate("a and not (b or not c) or not (not (d))")
    test = compile_tree(tree, compile_call)

    assert told == {"a": False, "b": True, "c": False, "d": False}
    assert test({"a", "c"})
    assert not test({"a", "b", "c"})
    assert test({"d"})


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("word(x)", {"one": ("x",)}),
        ("word(x, y, z)", {"one": ("x",), "rest": ("y", "z")}),
        ("word(one=x, rest={y, z})", {"one": ("x",), "rest": ("y", "z")}),
    ],
)
def test_values_without_names_fill_the_parameters_in_order(
    text: str, given: dict[str, tuple[str, ...]]
) -> None:
    call = parse_predicate(text)
    assert isinstance(call, Call)
    parameters = (Parameter("one"), Parameter("rest", is_list=True, is_required=False))

    assert bind_arguments(call, parameters, place_in_order) == given


def test_a_value_that_no_parameter_is_left_for_is_refused() -> None:
    call = parse_predicate("word(x, y)")
    assert isinstance(call, Call)

    with pytest.raises(PredicateError, match="column 1: word takes fewer values"):
        bind_arguments(call, (Parameter("one"),), place_in_order)
