"""Extended JSON encoder: BSON values to JSON.

orjson writes the types it knows and calls a hook for the rest. It calls the hook for neither `int`
nor `float`. The two modes that wrap plain numbers, and the rare values that orjson cannot write,
take a slower path: one walk that builds a JSON-ready copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from itertools import islice
from math import isfinite
from typing import Any

import orjson

from docgraph.codec.bson_types import Code, DBRef
from docgraph.codec.forms import (
    FORMS,
    JsonMode,
    RenderValue,
    double_form,
    plain_double_form,
    shell_double_form,
)
from docgraph.codec.parse_scalars import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from docgraph.runtime import allocations
from docgraph.runtime.allocations import MAX_FRAGMENT, embed_json

__all__ = ["EncodeError", "JsonMode", "encode", "fragment", "replace_surrogates", "to_json"]

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_MAX_DEPTH = 220  # MongoDB stops at 200, orjson at 254
_TOGETHER = 10_000  # members of an object or array that are copied before they are written
_SHOWN_PATH = 10
_CONTAINERS = (dict, list, tuple)
_NOT_FINITE: dict[JsonMode, RenderValue] = {
    JsonMode.SHELL: shell_double_form,
    JsonMode.GRAPHQL_PLAIN: plain_double_form,
    JsonMode.CSV: plain_double_form,
}
_FINITE = frozenset({str, int, bool, type(None), *FORMS[JsonMode.STANDARD]})


class EncodeError(TypeError):
    """A value that has no JSON form, named by its path; a bug in the code that built it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[Any] = []

    def __str__(self) -> str:
        path = [str(key) for key in reversed(self.path)]
        shown = path if len(path) <= _SHOWN_PATH else [*path[:_SHOWN_PATH], "…"]
        return f"{'.'.join(shown)}: {self.reason}" if shown else self.reason


def encode(value: Any, mode: JsonMode = JsonMode.STANDARD) -> bytes:
    """Encode a value as JSON in that mode (`SHELL`: the notation of the MongoDB shell)."""
    return _ENCODERS[mode].encode(value)


def to_json(value: Any, mode: JsonMode = JsonMode.STANDARD) -> Any:
    """Return a copy that orjson writes without a hook, to embed in a larger value."""
    return _ENCODERS[mode].convert(value, 0)


def fragment(value: Any, mode: JsonMode = JsonMode.STANDARD) -> orjson.Fragment | bytes:
    """Return the JSON of a value to embed, faster than `to_json`; long JSON stays bytes."""
    text = encode(value, mode)
    return orjson.Fragment(text) if len(text) <= MAX_FRAGMENT else text


