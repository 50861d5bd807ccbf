"""Extended JSON decoder: JSON text to BSON values.

Two parsers accept the same language. Strict JSON is parsed by orjson (`pieces`: values are counted
first, and a long text is parsed in parts) and its result is converted in one walk. The parser of
`lenient` parses the text again and decides, with line and column, in two cases: orjson rejects the
text, or the walk finds something doubtful (an invalid object with a type key, deep nesting, a
number that orjson rounded, a duplicate key).
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from docgraph.codec.bson_types import Int64
from docgraph.codec.extended import TYPE_KEYS, build_value
from docgraph.codec.lenient import MAX_DEPTH, build_error, parse
from docgraph.codec.parse_scalars import INT32_MAX, INT32_MIN, INT64_MAX, InvalidScalar, show
from docgraph.codec.pieces import Irregular, count_keys, load
from docgraph.exchange.errors import BodyError

DEFAULT_DEPTH = 100

# The lenient parser is about fifty times slower than orjson: a large text that is not strict JSON
# is rejected instead of blocking a worker for seconds.
LENIENT_LIMIT = 1024 * 1024

_LEAVES = frozenset({str, bool, type(None)})
_NUMBERS = frozenset({int, float})
_EXACT = 2.0**63  # orjson turns integers beyond 64 bits into floats, none of them below this
_DIGITS = 19
_LONG_DIGITS = re.compile(rb"[0-9]{%d}" % _DIGITS)
_SEARCHED = 64 * 1024  # bytes per step: a search blocks other threads
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def decode(data: bytes | str, *, max_depth: int = DEFAULT_DEPTH) -> Any:
    """Decode extended JSON, strict or of the shell; a `BodyError` has line and column."""
    return _decode(data, max_depth, typed=True)


def decode_json(data: bytes | str, *, max_depth: int = DEFAULT_DEPTH) -> Any:
    """Decode strict JSON; `{"$oid": …}` and similar objects remain plain objects.

    Integers beyond 64 bits, duplicate keys and deep nesting are rejected here, too.
    """
    return _decode(data, max_depth, typed=False)


class _NotPlainJson(Exception):
    """Raised for input that the lenient parser has to decide."""


def _decode(data: bytes | str, max_depth: int, *, typed: bool) -> Any:
    raw = _check_encoding(data)
    try:
        walk = _ValueWalk(raw, min(max_depth, MAX_DEPTH), typed)
        # In a list, so that one loop serves every value; its own level does not count.
        root = [load(raw)]
        walk.convert_array(root, 0)
        # Every key of the text has its colon: if there are as many colons as keys in the result, no
        # key is a duplicate. Colons inside strings require a second, exact count.
        if walk.keys != raw.count(b":") and walk.keys != count_keys(raw):
            raise _NotPlainJson
        return root[0]
    except (_NotPlainJson, Irregular):
        pass
    except BodyError:  # for a short text the other parser reports where it is nested too deep
        if len(raw) > LENIENT_LIMIT:
            raise
    except orjson.JSONDecodeError as error:
        if not typed or len(raw) > LENIENT_LIMIT:
            raise _build_syntax_error(raw, error) from None
    return parse(_decode_text(raw), max_depth=max_depth, typed=typed)


class _ValueWalk:
    """Converts the result of orjson in place: large integers, objects that represent values."""

    __slots__ = ("_max_depth", "_nul", "_raw", "_rounded", "_special_keys", "_typed", "keys")

    def __init__(self, raw: bytes, max_depth: int, typed: bool) -> None:
        self.keys = 0
        self._raw = raw
        self._max_depth = max_depth
        self._typed = typed
        self._rounded: bool | None = None
        # Searching the text once is far cheaper than checking every key: a text without "$ has no
        # type key, and NUL can only be written as an escape.
        self._nul = b"\\u0000" in raw
        self._special_keys = self._nul or (typed and (b'"$' in raw or b"\\u0024" in raw))

    def convert_array(self, values: list[Any], depth: int) -> None:
        if depth > self._max_depth:
            raise _NotPlainJson
        if _LEAVES.issuperset(map(type, values)):
            return
        for index, value in enumerate(values):
            kind = type(value)
            if kind is dict:
                values[index] = self._convert_object(value, depth + 1)
            elif kind is list:
                self.convert_array(value, depth + 1)
            elif kind in _NUMBERS and not INT32_MIN <= value <= INT32_MAX:
                values[index] = self._convert_large(value)

    # The same loop again: a shared function for one value would double the time of the walk.
    def _convert_object(self, document: dict[str, Any], depth: int) -> Any:
        if depth > self._max_depth:
            raise _NotPlainJson
        self.keys += len(document)
        for key, value in document.items():
            kind = type(value)
            if kind is str:
                continue
            if kind is dict:
                document[key] = self._convert_object(value, depth + 1)
            elif kind is list:
                self.convert_array(value, depth + 1)
            elif kind in _NUMBERS and not INT32_MIN <= value <= INT32_MAX:
                document[key] = self._convert_large(value)
        if self._special_keys:
            return self._convert_keys(document)
        return document

    def _convert_keys(self, document: dict[str, Any]) -> Any:
        if self._nul and any("\0" in key for key in document):
            raise _NotPlainJson
        if not self._typed or TYPE_KEYS.isdisjoint(document):
            return document
        try:
            return build_value(document)
        except InvalidScalar:
            raise _NotPlainJson from None

    def _convert_large(self, number: int | float) -> int | float:
        if isinstance(number, float):
            if not -_EXACT < number < _EXACT and self._is_rounded():
                raise _NotPlainJson
            return number
        if number > INT64_MAX:
            raise _NotPlainJson
        return Int64(number) if self._typed else number

    def _is_rounded(self) -> bool:
        """Return whether a large float may have been written as an integer; checked once."""
        if self._rounded is None:
            starts = range(0, len(self._raw), _SEARCHED)
            self._rounded = any(
                _LONG_DIGITS.search(self._raw, start, start + _SEARCHED + _DIGITS)
                for start in starts
            )
        return self._rounded


def _check_encoding(data: bytes | str) -> bytes:
    """Return the bytes if they can be UTF-8; else raise an error that names the encoding."""
    if isinstance(data, str):
        try:
            raw = data.encode()
        except UnicodeEncodeError as error:
            raise build_error(
                data, error.start, "half of a surrogate pair is not a character"
            ) from None
    else:
        raw = bytes(data)
    start = raw[:4]
    if start.startswith(b"\xef\xbb\xbf"):
        raise build_error("", 0, "the text starts with a byte order mark; send UTF-8 without one")
    if start.startswith(_UTF16_MARKS) or b"\0" in start:
        raise build_error("", 0, "the text is UTF-16 or UTF-32; send UTF-8")
    return raw


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
        raise build_error(
            before, len(before), f"the byte 0x{raw[error.start]:02x} is not UTF-8"
        ) from None


def _build_syntax_error(raw: bytes, error: orjson.JSONDecodeError) -> BodyError:
    text = _decode_text(raw)
    if not text.strip():
        message = "the text is empty"
    elif error.pos >= len(text):
        message = "the text ends too early"
    else:
        message = f"this is not JSON: unexpected {show(text[error.pos])}"
    hint = " (a text of this size has to be strict JSON)" if len(raw) > LENIENT_LIMIT else ""
    return build_error(text, error.pos, message + hint)
