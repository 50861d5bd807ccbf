"""Compile the predicate of a permission rule to a test of requests; explain why it is false.

A predicate is true, false or unknown. A condition on a missing value is unknown and so is its
negation: `not equals(@user.team, 'a')` permits no caller whose team is missing. A rule matches only
where its predicate is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from operator import or_
from typing import Final

from docgraph.access.language.body_functions import BODY_WORDS
from docgraph.access.language.function import (
    EVERYWHERE,
    NOWHERE,
    FunctionArguments,
    FunctionScope,
    Reach,
    Test,
)
from docgraph.access.language.path_functions import PATH_WORDS
from docgraph.access.language.request_functions import REQUEST_WORDS
from docgraph.access.language.view import NeedsValue, NoValue, RequestView
from docgraph.exchange.errors import RequestError
from docgraph.predicates import (
    PredicateError,
    Truth,
    bind_arguments,
    compile_tree,
    parse_predicate,
    place_in_order,
)
from docgraph.predicates.parse import REFERENCES, All, AnyOf, Literal, Node, Not, PredicateCall

MAX_TEXT: Final = 64 * 1024
VOCABULARY: Final = {**PATH_WORDS, **REQUEST_WORDS, **BODY_WORDS}

EvaluateRequest = Callable[[RequestView], Truth]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A compiled predicate; `variables` are the `@…` that it may need."""

    text: str
    test: EvaluateRequest = field(repr=False)
    variables: frozenset[str] = frozenset()
    reach: Reach = EVERYWHERE


def compile_predicate(text: str, variables: frozenset[str]) -> Predicate:
    """Compile a predicate; raises `PredicateError` with the column.

    `variables` are the names that exist.
    """
    if len(text) > MAX_TEXT:
        raise PredicateError(1, f"longer than {MAX_TEXT} characters")
    scope = FunctionScope(variables)
    node = parse_predicate(text, REFERENCES)
    test = compile_tree(node, lambda call: compile_call(call, scope))
    return Predicate(text, test, frozenset(scope.used), _find_reach(node)[0])


async def holds(predicate: Predicate, view: RequestView) -> bool:
    """Return whether the predicate is true; loads the values that it needs."""
    while True:
        view.bound = {}
        try:
            return predicate.test(view) is True
        except NeedsValue as wanted:
            await view.supply(wanted.name)


def compile_call(call: PredicateCall, scope: FunctionScope) -> EvaluateRequest:
    """Compile one condition; raises `PredicateError`. The scope has the conditions to its left."""
    word = VOCABULARY.get(call.name)
    if word is None:
        raise PredicateError(call.column, f"unknown predicate {call.name}{_suggest(call.name)}")
    given = bind_arguments(call, word.parameters, place_in_order)
    fixed = {parameter.name for parameter in word.parameters if parameter.is_fixed}
    try:
        values = {
            name: tuple(map(scope.read, texts))
            for name, texts in given.items()
            if name not in fixed
        }
        test = word.build(FunctionArguments(values, given, scope))
        return _with_unknown(test) if word.reach(given) is None else test
    except ValueError as error:
        raise PredicateError(call.column, f"{call.name}: {error}") from None


def _with_unknown(test: Test) -> EvaluateRequest:
    """Return the test with a third result: missing or unreadable values are unknown."""

    def evaluate(view: RequestView) -> Truth:
        try:
            return test(view)
        except (NoValue, RequestError):
            return None

    return evaluate


def _find_reach(node: Node) -> tuple[Reach, bool]:
    """Return the paths and methods outside which the node is false.

    The second value: whether the node can neither need a value nor fail.
    """
    match node:
        case Literal(value):
            return (EVERYWHERE if value else NOWHERE), True
        case Not(part):
            return EVERYWHERE, _find_reach(part)[1]
        case All(parts):
            return _narrow(parts)
        case AnyOf(parts):
            reaches = [_find_reach(part) for part in parts]
            return reduce(or_, (reach for reach, _ in reaches)), all(plain for _, plain in reaches)
        case PredicateCall():
            word = VOCABULARY[node.name]
            reach = word.reach(bind_arguments(node, word.parameters, place_in_order))
            return (EVERYWHERE, False) if reach is None else (reach, True)


def _narrow(parts: tuple[Node, ...]) -> tuple[Reach, bool]:
    reach = EVERYWHERE
    for part in parts:
        more, plain = _find_reach(part)
        reach &= more
        if not plain:
            return reach, False  # the parts to the right of it are evaluated only after it
    return reach, True


def _suggest(name: str) -> str:
    near = get_close_matches(name, VOCABULARY, 1)
    names = ", ".join(sorted(VOCABULARY))
    return f"; did you mean {near[0]}?" if near else f" (known: {names})"


@dataclass(frozen=True, slots=True)
class Failure:
    """A condition as the predicate writes it, with its column, and its truth for the request.

    `not method(GET)` means a condition that should be false. `truth` None: unknown, because a value
    is missing.
    """

    condition: str
    column: int
    truth: Truth


async def find_failures(
    text: str, variables: frozenset[str], view: RequestView
) -> tuple[Failure, ...]:
    """Return the conditions that prevent a predicate from being true; none if it is true."""
    node = parse_predicate(text, REFERENCES)
    scope = FunctionScope(variables)
    view.bound = {}
    truths: dict[int, Truth] = {}
    for call in _list_calls(node):
        truths[call.column] = await _weigh(compile_call(call, scope), view)
    return tuple(_blame(node, True, truths, text))


async def _weigh(outcome: EvaluateRequest, view: RequestView) -> Truth:
    while True:
        try:
            return outcome(view)
        except NeedsValue as wanted:
            await view.supply(wanted.name)


def _list_calls(node: Node) -> Iterator[PredicateCall]:
    """Yield the calls from left to right: later ones may use variables that earlier ones bind."""
    match node:
        case PredicateCall():
            yield node
        case Not(part):
            yield from _list_calls(part)
        case All(parts) | AnyOf(parts):
            for part in parts:
                yield from _list_calls(part)


def _blame(node: Node, wanted: bool, truths: Mapping[int, Truth], text: str) -> list[Failure]:
    """Return the conditions because of which the node does not have the truth value `wanted`."""
    match node:
        case Literal(value):
            return [] if value is wanted else [Failure(str(value).lower(), 0, value)]
        case Not(part):
            return _blame(part, not wanted, truths, text)
        case PredicateCall():
            truth = truths[node.column]
            if truth is wanted:
                return []
            condition = text[node.column - 1 : node.end]
            return [Failure(condition if wanted else f"not {condition}", node.column, truth)]
        case All(parts) | AnyOf(parts):
            failures = [_blame(part, wanted, truths, text) for part in parts]
            # One part suffices for an `or` to be true, and for an `and` to be false.
            if isinstance(node, AnyOf) is wanted and not all(failures):
                return []
            return [failure for some in failures for failure in some]
