"""From the text of a predicate to a test of requests.

A predicate is true, false or unknown. What has no value is neither so nor not so: a condition on it
is unknown and so is its contrary, so that `not equals(@user.team, 'a')` admits nobody of whom no
team is known. A rule matches only where its predicate is true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from operator import or_
from typing import Final

from docgraph.access.language.reach import EVERYWHERE, NOWHERE, Reach
from docgraph.access.language.texts import NoValue
from docgraph.access.language.view import RequestView, Wanted
from docgraph.access.language.vocabulary import VOCABULARY
from docgraph.access.language.word import Arguments, Scope, Test
from docgraph.exchange.errors import RequestError
from docgraph.predicates import (
    PredicateError,
    Truth,
    bind_arguments,
    compile_tree,
    parse_predicate,
    place_in_order,
)
from docgraph.predicates.parse import All, AnyOf, Call, Literal, Node, Not
from docgraph.predicates.tokens import REFERENCES

__all__ = ["Outcome", "Predicate", "compile_call", "compile_predicate", "holds"]

MAX_TEXT: Final = 64 * 1024

Outcome = Callable[[RequestView], Truth]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A compiled predicate; `variables` are the `@…` that it may ask for."""

    text: str
    test: Outcome = field(repr=False)
    variables: frozenset[str] = frozenset()
    reach: Reach = EVERYWHERE


def compile_predicate(text: str, variables: frozenset[str]) -> Predicate:
    """Raises `PredicateError` with the column of what is wrong; `variables` are the known ones."""
    if len(text) > MAX_TEXT:
        raise PredicateError(1, f"longer than {MAX_TEXT} characters")
    scope = Scope(variables)
    node = parse_predicate(text, REFERENCES)
    test = compile_tree(node, lambda call: compile_call(call, scope))
    return Predicate(text, test, frozenset(scope.used), _find_reach(node)[0])


async def holds(predicate: Predicate, view: RequestView) -> bool:
    """Whether the predicate holds; finds the values that it asks for on the way."""
    while True:
        view.bound = {}
        try:
            return predicate.test(view) is True
        except Wanted as wanted:
            await view.supply(wanted.name)


def compile_call(call: Call, scope: Scope) -> Outcome:
    """One condition; raises `PredicateError`. Those to the left of it are in the scope already."""
    word = VOCABULARY.get(call.name)
    if word is None:
        raise PredicateError(call.column, f"unknown predicate {call.name}{_suggest(call.name)}")
    given = bind_arguments(call, word.parameters, place_in_order)
    fixed = {one.name for one in word.parameters if one.is_fixed}
    try:
        values = {
            name: tuple(map(scope.read, texts))
            for name, texts in given.items()
            if name not in fixed
        }
        test = word.build(Arguments(values, given, scope))
        return _tell(test) if word.reach(given) is None else test
    except ValueError as error:
        raise PredicateError(call.column, f"{call.name}: {error}") from None


def _tell(test: Test) -> Outcome:
    """The test with a third outcome: what has no value, or cannot be read, is unknown."""

    def tell(view: RequestView) -> Truth:
        try:
            return test(view)
        except (NoValue, RequestError):
            return None

    return tell


def _find_reach(node: Node) -> tuple[Reach, bool]:
    """Outside which paths and methods the node is false; whether it can neither ask nor fail."""
    match node:
        case Literal(value):
            return (EVERYWHERE if value else NOWHERE), True
        case Not(part):
            return EVERYWHERE, _find_reach(part)[1]
        case All(parts):
            return _narrow(parts)
        case AnyOf(parts):
            found = [_find_reach(part) for part in parts]
            return reduce(or_, (one for one, _ in found)), all(plain for _, plain in found)
        case Call():
            word = VOCABULARY[node.name]
            reach = word.reach(bind_arguments(node, word.parameters, place_in_order))
            return (EVERYWHERE, False) if reach is None else (reach, True)


def _narrow(parts: tuple[Node, ...]) -> tuple[Reach, bool]:
    reach = EVERYWHERE
    for part in parts:
        more, plain = _find_reach(part)
        reach &= more
        if not plain:
            return reach, False  # the parts to the right of it are reached only through it
    return reach, True


def _suggest(name: str) -> str:
    near = get_close_matches(name, VOCABULARY, 1)
    known = ", ".join(sorted(VOCABULARY))
    return f"; did you mean {near[0]}?" if near else f" (known: {known})"
