"""The names that `$arg` takes, told apart once, when a mapping is compiled.

`@…` is a predefined variable, `rootDoc…` the root document, everything else an argument of the
field. Nothing that a caller supplies is ever looked up under the first two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from docgraph.variables.paths import Path, parse_path

__all__ = [
    "REQUEST_TIMES",
    "ROOT",
    "Reference",
    "Source",
    "is_momentary",
    "parse_expression",
    "parse_reference",
]

ROOT = "rootDoc"
MAX_RANDOM_BITS = 4096
REQUEST_TIMES = ("epochTimeStamp", "dateTime")

_VARIABLE = re.compile(r"@(?P<head>[A-Za-z_][\w-]*)(?P<rest>[.\[(].*)?", re.DOTALL)
_RANDOM = re.compile(r"\((\d{1,4})\)")


class Source(StrEnum):
    """Where a value comes from."""

    ARGUMENT = "argument"
    VARIABLE = "variable"
    ROOT = "root"


@dataclass(frozen=True, slots=True)
class Reference:
    """A name of `$arg`: where to look, and the path from there."""

    name: str
    source: Source
    head: str  # the argument, or the variable without its @
    path: Path = ()


def parse_reference(name: str) -> Reference:
    """Raises ValueError for what is no name."""
    if name.startswith("@"):
        head, _ = parse_expression(name)
        return Reference(name, Source.VARIABLE, head)
    head, *rest = parse_path(name)
    source = Source.ROOT if head == ROOT else Source.ARGUMENT
    return Reference(name, source, head, tuple(rest))


@lru_cache(maxsize=1024)
def parse_expression(expression: str) -> tuple[str, str]:
    """The variable of `@user.a.b` (`user`) and the rest (`.a.b`), checked as far as it is ours."""
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
    """The number in `@rnd(<bits>)`."""
    match = _RANDOM.fullmatch(rest)
    bits = int(match[1]) if match else 0
    if not 1 <= bits <= MAX_RANDOM_BITS:
        raise ValueError(f"@rnd takes a number of bits from 1 to {MAX_RANDOM_BITS}: @rnd(64)")
    return bits


def is_momentary(name: str) -> bool:
    """Whether a predefined variable has another value whenever the same request is made."""
    found = _VARIABLE.fullmatch(name)
    if found is None:
        return False  # no variable
    head, rest = found["head"], found["rest"] or ""
    if head != "request":
        return head in ("now", "rnd")
    return not rest or any(time in rest for time in REQUEST_TIMES)
