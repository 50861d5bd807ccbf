"""Functions of the predicate language: parameters, values that they compare, and prefilters.

Values keep their types: texts of the rule, attributes of the request, variables. Nothing that a
caller or a user document supplies is ever parsed as a part of the rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from docgraph.access.language.view import AbsentValue, NoValue, Repeated, RequestView, Text
from docgraph.codec.bson_types import Decimal128, ObjectId
from docgraph.codec.equality import is_equal_unordered
from docgraph.exchange.request import Segments
from docgraph.predicates import Parameter, Quoted
from docgraph.predicates import PredicateArguments as Texts
from docgraph.variables.paths import parse_expression, parse_path

_ROOT: Final = frozenset({()})
_MAX_PREFIXES: Final = 64  # a larger number counts as every path


@dataclass(frozen=True, slots=True)
class Reach:
    """Prefilter: the path prefixes and methods where a predicate can be true; methods None: any.

    It is computed once, when a rule is read, so that a request is tested only against rules that
    could match (`docgraph.access.rule`). Outside its reach a predicate is false without needing any
    value: conditions to the right of one that could need a value or fail do not narrow the reach.
    The prefixes do not overlap.
    """

    prefixes: frozenset[Segments] = _ROOT
    methods: frozenset[str] | None = None

    def __and__(self, other: Reach) -> Reach:
        inside = {prefix for prefix in self.prefixes if _begins(other.prefixes, prefix)}
        inside |= {prefix for prefix in other.prefixes if _begins(self.prefixes, prefix)}
        return reach_of(inside, _intersect(self.methods, other.methods))

    def __or__(self, other: Reach) -> Reach:
        if not self.prefixes or not other.prefixes:
            return self if self.prefixes else other
        methods = None
        if self.methods is not None and other.methods is not None:
            methods = self.methods | other.methods
        return reach_of(self.prefixes | other.prefixes, methods)


def reach_of(prefixes: Iterable[Segments], methods: frozenset[str] | None = None) -> Reach:
    """Build the reach of these path prefixes; a wider one where there are too many."""
    given = frozenset(prefixes)
    if not given or methods == frozenset():
        return NOWHERE
    if len(given) > _MAX_PREFIXES:
        return Reach(_ROOT, methods)
    outer = frozenset(prefix for prefix in given if not _begins(given, prefix[:-1]) or not prefix)
    return Reach(outer, methods)


def _begins(prefixes: frozenset[Segments], path: Segments) -> bool:
    """Return whether one of the prefixes is the path or a prefix of it."""
    return any(path[:length] in prefixes for length in range(len(path) + 1))


def _intersect(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


EVERYWHERE: Final = Reach()
NOWHERE: Final = Reach(frozenset())


Value = Callable[[RequestView], Any]

_EXTENDED = re.compile(r"%\{([iqc]),([^{}]+)\}")


def attribute(text: str) -> Value | None:
    """Return the value of `%u`, `%{i,Accept}` and the like; None for any other text."""
    text = _ALIASES.get(text, text)
    if text in _ATTRIBUTES:
        return _ATTRIBUTES[text]
    match = _EXTENDED.fullmatch(text)
    if match is None:
        return None
    kind, name = match[1], match[2].strip()
    if kind == "i":
        return lambda view: pick_one(view.request.headers.get_list(name))
    if kind == "q":
        return lambda view: find_parameter(view, name)
    return lambda view: pick_one(_find_cookies(view, name))


def find_parameter(view: RequestView, name: str) -> Text | None:
    """Return the single value of a query parameter; raises `Repeated` for several."""
    return pick_one(view.request.query.get_list(name))


def pick_one(values: Sequence[str]) -> Text | None:
    """Return the single value of something repeatable; raises `Repeated` for different ones."""
    if len(set(values)) > 1:
        raise Repeated("several values")
    return Text(values[0]) if values else None


def _find_user(view: RequestView) -> str:
    account = view.exchange.account
    if account is None:
        raise AbsentValue("%u")
    return account.name


def _find_path(view: RequestView) -> str:
    """Return the path as text; raises `NoValue` when the text would name another document."""
    if view.is_retyped:
        raise NoValue("%R")
    return path_of(view)


def path_of(view: RequestView) -> Text:
    """Return the path as text, with slashes inside a segment distinct from separators."""
    quoted = (segment.replace("%", "%25").replace("/", "%2F") for segment in view.segments)
    return Text("/" + "/".join(quoted))


def find_address(view: RequestView) -> str | None:
    client = view.request.connection.client
    return Text(client[0]) if client else None


def _find_cookies(view: RequestView, name: str) -> list[str]:
    fields = view.request.headers.get_list("cookie")
    read = (_read_cookie(part, name) for field in fields for part in field.split(";"))
    return [value for value in read if value is not None]


def _read_cookie(part: str, name: str) -> str | None:
    try:
        cookie = SimpleCookie(part).get(name)
    except CookieError:
        return None
    return None if cookie is None else cookie.value


_ATTRIBUTES: Mapping[str, Value] = {
    "%u": _find_user,
    "%R": _find_path,
    "%m": lambda view: Text(view.request.method),
    "%h": find_address,
    "%{SCHEME}": lambda view: Text(view.request.connection.scheme),
}
# Each has a short and a long name; an address is not looked up, so a host is an address, too.
_ALIASES: Mapping[str, str] = {
    "%{REMOTE_USER}": "%u",
    "%{RELATIVE_PATH}": "%R",
    "%{METHOD}": "%m",
    "%a": "%h",
    "%{REMOTE_IP}": "%h",
    "%{REMOTE_HOST}": "%h",
}


def are_equal(left: Any, right: Any) -> bool:
    """Compare two values; a `Text` equals a number, date or id that is written like it.

    Raises `NoValue` when one of them is absent: a comparison with it is neither true nor false.
    """
    if left is None or right is None:
        raise NoValue("absent")
    if isinstance(left, str) == isinstance(right, str):
        return is_equal_unordered(left, right)
    text, other = (left, right) if isinstance(left, str) else (right, left)
    return isinstance(text, Text) and text in _spellings(other)


def is_any_equal(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Return whether both have a value in common; raises `NoValue` where that is unknown."""
    if any(are_equal(a, b) for a in left for b in right if a is not None and b is not None):
        return True
    if None in left or None in right:
        raise NoValue("absent")
    return False


