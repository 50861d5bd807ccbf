"""From the text of a predicate to a test of requests.

What has no value is neither true nor false: a condition on it does not hold, and neither does its
contrary, so that `not equals(@user.team, 'a')` admits nobody of whom no team is known. The compiler
knows under how many `not`s a condition stands and lets it come out on the side that denies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from operator import or_
from typing import Final

from docgraph.access.language.reach import EVERYWHERE, NOWHERE, Reach
from docgraph.access.language.spelling import respell
from docgraph.access.language.view import NoValue, RequestView, Wanted
from docgraph.access.language.vocabulary import VOCABULARY
from docgraph.access.language.word import Arguments, Parameter, Scope, Test, Texts, Word
from docgraph.exchange.errors import RequestError
from docgraph.predicates import PredicateError, parse_predicate
from docgraph.predicates.parse import All, AnyOf, Call, Literal, Node, Not

__all__ = ["Predicate", "compile_predicate", "holds"]

MAX_TEXT: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Predicate:
    """A compiled predicate; `variables` are the `@…` that it may ask for."""

    text: str
    test: Test = field(repr=False)
    variables: frozenset[str] = frozenset()
    reach: Reach = EVERYWHERE


def compile_predicate(text: str, variables: frozenset[str]) -> Predicate:
    """Raises `PredicateError` with the column of what is wrong; `variables` are the known ones."""
    if len(text) > MAX_TEXT:
        raise PredicateError(1, f"longer than {MAX_TEXT} characters")
    spelling = respell(text)
    scope = Scope(variables)
    try:
        node = parse_predicate(spelling.text)
        test = _Compiler(scope).compile(node, denies=False)
    except PredicateError as error:
        raise PredicateError(spelling.find_column(error.column), error.what) from None
    return Predicate(text, test, frozenset(scope.used), _find_reach(node)[0])


async def holds(predicate: Predicate, view: RequestView) -> bool:
    """Whether the predicate holds; finds the values that it asks for on the way."""
    while True:
        view.bound = {}
        try:
            return predicate.test(view)
        except Wanted as wanted:
            await view.supply(wanted.name)


class _Compiler:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def compile(self, node: Node, *, denies: bool) -> Test:
        """`denies`: whether what the node says is turned round above it."""
        match node:
            case Literal(value):
                return lambda view: value
            case Not(part):
                inner = self.compile(part, denies=not denies)
                return lambda view: not inner(view)
            case All(parts):
                every = tuple(self.compile(part, denies=denies) for part in parts)
                return lambda view: all(test(view) for test in every)
            case AnyOf(parts):
                some = tuple(self.compile(part, denies=denies) for part in parts)
                return lambda view: any(test(view) for test in some)
            case Call():
                return _decide(self._compile_call(node), unknown=denies)

    def _compile_call(self, call: Call) -> Test:
        word = VOCABULARY.get(call.name)
        if word is None:
            raise PredicateError(call.column, f"unknown predicate {call.name}{_suggest(call.name)}")
        given = _bind(call, word)
        fixed = {one.name for one in word.parameters if one.is_fixed}
        try:
            values = {
                name: tuple(map(self._scope.read, texts))
                for name, texts in given.items()
                if name not in fixed
            }
            return word.build(Arguments(values, given, self._scope))
        except ValueError as error:
            raise PredicateError(call.column, f"{call.name}: {error}") from None


def _decide(test: Test, *, unknown: bool) -> Test:
    def decide(view: RequestView) -> bool:
        try:
            return test(view)
        except (NoValue, RequestError):
            return unknown

    return decide


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
            reach = word.reach(_bind(node, word))
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


def _bind(call: Call, word: Word) -> Texts:
    parameters = {one.name: one for one in word.parameters}
    given = dict(call.named)
    given.update(_place(call, word.parameters))
    for name, values in given.items():
        if name not in parameters:
            raise PredicateError(call.column, f"{call.name} has no parameter {name}")
        if len(values) > 1 and not parameters[name].is_list:
            raise PredicateError(call.column, f"{call.name} takes one value for {name}")
    missing = [one.name for one in word.parameters if one.is_required and one.name not in given]
    if missing:
        raise PredicateError(call.column, f"{call.name} needs a value for {', '.join(missing)}")
    return given


def _place(call: Call, parameters: tuple[Parameter, ...]) -> Texts:
    """Values without names, in the order of the parameters; a list takes what is left."""
    left = list(call.values)
    placed: dict[str, tuple[str, ...]] = {}
    for parameter in parameters:
        if not left:
            return placed
        count = len(left) if parameter.is_list else 1
        placed[parameter.name] = tuple(left[:count])
        del left[:count]
    if left:
        raise PredicateError(call.column, f"{call.name} takes fewer values")
    return placed
