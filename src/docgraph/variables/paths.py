"""Paths into values: `a.b`, `a.0`, `a[0]`, `a['b']` (decision 10), and names of variables.

`get_field` is for document fields: a name maps over arrays, and a missing value is null.
`get_bound` is the same for names of `$arg`, where a missing value is unbound. `get_value` returns
one value at most, for variables and predicates: it does not map over arrays.

Of the names that `$arg` accepts, `@…` is a predefined variable, `rootDoc…` the root document,
everything else an argument of the field. Values of a caller are never found under the first two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from docgraph.exchange.data import FieldPath
from docgraph.variables.value_marks import UNBOUND

_STEP = re.compile(
    r"""
    \.? (?P<name> [^.\[\]'"()\s]+ )      # a name or an index after a dot
    | \[ (?P<index> \d+ ) \]
    | \[ '(?P<single> [^']* )' \]
    | \[ "(?P<double> [^"]* )" \]
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=1024)  # the same few names, of mappings and rules, in every request
def parse_path(text: str) -> FieldPath:
    """Return the steps of a path; an index is a step of digits. ValueError names the column."""
    steps: list[str] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or (match["name"] and bool(steps) != text.startswith(".", position)):
            raise ValueError(f"{text!r} is not a path: cannot read on at column {position + 1}")
        steps.append(next(group for group in match.groups() if group is not None))
        position = match.end()
    if not steps:
        raise ValueError("a path cannot be empty")
    return tuple(steps)


_FIELD_STEP = re.compile(r"""[^.\[]+ | \[ (\d+ | '[^']*' | "[^"]*") \]""", re.VERBOSE)


def parse_field_path(text: str) -> FieldPath:
    """Return the steps of a path to a field; names may contain what `parse_path` rejects."""
    steps: list[str] = []
    position = 0
    while position < len(text):
        if steps and text[position] == ".":
            position += 1
        match = _FIELD_STEP.match(text, position)
        if match is None:
            raise ValueError(f"{text!r} is not the path of a field")
        steps.append(match[0] if match[1] is None else match[1].strip("'\""))
        position = match.end()
    if not all(steps) or not steps or text.endswith("."):
        raise ValueError(f"{text!r} is not the path of a field")
    return tuple(steps)


def render_path(path: FieldPath) -> str:
    """Render the path in dot notation, as far as that is possible (for projections)."""
    steps = []
    for step in path:
        if not step or "." in step or step.startswith("$"):
            break
        steps.append(step)
    return ".".join(steps)


def get_value(value: Any, path: FieldPath) -> Any:
    """Return the value at the path, or UNBOUND."""
    for step in path:
        if type(value) is dict or isinstance(value, Mapping):
            if step not in value:
                return UNBOUND
            value = value[step]
        elif isinstance(value, list) and step.isdigit():
            index = int(step)
            if index >= len(value):
                return UNBOUND
            value = value[index]
        else:
            value = _open_reference(value).get(step, UNBOUND)
            if value is UNBOUND:
                return UNBOUND
    return value


def get_bound(value: Any, path: FieldPath) -> Any:
    """Return what `get_field` finds, or UNBOUND if it is missing; of arrays, existing elements."""
    for position, step in enumerate(path):
        if isinstance(value, list) and not step.isdigit():
            rest = path[position:]
            return [get_field(item, rest) for item in value]
        value = get_value(value, (step,))
        if value is UNBOUND:
            return UNBOUND
    return value


def get_field(value: Any, path: FieldPath) -> Any:
    """Return a field: an index selects an array element, a name maps over it, absent is None."""
    for position, step in enumerate(path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list):
            if not step.isdigit():
                rest = path[position:]
                return [get_field(item, rest) for item in value]
            index = int(step)
            value = value[index] if index < len(value) else None
        else:
            value = _open_reference(value).get(step)
    return value


def _open_reference(value: Any) -> Mapping[str, Any]:
    """Return the document of a DBRef, which the driver does not return as a document."""
    as_document = getattr(value, "as_doc", None)
    return {} if as_document is None else as_document()


def compile_field(path: FieldPath) -> Callable[[Any], Any]:
    """Compile `get_field` for one path; the common path of one step costs one lookup."""
    if len(path) != 1:
        return lambda document: get_field(document, path)
    name = path[0]

    def get(document: Any) -> Any:
        if type(document) is dict:
            return document.get(name)
        return get_field(document, path)

    return get


def put_value(target: dict[str, Any], name: str, value: Any) -> None:
    """Set a value at its path, unless one is already set."""
    *steps, last = parse_path(name)
    for step in steps:
        inner = target.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        target = inner
    target.setdefault(last, value)


ROOT = "rootDoc"
MAX_RANDOM_BITS = 4096
REQUEST_TIMES = ("epochTimeStamp", "dateTime")

_VARIABLE = re.compile(r"@(?P<head>[A-Za-z_][\w-]*)(?P<rest>[.\[(].*)?", re.DOTALL)
_RANDOM = re.compile(r"\((\d{1,4})\)")


class ValueOrigin(StrEnum):
    """Where a value comes from."""

    ARGUMENT = "argument"
    VARIABLE = "variable"
    ROOT = "root"


@dataclass(frozen=True, slots=True)
class VariableName:
    """A name of `$arg`: the origin of its value, and the path from there."""

    name: str
    source: ValueOrigin
    head: str  # the argument, or the variable without its @
    path: FieldPath = ()


def parse_reference(name: str) -> VariableName:
    """Parse a name; raise ValueError if it is invalid."""
    if name.startswith("@"):
        head, _ = parse_expression(name)
        return VariableName(name, ValueOrigin.VARIABLE, head)
    head, *rest = parse_path(name)
    source = ValueOrigin.ROOT if head == ROOT else ValueOrigin.ARGUMENT
    return VariableName(name, source, head, tuple(rest))


@lru_cache(maxsize=1024)
def parse_expression(expression: str) -> tuple[str, str]:
    """Split `@user.a.b` into the variable (`user`) and the rest (`.a.b`), and check both."""
    match = _VARIABLE.fullmatch(expression)
    if match is None:
        raise ValueError(f"{expression!r} is not the name of a variable")
    head, rest = match["head"], match["rest"] or ""
    if head == "rnd":
        parse_random_bits(rest)
    elif rest.startswith((".", "[")):
        parse_path(f"{head}{rest}")
    return head, rest


def parse_random_bits(rest: str) -> int:
    """Return the number in `@rnd(<bits>)`."""
    match = _RANDOM.fullmatch(rest)
    bits = int(match[1]) if match else 0
    if not 1 <= bits <= MAX_RANDOM_BITS:
        raise ValueError(f"@rnd takes a number of bits from 1 to {MAX_RANDOM_BITS}: @rnd(64)")
    return bits


def is_momentary(name: str) -> bool:
    """Check if a predefined variable has another value each time the same request is made."""
    match = _VARIABLE.fullmatch(name)
    if match is None:
        return False  # no variable
    head, rest = match["head"], match["rest"] or ""
    if head != "request":
        return head in ("now", "rnd")
    return not rest or any(time in rest for time in REQUEST_TIMES)
