"""Predicates become functions with the words that their user brings."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docgraph.predicates import (
    CompiledPredicate,
    Parameter,
    PredicateArguments,
    PredicateError,
    PredicateWord,
    Truth,
    bind_arguments,
    compile_predicate,
    compile_tree,
    parse_predicate,
    place_in_order,
)
from docgraph.predicates.parse import PredicateCall


def build_has(arguments: PredicateArguments) -> CompiledPredicate:
    return lambda subject: all(name in subject for name in arguments["names"])


def build_size(arguments: PredicateArguments) -> CompiledPredicate:
    size = int(arguments["size"][0])
    return lambda subject: len(subject) == size


VOCABULARY = {
    "has": PredicateWord([Parameter("names", is_list=True, is_default=True)], build_has),
    "size": PredicateWord([Parameter("size"), Parameter("unit", is_required=False)], build_size),
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


TRUTHS: dict[str, Truth] = {"t": True, "f": False, "u": None}
TREES = st.recursive(
    st.sampled_from(["t", "f", "u", "u"]),
    lambda inner: st.one_of(
        inner.map(lambda one: f"not ({one})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u", None),
        ("not u", None),
        ("not (not u)", None),
        ("t and u", None),
        ("u and t", None),
        ("u or f", None),
        ("u or t", True),
        ("t or u", True),
        ("f and u", False),
        ("not (u and f)", True),
        ("not (f and u)", True),
        ("not (u and t)", None),
        ("not (u or f)", None),
        ("not (not u or f)", None),
        ("t and not (u and not t)", True),
        ("not (u and u) or f", None),
    ],
)
def test_a_condition_that_nobody_can_tell_stays_unknown(text: str, expected: Truth) -> None:
    def compile_call(call: PredicateCall) -> CompiledPredicate:
        return lambda subject: TRUTHS[call.name]

    assert compile_tree(parse_predicate(text), compile_call)(None) is expected


@given(TREES)
def test_a_tree_is_true_exactly_when_it_is_so_whatever_the_unknown_turns_out_to_be(
    tree: str,
) -> None:
    """Each unknown is a condition of its own: two of them do not have to turn out alike."""
    first, *others = tree.split("u")
    text = first + "".join(f"u{number}{rest}" for number, rest in enumerate(others))
    names = [f"u{number}" for number in range(len(others))]

    def evaluate(values: tuple[Truth, ...]) -> Truth:
        truths = TRUTHS | dict(zip(names, values, strict=True))

        def compile_call(call: Any) -> Callable[[None], Truth]:
            return lambda _: truths[call.name]

        return compile_tree(parse_predicate(text), compile_call)(None)

    certain = all(evaluate(values) for values in product((True, False), repeat=len(names)))
    assert (evaluate((None,) * len(names)) is True) == certain


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
    assert isinstance(call, PredicateCall)
    parameters = (Parameter("one"), Parameter("rest", is_list=True, is_required=False))

    assert bind_arguments(call, parameters, place_in_order) == given


def test_a_value_that_no_parameter_is_left_for_is_refused() -> None:
    call = parse_predicate("word(x, y)")
    assert isinstance(call, PredicateCall)

    with pytest.raises(PredicateError, match="column 1: word takes fewer values"):
        bind_arguments(call, (Parameter("one"),), place_in_order)