class _Encoder:
    """One mode: its forms, and whether it wraps plain numbers."""

    __slots__ = ("_forms", "_mode", "_wraps_doubles", "_wraps_ints")

    def __init__(self, mode: JsonMode) -> None:
        self._mode = mode
        self._forms = FORMS[mode]
        self._wraps_ints = mode is JsonMode.EXTENDED
        self._wraps_doubles = mode in (JsonMode.EXTENDED, JsonMode.GRAPHQL_CANONICAL)

    def encode(self, value: Any) -> bytes:
        if self._wraps_doubles:
            return self._encode_carefully(value)
        try:
            data = allocations.dumps(value, self._write_other, _OPTIONS)
        except orjson.JSONEncodeError:
            # A lone surrogate, a key that is a subclass of str, or a value without a form: the slow
            # path either writes it or names its path.
            return self._encode_carefully(value)
        # orjson writes null for NaN and the infinities without calling the hook. Searching for them
        # first would cost a walk over every response. Searching the output for "null" costs next to
        # nothing, and only a response that has one (a real null, mostly) is walked.
        if b"null" in data and _has_non_finite((value,)):
            return self._encode_carefully(value)
        return data

    def convert(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return value if value.isascii() else replace_surrogates(value)
        if kind is bool or value is None:
            return value
        if kind is int:
            return self._convert_int(value)
        if kind is float:
            return self._convert_double(value)
        if form := self._forms.get(kind):
            return form(value)
        if isinstance(value, dict):
            return self._convert_object(value, depth + 1)
        if isinstance(value, (list, tuple)):
            return self._convert_array(value, depth + 1)
        return self._convert_other(value, depth)

    def _encode_carefully(self, value: Any) -> bytes:
        return allocations.dumps(_InParts(self._mode).convert(value, 0), embed_json)

    def _write_other(self, value: Any) -> Any:
        """Convert a value of a type that orjson does not know; its hook."""
        form = self._forms.get(type(value))
        return form(value) if form else self.convert(value, 0)

    def _convert_object(self, document: Any, depth: int) -> dict[str, Any]:
        _check_depth(depth)
        converted = {}
        key: Any = None
        try:
            for key, value in document.items():
                if not isinstance(key, str):
                    kind = type(key).__name__
                    raise EncodeError(f"a key of the type {kind}; keys are strings")
                converted[replace_surrogates(str(key))] = self.convert(value, depth)
        except EncodeError as error:
            error.path.append(key)
            raise
        return converted

    def _convert_array(self, values: Iterable[Any], depth: int) -> list[Any]:
        _check_depth(depth)
        converted: list[Any] = []
        try:
            for value in values:
                converted.append(self.convert(value, depth))
        except EncodeError as error:
            error.path.append(len(converted))
            raise
        return converted

    def _convert_int(self, number: int) -> Any:
        if self._wraps_ints and INT32_MIN <= number <= INT32_MAX:
            return {"$numberInt": str(number)}
        if not INT64_MIN <= number <= INT64_MAX:
            raise EncodeError("an integer beyond 64 bits has no BSON form")
        return {"$numberLong": str(number)} if self._wraps_ints else number

    def _convert_double(self, number: float) -> Any:
        if isfinite(number):
            return double_form(number) if self._wraps_doubles else number
        return _NOT_FINITE.get(self._mode, double_form)(number)

    def _convert_other(self, value: Any, depth: int) -> Any:
        if isinstance(value, Code):
            text = self.convert(str(value), depth)
            if value.scope is None:
                return {"$code": text}
            return {"$code": text, "$scope": self._convert_object(value.scope, depth + 2)}
        if isinstance(value, DBRef):
            return self._convert_object(value.as_doc(), depth + 1)
        if isinstance(value, orjson.Fragment):
            return value
        if isinstance(value, Enum):
            return self.convert(value.value, depth)
        for base in type(value).__mro__:
            if base in self._forms:
                return self._forms[base](value)
            if base in _PLAIN_BASES:
                return self.convert(base(value), depth)
        raise EncodeError(f"a value of the type {type(value).__name__} has no JSON form")


class _InParts(_Encoder):
    """Encodes the members of large objects and arrays in groups, without a copy of the whole."""

    __slots__ = ()

    def _convert_object(self, document: Any, depth: int) -> Any:
        if len(document) <= _TOGETHER:
            return super()._convert_object(document, depth)
        items = iter(document.items())
        convert = super()._convert_object
        return _join(b"{", b"}", lambda: convert(dict(islice(items, _TOGETHER)), depth))

    def _convert_array(self, values: Any, depth: int) -> Any:
        if len(values) <= _TOGETHER:
            return super()._convert_array(values, depth)
        starts = iter(range(0, len(values) + _TOGETHER, _TOGETHER))
        convert = super()._convert_array

        def convert_group() -> list[Any]:
            start = next(starts)
            try:
                return convert(values[start : start + _TOGETHER], depth)
            except EncodeError as error:
                error.path[-1] += start
                raise

        return _join(b"[", b"]", convert_group)


def _join(opening: bytes, closing: bytes, convert: Callable[[], Any]) -> bytes:
    """Join the JSON of all groups in one pair of brackets; the last group is empty."""
    parts: list[bytes] = []
    while group := convert():
        parts.append(allocations.dumps(group, embed_json)[1:-1])
    return opening + b",".join(parts) + closing


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise EncodeError(f"nested deeper than {_MAX_DEPTH} levels")


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which are no characters, by U+FFFD, as browsers do."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _has_non_finite(values: Iterable[Any]) -> bool:
    """Return whether values that orjson has just written contain a NaN or an infinity."""
    for value in values:
        kind = type(value)
        if kind in _FINITE:
            continue
        if kind is float:
            if value - value != 0:  # infinity and NaN minus themselves are NaN
                return True
        elif kind is dict:
            if _has_non_finite(value.values()):
                return True
        elif isinstance(value, _CONTAINERS) and _has_non_finite(
            value.values() if isinstance(value, dict) else value
        ):
            return True
    return False


_PLAIN_BASES = frozenset({str, int, float})
_ENCODERS = {mode: _Encoder(mode) for mode in JsonMode}
