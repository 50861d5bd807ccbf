"""Functions of the predicate language: parameters, and how arguments become a test of requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from docgraph.access.language.predicate_values import Value, attribute, find_parameter
from docgraph.access.language.prefilter import Reach
from docgraph.access.language.view import NoValue, RequestView, Text
from docgraph.predicates import Arguments as Texts
from docgraph.predicates import Parameter, Quoted
from docgraph.variables.paths import parse_path
from docgraph.variables.variable_names import parse_expression

__all__ = [
    "AccessFunction",
    "FunctionArguments",
    "FunctionScope",
    "Parameter",
    "Test",
    "Texts",
    "is_variable",
]

Test = Callable[[RequestView], bool]

_EMBEDDED = re.compile(r"(\$\{[^{}]+\}|%\{[^{}]+\})")
_NAME = re.compile(r"\$\{([\w.-]+)\}")
_CLOSED = frozenset({"dbPermissions"})  # it is what the rule will produce


def is_variable(text: str) -> bool:
    """Return whether the text is `@…`; in quotes it is a plain text."""
    return text[:1] == "@" and not isinstance(text, Quoted)


@dataclass(slots=True)
class FunctionScope:
    """The names that a predicate may refer to while it is compiled, and those it did refer to."""

    variables: frozenset[str]
    bound: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    def read(self, text: str) -> Value:
        """Return the value that a text of the rule represents; raises ValueError."""
        if is_variable(text):
            return self._read_variable(text)
        parts = [part for part in _EMBEDDED.split(text) if part]
        values = [self._read_part(part) for part in parts]
        if len(values) == 1:
            return values[0]
        return lambda view: Text("".join(_text(value(view)) for value in values))

    def _read_part(self, part: str) -> Value:
        name = _NAME.fullmatch(part)
        if name is not None:
            bound = name[1]
            if bound not in self.bound:
                raise ValueError(
                    f"nothing to the left gives ${{{bound}}}; path-template and regex do"
                )
            return lambda view: view.get_bound(bound)
        value = attribute(part)
        if value is not None:
            return value
        if part.startswith("%{") or re.fullmatch(r"%\w", part):
            raise ValueError(
                f"unknown attribute {part} (known: %u, %R, %m, %a, %{{SCHEME}}, %{{i,Header}}, "
                "%{q,name}, %{c,cookie})"
            )
        literal = Text(part)
        return lambda view: literal

    def _read_variable(self, text: str) -> Value:
        if text.startswith("@@"):
            literal = Text(text[1:])
            return lambda view: literal
        head, _ = parse_expression(text)
        if head in _CLOSED:
            raise ValueError(f"@{head} cannot be used inside a permission")
        if head not in self.variables:
            known = ", ".join(f"@{name}" for name in sorted(self.variables - _CLOSED))
            raise ValueError(f"unknown variable @{head} (known: {known}; write @@… for a text)")
        self.used.add(text)
        if head == "qparams":
            return _read_parameter(text)
        return lambda view: view.get(text)


def _read_parameter(text: str) -> Value:
    """Return `@qparams['x']` as the single value of the parameter."""
    _, *path = parse_path(text[1:])
    if len(path) != 1:
        raise ValueError(f"{text}: write @qparams['name']")
    (name,) = path
    return lambda view: find_parameter(view, name)


def _text(value: Any) -> str:
    """Return a part of a longer text; other types would be lost in it."""
    if not isinstance(value, str):
        raise NoValue("no text")
    return value


@dataclass(frozen=True, slots=True)
class FunctionArguments:
    """The arguments of one call of a function."""

    values: Mapping[str, tuple[Value, ...]]
    texts: Texts
    scope: FunctionScope

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return the single text of a fixed parameter."""
        found = self.texts.get(name)
        return found[0] if found else default


@dataclass(frozen=True, slots=True)
class AccessFunction:
    """A function of the language; `build` raises ValueError for invalid arguments.

    `reach` is for functions that check only path and method, so that their tests neither need a
    value nor fail; it returns None for other arguments.
    """

    parameters: tuple[Parameter, ...]
    build: Callable[[FunctionArguments], Test]
    reach: Callable[[Texts], Reach | None] = lambda texts: None
