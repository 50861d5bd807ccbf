"""The predicate language; each user of it supplies the vocabulary.

`parse.py` parses a predicate to a tree, which is compiled here to a function. All users share
`compile_tree` and `bind_arguments`. A user with special functions supplies a function that compiles
one condition; for plain functions `compile_predicate` suffices.

A condition is true, false or unknown (None), and so is a combination: `not unknown` is unknown,
`false and unknown` is false, `true or unknown` is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from docgraph.predicates.parse import (
    All,
    AnyOf,
    Literal,
    Node,
    Not,
    PredicateCall,
    PredicateError,
    Quoted,
    parse_predicate,
)

__all__ = [
    "CompiledPredicate",
    "Parameter",
    "PredicateArguments",
    "PredicateError",
    "PredicateWord",
    "PredicateWords",
    "Quoted",
    "Truth",
    "bind_arguments",
    "compile_predicate",
    "compile_tree",
    "parse_predicate",
    "place_in_order",
]

S = TypeVar("S")

Truth = bool | None
CompiledPredicate = Callable[[Any], Truth]
PredicateArguments = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function; the user of the language decides how unnamed values are assigned.

    An `is_fixed` parameter is a text of the predicate itself, never a value that the text refers
    to.
    """

    name: str
    is_required: bool = True
    is_list: bool = False
    is_default: bool = False
    is_fixed: bool = False


ArgumentBinder = Callable[[PredicateCall, Sequence[Parameter]], PredicateArguments]
"""Which parameters the values without names are for; raises `PredicateError`."""


@dataclass(frozen=True, slots=True)
class PredicateWord:
    """A function of the language: its parameters, and how arguments become a test.

    `build` gets a tuple of texts for each given parameter; it raises ValueError for an invalid one.
    """

    parameters: Sequence[Parameter]
    build: Callable[[PredicateArguments], CompiledPredicate]


PredicateWords = Mapping[str, PredicateWord]


def compile_predicate(text: str, vocabulary: PredicateWords) -> CompiledPredicate:
    """Compile to a function of the subject; raises `PredicateError` with the column."""

    def compile_call(call: PredicateCall) -> CompiledPredicate:
        word = vocabulary.get(call.name)
        if word is None:
            words = ", ".join(sorted(vocabulary))
            raise PredicateError(call.column, f"unknown predicate {call.name} (known: {words})")
        arguments = bind_arguments(call, word.parameters, _place_at_default)
        try:
            return word.build(arguments)
        except ValueError as error:
            raise PredicateError(call.column, f"{call.name}: {error}") from None

    return compile_tree(parse_predicate(text), compile_call)


def compile_tree(
    node: Node,
    compile_call: Callable[[PredicateCall], Callable[[S], Truth]],
    *,
    is_negated: bool = False,
) -> Callable[[S], Truth]:
    """Compile a tree to a function.

    Only whether the whole is true matters: parts that can no longer affect that are not evaluated,
    and for that each part has to know whether `not`s invert it.
    """

    def compile_all(nodes: Sequence[Node]) -> tuple[Callable[[S], Truth], ...]:
        return tuple(compile_tree(part, compile_call, is_negated=is_negated) for part in nodes)

    match node:
        case Literal(value):
            return lambda subject: value
        case Not(part):
            inner = compile_tree(part, compile_call, is_negated=not is_negated)
            return _negate(inner)
        case All(parts):
            return _join(compile_all(parts), deciding=False, is_unknown_enough=not is_negated)
        case AnyOf(parts):
            return _join(compile_all(parts), deciding=True, is_unknown_enough=is_negated)
        case PredicateCall():
            return compile_call(node)


def _negate(test: Callable[[S], Truth]) -> Callable[[S], Truth]:
    def negated(subject: S) -> Truth:
        truth = test(subject)
        return None if truth is None else not truth

    return negated


def _join(
    tests: Sequence[Callable[[S], Truth]], *, deciding: bool, is_unknown_enough: bool
) -> Callable[[S], Truth]:
    """Combine parts by `and` (a false part decides) or `or` (a true part decides)."""

    def joined(subject: S) -> Truth:
        outcome: Truth = not deciding
        for test in tests:
            truth = test(subject)
            if truth is deciding or (truth is None and is_unknown_enough):
                return truth
            if truth is None:
                outcome = None
        return outcome

    return joined


def bind_arguments(
    call: PredicateCall, parameters: Sequence[Parameter], place: ArgumentBinder
) -> PredicateArguments:
    """Return the texts of each given parameter; raises `PredicateError` for invalid ones."""
    by_name = {parameter.name: parameter for parameter in parameters}
    given = {name: values for name, values in call.named if values}
    given.update(place(call, parameters))
    for name, values in given.items():
        if name not in by_name:
            raise PredicateError(call.column, f"{call.name} has no parameter {name}")
        if len(values) > 1 and not by_name[name].is_list:
            raise PredicateError(call.column, f"{call.name} takes one value for {name}")
    required = [parameter.name for parameter in parameters if parameter.is_required]
    missing = [name for name in required if name not in given]
    if missing:
        raise PredicateError(call.column, f"{call.name} needs a value for {', '.join(missing)}")
    return given


def place_in_order(call: PredicateCall, parameters: Sequence[Parameter]) -> PredicateArguments:
    """Assign unnamed values in the order of the parameters; a list gets the rest."""
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


def _place_at_default(call: PredicateCall, parameters: Sequence[Parameter]) -> PredicateArguments:
    """Assign all unnamed values to the default parameter."""
    if not call.values:
        return {}
    default = next((parameter for parameter in parameters if parameter.is_default), None)
    if default is None:
        names = ", ".join(f"{named.name}=…" for named in parameters)
        raise PredicateError(call.column, f"{call.name} takes its values by name: {names}")
    return {default.name: call.values}