def items_of(value: Any) -> list[Any]:
    """Return the items of an array, or the value alone."""
    return value if isinstance(value, list) else [value]


def text_of(value: Any) -> str:
    """Return a value as text; raises `NoValue` for a value without one."""
    spellings = _spellings(value)
    if not spellings:
        raise NoValue("no text")
    return spellings[0]


def number_of(value: Any) -> Decimal:
    """Return a value as number; raises `NoValue` for other values."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal128):
        raise NoValue("no number")
    try:
        number = value.to_decimal() if isinstance(value, Decimal128) else Decimal(str(value))
    except ArithmeticError:
        raise NoValue("no number") from None
    if number.is_nan():
        raise NoValue("no number")
    return number


def _spellings(value: Any) -> tuple[str, ...]:
    """Return the spellings of a scalar in a path, a header or a rule; the usual one first."""
    match value:
        case str():
            return (value,)
        case bool():
            return ("true" if value else "false",)
        case int():
            return (str(int(value)),)
        case float():
            whole = math.isfinite(value) and value.is_integer()
            return (str(int(value)), str(value)) if whole else (str(value),)
        case ObjectId() | Decimal128():
            return (str(value),)
        case datetime():
            return (str(round(value.replace(tzinfo=UTC).timestamp() * 1000)),)
    return ()


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
            names = ", ".join(f"@{name}" for name in sorted(self.variables - _CLOSED))
            raise ValueError(f"unknown variable @{head} (known: {names}; write @@… for a text)")
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
        values = self.texts.get(name)
        return values[0] if values else default


@dataclass(frozen=True, slots=True)
class AccessFunction:
    """A function of the language; `build` raises ValueError for invalid arguments.

    `reach` is for functions that check only path and method, so that their tests neither need a
    value nor fail; it returns None for other arguments.
    """

    parameters: tuple[Parameter, ...]
    build: Callable[[FunctionArguments], Test]
    reach: Callable[[Texts], Reach | None] = lambda texts: None
