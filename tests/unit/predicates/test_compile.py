"""Predicates become functions with the words that their user brings."""

from __future__ import annotations

import pytest

from docgraph.predicates import (
    Arguments,
    Parameter,
    Predicate,
    PredicateError,
    Word,
    compile_predicate,
)


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
