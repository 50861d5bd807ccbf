"""From the tree of a predicate to a function, with the vocabulary that its user brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docgraph.predicates.parse import All, AnyOf, Call, Literal, Node, Not, parse_predicate
from docgraph.predicates.tokens import PredicateError

__all__ = ["Arguments", "Parameter", "Predicate", "Vocabulary", "Word", "compile_predicate"]

Predicate = Callable[[Any], bool]
Arguments = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a predicate; a value without name goes to the `default` one."""

    name: str
    is_required: bool = True
    is_list: bool = False
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A predicate: its parameters, and how the arguments become a function.

    `build` gets a tuple of texts for each parameter that was given; it raises ValueError for one
    that does not fit.
    """

    parameters: Sequence[Parameter]
    build: Callable[[Arguments], Predicate]


Vocabulary = Mapping[str, Word]


def compile_predicate(text: str, vocabulary: Vocabulary) -> Predicate:
    """A function of the subject; raises `PredicateError` with the column of what is wrong."""
    return _compile(parse_predicate(text), vocabulary)


def _compile(node: Node, vocabulary: Vocabulary) -> Predicate:
    match node:
        case Literal(value):
            return lambda subject: value
        case Not(part):
            inner = _compile(part, vocabulary)
            return lambda subject: not inner(subject)
        case All(parts):
            every = [_compile(part, vocabulary) for part in parts]
            return lambda subject: all(part(subject) for part in every)
        case AnyOf(parts):
            some = [_compile(part, vocabulary) for part in parts]
            return lambda subject: any(part(subject) for part in some)
        case Call():
            return _compile_call(node, vocabulary)


def _compile_call(call: Call, vocabulary: Vocabulary) -> Predicate:
    word = vocabulary.get(call.name)
    if word is None:
        known = ", ".join(sorted(vocabulary))
        raise PredicateError(call.column, f"unknown predicate {call.name} (known: {known})")
    arguments = _bind(call, word)
    try:
        return word.build(arguments)
    except ValueError as error:
        raise PredicateError(call.column, f"{call.name}: {error}") from None


def _bind(call: Call, word: Word) -> Arguments:
    parameters = {parameter.name: parameter for parameter in word.parameters}
    given = dict(call.named)
    if call.values:
        default = next((each for each in word.parameters if each.is_default), None)
        if default is None:
            names = ", ".join(f"{name}=…" for name in parameters)
            raise PredicateError(call.column, f"{call.name} takes its values by name: {names}")
        given[default.name] = call.values
    for name, values in given.items():
        if name not in parameters:
            raise PredicateError(call.column, f"{call.name} has no parameter {name}")
        if len(values) > 1 and not parameters[name].is_list:
            raise PredicateError(call.column, f"{call.name} takes one value for {name}")
    missing = [name for name, each in parameters.items() if each.is_required and name not in given]
    if missing:
        raise PredicateError(call.column, f"{call.name} needs a value for {', '.join(missing)}")
    return given
