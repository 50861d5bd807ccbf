"""Variable names: the names that `$arg` accepts, classified once, when a mapping is compiled.

`@…` is a predefined variable, `rootDoc…` the root document, everything else an argument of the
field. Values of a caller are never found under the first two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from docgraph.variables.paths import Path, parse_path

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
    path: Path = ()


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
    found = _VARIABLE.fullmatch(name)
    if found is None:
        return False  # no variable
    head, rest = found["head"], found["rest"] or ""
    if head != "request":
        return head in ("now", "rnd")
    return not rest or any(time in rest for time in REQUEST_TIMES)
