"""Predicates: any text is parsed or refused, and a parsed one means what it says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docgraph.graphql.definition.mapping import build_vocabulary
from docgraph.predicates import PredicateError, compile_predicate

WORDS = ["not", "and", "or", "true", "false", "field-exists", "field-eq", "value-eq", "value", "a"]
MARKS = [*"()[]{},=;'\"\\ \t\n", "->", "1", "$", "é"]


@given(st.lists(st.sampled_from(WORDS + MARKS), max_size=40).map("".join) | st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Reliability D04."""
    column = 1
    try:
        predicate = compile_predicate(text, build_vocabulary(set()))
    except PredicateError as error:
        column = error.column
    else:
        assert predicate({"a": 1}) in (True, False)
    assert 1 <= column <= len(text) + 1


Tree = tuple[str, Any]

leaves: st.SearchStrategy[Tree] = st.sampled_from(
    [("true", True), ("false", False)] + [(f"field-exists({name})", name) for name in "abc"]
)


def render(tree: Tree) -> str:
    kind, value = tree
    match kind:
        case "not":
            return f"not ({render(value)})"
        case "and" | "or":
            return "(" + f" {kind} ".join(render(part) for part in value) + ")"
        case _:
            return kind


def evaluate(tree: Tree, document: dict[str, int]) -> bool:
    kind, value = tree
    match kind:
        case "not":
            return not evaluate(value, document)
        case "and":
            return all(evaluate(part, document) for part in value)
        case "or":
            return any(evaluate(part, document) for part in value)
        case "true" | "false":
            return kind == "true"
        case _:
            return value in document


trees = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(st.just("not"), inner)
        | st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=4))
    ),
    max_leaves=20,
)


@given(trees, st.sets(st.sampled_from("abc")))
def test_a_predicate_means_what_it_says(tree: Tree, fields: set[str]) -> None:
    document = dict.fromkeys(fields, 1)

    predicate = compile_predicate(render(tree), build_vocabulary(set()))

    assert predicate(document) is evaluate(tree, document)


@given(st.integers(51, 5000), st.sampled_from(["(", "not(", "not (true or "]))
def test_nesting_never_exhausts_the_stack(depth: int, opening: str) -> None:
    with pytest.raises(PredicateError):
        compile_predicate(opening * depth + "true" + ")" * depth, build_vocabulary(set()))
