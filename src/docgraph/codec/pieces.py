"""Large JSON bodies: counts values by a scan of the bytes, and decodes piece by piece.

orjson does not release the GIL: a text of a million values would block every other thread, and so
the event loop, for half a second. A long text is split at commas instead. Each piece is completed
with the brackets that are open at its ends, decoded, and merged with the previous one; between two
pieces other threads run. All scans are calls of `bytes` methods on short windows.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from docgraph.exchange.errors import BodyError, BodyTooLarge
from docgraph.runtime import allocations

MAX_VALUES: Final = 1_000_000

_MAX_CHECKED: Final = 20_000

_AT_ONCE: Final = 50_000  # values that orjson reads in some 10 ms
_WINDOW: Final = 64 * 1024
_MAX_DEPTH: Final = 254  # more than any of our parsers allows, and as much as orjson writes
_MAX_BETWEEN: Final = 4 * _MAX_DEPTH  # brackets, or pieces of text, without a comma between them
_BRACKETS: Final = b"[]{}"
_NO_BRACKET: Final = bytes(set(range(256)) - set(_BRACKETS))
_WHITESPACE: Final = b" \t\r\n"
_CLOSING: Final = {"[": "]", "{": "}"}
# Replaces the part of an object that a piece omits; a sender cannot know it.
_KEY: Final = secrets.token_hex(8)
_OPENING: Final = {"[": "[", "{": f'{{"{_KEY}":'}

Container = list[Any] | dict[str, Any]


class Irregular(Exception):
    """Nested too deep, or with a duplicate key: not mergeable."""


class _Window(NamedTuple):
    """A part of the text that ends before a comma, or with the text.

    `structure` is its part outside of strings, with a quote for each string.
    """

    start: int
    end: int
    structure: bytes


def check_values(raw: bytes, limit: int = MAX_VALUES) -> None:
    """Raise `BodyTooLarge` if the text has more values than the limit.

    Every scalar, array and object counts, the outermost included; keys do not. A text that must be
    counted and is nested too deep for every parser is a `BodyError`.
    """
    if _estimate(raw) > limit:
        _scan_values(raw, limit)


def walk_levels(value: Any, what: str, limit: int) -> Iterator[list[Any]]:
    """Yield the values of each level of decoded JSON; raise `BodyError` below so many levels."""
    level = [value]
    for _ in range(limit + 1):
        yield level
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return
        level = below
    raise BodyError(f"{what} is nested deeper than {limit} levels")


def check_size(value: Any, what: str, limit: int = _MAX_CHECKED) -> None:
    """Raise `BodyTooLarge` for a decoded value that is inspected as a whole on the event loop."""
    pending, count = [value], 0
    while pending:
        count += 1
        if count > limit:
            raise BodyTooLarge(f"{what} has more than {limit} values")
        item = pending.pop()
        if isinstance(item, Mapping):
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)


def load(raw: bytes) -> Any:
    """Parse the text like `orjson.loads`, without blocking other threads for long.

    Raises `BodyTooLarge`, `BodyError`, `orjson.JSONDecodeError` or `Irregular`.
    """
    if _estimate(raw) <= _AT_ONCE:
        return allocations.loads(raw)
    _scan_values(raw, MAX_VALUES)
    stack, root = "", None
    for window in _cut(raw):
        following = _follow(stack, window, raw)
        part = _decode(raw, window, stack, following)
        if root is None:
            root = part
        else:
            _merge(root, part, stack)
        stack = following
    return root


def count_keys(raw: bytes) -> int:
    """Return how many keys the text has, duplicates included."""
    return sum(structure.count(b":") for structure in _scan(raw))


def _estimate(raw: bytes) -> int:
    """Return an upper bound of the number of values: marks inside strings count, too."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{") + 1


def _scan_values(raw: bytes, limit: int) -> None:
    """Stop at the first window with too many values, or with too many open brackets at its end.

    Each comma adds a value, and each bracket the first one in it, unless it is empty.
    """
    total, depth, last = 1, 0, b""
    for structure in _scan(raw):
        opened = structure.count(b"[") + structure.count(b"{")
        depth += opened - structure.count(b"]") - structure.count(b"}")
        if depth > _MAX_DEPTH:
            raise _too_deep()
        joined = last + structure[:1]  # a pair of brackets may span two windows
        empty = sum(text.count(pair) for text in (structure, joined) for pair in (b"[]", b"{}"))
        total += structure.count(b",") + opened - empty
        # A bracket at the edge is counted with its value; the next window shows whether it is
        # empty.
        if total > limit + structure.endswith((b"[", b"{")):
            raise _too_many(limit)
        last = structure[-1:] or last
    if total > limit:
        raise _too_many(limit)


