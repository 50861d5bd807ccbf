"""Key escaping: stores keys with `$` and dots that MongoDB or its operators would misread.

`$x` becomes `_$x`, a dot inside a key becomes `::`, and a string in an array that starts with `$`
is prefixed, too: stored definitions have always had this form. Ambiguous keys have additional
forms, so that reading returns exactly what was written:

    _$x   ->  __$x       one underscore more, however many there are
    a:    ->  a::~c      a colon next to a colon or dot
    .~    ->  ::~d~      a dot in front of a tilde

Plain keys, as in definitions that were inserted directly into the database, are read unchanged.

People may write both forms, `$x` and `_$x`, with the same meaning, and each is returned as it was
written: the escaped form of the input is stored, with a marker (`_escaping: 2`). Documents without
the marker are older or from another source: there the two forms cannot be distinguished.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from docgraph.exchange.data import ESCAPING

_VERSION: Final = 2

_DOLLAR = re.compile(r"_*\$")
_ESCAPED_DOLLAR = re.compile(r"_+\$")
_DOTS_AND_COLONS = re.compile(r"\.(?=(~?))|:(?=[:.])|(?<=[:.]):")
_ESCAPED = re.compile(r"::(~[cd])?")


def to_stored(document: Mapping[str, Any]) -> dict[str, Any]:
    """Escape a document for storage; `as_written` returns exactly the original."""
    return {**escape_keys(_without_marker(document)), ESCAPING: _VERSION}


def as_written(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored document, or a part of it, as its author wrote it."""
    return unescape_keys(_without_marker(stored))


def as_meant(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with plain keys, from any form: stored with or without marker, written."""
    if document.get(ESCAPING) == _VERSION:
        document = as_written(document)
    return unescape_keys(_without_marker(document))


def _without_marker(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != ESCAPING}


def escape_keys(document: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with escaped keys."""
    return {escape_key(key): _escape_value(value) for key, value in document.items()}


def unescape_keys(document: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with the keys as they were before `escape_keys`."""
    return {unescape_key(key): _unescape_value(value) for key, value in document.items()}


def escape_key(key: str) -> str:
    """Escape one key for storage."""
    if "." in key or ":" in key:
        key = _DOTS_AND_COLONS.sub(_escape_mark, key)
    return _escape_text(key)


def unescape_key(key: str) -> str:
    """Return one stored key as it was written."""
    if "::" in key:
        key = _ESCAPED.sub(lambda mark: ":" if mark[1] == "~c" else ".", key)
    return _unescape_text(key)


def _escape_value(value: Any) -> Any:
    if isinstance(value, dict):
        return escape_keys(value)
    if isinstance(value, list):
        return [
            _escape_text(item) if isinstance(item, str) else _escape_value(item) for item in value
        ]
    return value


def _unescape_value(value: Any) -> Any:
    if isinstance(value, dict):
        return unescape_keys(value)
    if isinstance(value, list):
        return [
            _unescape_text(item) if isinstance(item, str) else _unescape_value(item)
            for item in value
        ]
    return value


def _escape_text(text: str) -> str:
    return f"_{text}" if _DOLLAR.match(text) else text


def _unescape_text(text: str) -> str:
    return text[1:] if _ESCAPED_DOLLAR.match(text) else text


def _escape_mark(match: re.Match[str]) -> str:
    if match.group() == ":":
        return "::~c"
    return "::~d" if match.group(1) else "::"
