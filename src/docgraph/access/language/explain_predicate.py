"""Explain why a predicate is false: the conditions that cause it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from docgraph.access.language.function import FunctionScope
from docgraph.access.language.predicate import Outcome, compile_call
from docgraph.access.language.view import NeedsValue, RequestView
from docgraph.predicates import Truth, parse_predicate
from docgraph.predicates.parse import All, AnyOf, Literal, Node, Not, PredicateCall
from docgraph.predicates.tokens import REFERENCES


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


async def _weigh(outcome: Outcome, view: RequestView) -> Truth:
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
    """Return the conditions that prevent the node from being `wanted`."""
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
            found = [_blame(part, wanted, truths, text) for part in parts]
            # One part suffices for an `or` to be true, and for an `and` to be false.
            if isinstance(node, AnyOf) is wanted and not all(found):
                return []
            return [one for some in found for one in some]