def _too_many(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the JSON text has more than {limit} values", hint="send several requests")


def _too_deep() -> BodyError:
    return BodyError(f"the JSON text is nested deeper than {_MAX_DEPTH} levels, or has no commas")


def _scan(raw: bytes) -> Iterator[bytes]:
    """Yield the text outside of strings, in windows of one size: little memory for any text."""
    start, is_inside = 0, False
    while start < len(raw):
        text = raw[start : start + _WINDOW]
        if (len(text) - len(text.rstrip(b"\\"))) % 2:  # the escaped character belongs to it
            text = raw[start : start + _WINDOW + 1]
        start += len(text)
        pieces = _split(text)
        outside = pieces[is_inside::2]
        structure = _build_structure([b"", *outside] if is_inside else outside)
        is_inside ^= len(pieces) % 2 == 0
        yield structure


def _split(text: bytes) -> list[bytes]:
    """Split at quotes: outside of a string, inside, outside …"""
    if b"\\" in text:  # an escaped quote ends no string
        text = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    return text.split(b'"')


def _cut(raw: bytes) -> Iterator[_Window]:
    """Yield the parts of the text, all but the last followed by a comma outside of strings."""
    start, size = 0, _WINDOW
    while True:
        end = min(start + size, len(raw))
        pieces = _split(raw[start:end])
        if end == len(raw):
            yield _Window(start, end, _build_structure(pieces[::2]))
            return
        last = len(pieces) - 1 & ~1  # a string that does not end here is left out
        while last >= 0 and b"," not in pieces[last]:
            last -= 2
        if last < 0:
            # Too many brackets or keys between two commas, where valid JSON has few.
            brackets = b"".join(pieces[::2]).translate(None, _NO_BRACKET)
            if len(pieces) > _MAX_BETWEEN or len(brackets) > _MAX_BETWEEN:
                raise _too_deep()
            size *= 2
            continue
        pieces[last] = pieces[last][: pieces[last].rindex(b",")]
        cut = start + sum(map(len, pieces[: last + 1])) + last
        yield _Window(start, cut, _build_structure(pieces[: last + 1 : 2]))
        start, size = cut + 1, _WINDOW


def _build_structure(pieces: list[bytes]) -> bytes:
    return b'"'.join(pieces).translate(None, _WHITESPACE)


def _follow(stack: str, window: _Window, raw: bytes) -> str:
    """Return the brackets that are open after the window; `stack` has those before it."""
    brackets = window.structure.translate(None, _NO_BRACKET)
    for _ in range(_MAX_DEPTH):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    else:
        raise Irregular
    for bracket in brackets.decode():
        if bracket in _CLOSING:
            stack += bracket
        elif stack and _CLOSING[stack[-1]] == bracket:
            stack = stack[:-1]
        else:
            raise _misplaced(raw, window.end)
        if len(stack) > _MAX_DEPTH:
            raise Irregular
    is_end = window.end == len(raw)
    # Misplaced: open brackets at the end of the text; before a comma, none or an empty one.
    if bool(stack) is is_end or (not is_end and window.structure.endswith((b"[", b"{"))):
        raise _misplaced(raw, window.end)
    return stack


def _misplaced(raw: bytes, position: int) -> orjson.JSONDecodeError:
    text = raw[:position].decode(errors="replace")
    return orjson.JSONDecodeError("a bracket or a comma is not at its place", text, len(text))


def _decode(raw: bytes, window: _Window, stack: str, following: str) -> Any:
    """Decode the piece, completed with the brackets that are open before and after it."""
    opening = "".join(map(_OPENING.__getitem__, stack)) + ("null," if stack else "")
    closing = "".join(map(_CLOSING.__getitem__, reversed(following)))
    piece = b"".join((opening.encode(), raw[window.start : window.end], closing.encode()))
    try:
        return allocations.loads(piece)
    except orjson.JSONDecodeError as error:
        before = raw[: window.start].decode(errors="replace")
        position = len(before) + max(0, error.pos - len(opening))
        text = before + raw[window.start : window.end].decode(errors="replace")
        raise orjson.JSONDecodeError(error.msg, text, min(position, len(text))) from None


def _merge(root: Container, part: Container, stack: str) -> None:
    """Merge the part into the containers that were open after the previous one."""
    container: Any = root
    added: Any = part
    for _ in stack:
        if isinstance(container, list) and isinstance(added, list):
            is_open, continued = container[-1], added[0]
            container += added[1:]
        elif isinstance(container, dict) and isinstance(added, dict):
            is_open, continued = container[next(reversed(container))], added.pop(_KEY)
            container.update(added)
        else:  # a duplicate key replaced the open value
            raise Irregular
        container, added = is_open, continued
