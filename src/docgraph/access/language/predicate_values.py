"""Values that predicates compare: texts of the rule, attributes of the request, variables.

Values keep their types. Nothing that a caller or a user document supplies is ever parsed as a part
of the rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from http.cookies import CookieError, SimpleCookie
from typing import Any

from docgraph.access.language.view import AbsentValue, NoValue, Repeated, RequestView, Text
from docgraph.codec.bson_types import Decimal128, ObjectId
from docgraph.codec.equality import is_equal_unordered

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


def pick_one(found: Sequence[str]) -> Text | None:
    """Return the single value of something repeatable; raises `Repeated` for different ones."""
    if len(set(found)) > 1:
        raise Repeated("several values")
    return Text(found[0]) if found else None


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
    quoted = (one.replace("%", "%25").replace("/", "%2F") for one in view.segments)
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
    except InvalidOperation:
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
