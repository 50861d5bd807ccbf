"""Allocations that may fail: JSON without a crash, and a reserve for what follows a failure.

orjson ends the process where an allocation fails. This happens below a limit of the address space
(`RLIMIT_AS`, read by `memory.py`). There, `dumps` encodes in slices of bounded size, and `loads`
and each slice check first that the memory exists: a failure is a `MemoryError`. Elsewhere both are
orjson's own functions, without another call. So use them as attributes of this module.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import orjson

from docgraph.exchange.errors import Overloaded

__all__ = [
    "MAX_FRAGMENT",
    "dumps",
    "embed_json",
    "ensure_if_guarded",
    "ensure_room",
    "explain_shortage",
    "guard",
    "hold_reserve",
    "loads",
]

_RESERVE: Final = 16 << 20  # bytes of address space, which are never written
_MARGIN: Final = 8 << 20  # bytes that other threads may allocate in the meantime
_SLICE: Final = 1 << 20  # bytes of JSON that are encoded together
_GROWTH: Final = 4  # times its text that orjson allocates while its buffer grows
_ESCAPED: Final = 6  # bytes of a character as JSON, at most
_SCALAR: Final = 32  # bytes of a number with its comma
_OTHER: Final = 256  # bytes of a value of another type
MAX_FRAGMENT: Final = 64 << 10  # bytes of JSON in an `orjson.Fragment`, which does not report it
_PARSED: Final = 13  # times a text: orjson's own values (12 times, whatever it has), and a copy
_WIDE: Final = 4  # bytes of a character in a string with one that needs so many
_VALUE: Final = 112  # bytes of a Python object besides its characters, with what refers to it
_MAPPING: Final = 400  # bytes of a dictionary, without its members

_Dumps = Callable[..., bytes]
_Loads = Callable[[Any], Any]

dumps: _Dumps = orjson.dumps
loads: _Loads = orjson.loads
_reserve: mmap.mmap | None = None


def guard(*, can_fail: bool) -> None:
    """Use the functions that check memory first if allocations can fail in this process."""
    global dumps, loads  # noqa: PLW0603 - a switch of the process
    dumps = _dump_in_slices if can_fail else orjson.dumps
    loads = _load_checked if can_fail else orjson.loads


def ensure_room(size: int) -> None:
    """Raise `MemoryError` unless so many bytes can be allocated now, and some more."""
    bytes(size + _MARGIN)  # it is never written, and needs address space only


def ensure_if_guarded(size: int) -> None:
    """Like `ensure_room`, if allocations can fail in this process."""
    if dumps is not orjson.dumps:
        ensure_room(size)


def embed_json(value: Any) -> orjson.Fragment:
    """Return rendered JSON (bytes) for orjson to embed; the hook of `dumps`."""
    if type(value) is bytes:
        return orjson.Fragment(value)
    raise TypeError


def hold_reserve() -> None:
    """Hold address space that is released when memory runs out, as soon as there is enough."""
    global _reserve  # noqa: PLW0603 - one of the process
    if _reserve is None:
        with suppress(OSError, MemoryError):
            _reserve = mmap.mmap(-1, _RESERVE, prot=0)


def explain_shortage() -> Overloaded:
    """Release the reserve, and return the error for the caller of a request that needs more."""
    global _reserve  # noqa: PLW0603 - one of the process
    if _reserve is not None:
        _reserve.close()
        _reserve = None
    return Overloaded("the process has not enough memory for this request", bound="memory")


def _load_checked(raw: bytes) -> Any:
    ensure_room(_weigh_text(raw))
    return orjson.loads(raw)


def _weigh_text(raw: bytes) -> int:
    """Return how many bytes parsing a text may take, with the values."""
    is_narrow = raw.isascii() and b"\\" not in raw
    count = sum(map(raw.count, (b",", b":", b"[", b"{"))) + 1
    characters = len(raw) if is_narrow else _WIDE * len(raw)
    return _PARSED * len(raw) + characters + _VALUE * count + _MAPPING * raw.count(b"{")


def _dump_in_slices(
    value: Any, default: Callable[[Any], Any] | None = None, option: int | None = None
) -> bytes:
    slices = _Slices(default, option)
    slices.add(value)
    return slices.parts[0] if len(slices.parts) == 1 else b"".join(slices.parts)


class _Slices:
    """The JSON of a value in parts, with the hook and the options of `orjson.dumps`."""

    def __init__(self, default: Callable[[Any], Any] | None, option: int | None) -> None:
        self._default = default
        self._option = option
        self.parts: list[bytes] = []

    def add(self, value: Any) -> None:
        size, kind = _weigh(value), type(value)
        if size <= _SLICE:
            self.parts.append(self._dump(value, size))
        elif kind is dict:
            self._add_members(b"{", _group(value.items(), _weigh_member), b"}", dict)
        elif kind is list or kind is tuple:
            self._add_members(b"[", _group(value, _weigh), b"]", list)
        elif kind is str:
            self._add_text(value)
        elif kind is bytes and self._default is embed_json:
            self.parts.append(value)
        else:
            self._add_other(value, size)

    def _dump(self, value: Any, size: int) -> bytes:
        ensure_room(_GROWTH * size)
        return orjson.dumps(value, self._default and self._convert, self._option)

    def _convert(self, value: Any) -> Any:
        """Call the hook; reject what is larger than its value seemed, such as a subclass of dict.

        Then `codec.encode` copies all of the value, in types that can be weighed.
        """
        made = self._default(value) if self._default is not None else value
        if type(made) is not orjson.Fragment and _weigh(made) > max(_SLICE, _weigh(value)):
            raise MemoryError
        return made

    def _add_members(
        self,
        opening: bytes,
        groups: Iterable[tuple[list[Any], int]],
        closing: bytes,
        build: Callable[[list[Any]], Any],
    ) -> None:
        self.parts.append(opening)
        for number, (group, size) in enumerate(groups):
            if number:
                self.parts.append(b",")
            if size <= _SLICE:
                self.parts.append(self._dump(build(group), size)[1:-1])
                continue
            (member,) = group
            if build is dict:
                self.parts.append(self._dump({member[0]: 0}, _weigh(member[0]))[1:-2])
                member = member[1]
            self.add(member)
        self.parts.append(closing)

    def _add_text(self, text: str) -> None:
        self.parts.append(b'"')
        length = _SLICE // _ESCAPED
        for start in range(0, len(text), length):
            self.parts.append(self._dump(text[start : start + length], _SLICE)[1:-1])
        self.parts.append(b'"')

    def _add_other(self, value: Any, size: int) -> None:
        """Add a large value that orjson does not know, like binary data."""
        ensure_room(_GROWTH * size)
        made = value if self._default is None else self._default(value)
        if made is value or type(made) is orjson.Fragment:
            self.parts.append(self._dump(made, size))
        else:
            self.add(made)


def _group(members: Iterable[Any], weigh: Callable[[Any], int]) -> Iterator[tuple[list[Any], int]]:
    """Yield small members together, any other one alone, with their sizes."""
    group: list[Any] = []
    sum_ = 0
    for member in members:
        size = weigh(member)
        if group and sum_ + size > _SLICE:
            yield group, sum_
            group, sum_ = [], 0
        group.append(member)
        sum_ += size
    if group:
        yield group, sum_


def _weigh_member(member: tuple[Any, Any]) -> int:
    return _weigh(member[0]) + _weigh(member[1])


def _weigh(value: Any) -> int:
    """Return how long the JSON of a value may be; the walk ends when it is more than a slice."""
    pending, size = [value], 0
    for item in pending:
        kind = type(item)
        if kind is str:
            size += _ESCAPED * len(item) + _SCALAR
        elif kind is dict or kind is list or kind is tuple:
            size += _SCALAR * (len(item) + 1)
            if size > _SLICE:
                break
            pending += item
            if kind is dict:
                pending += item.values()
        elif kind is orjson.Fragment:
            size += MAX_FRAGMENT
        elif kind is int or kind is float or kind is bool or item is None:
            size += _SCALAR
        else:
            text = getattr(item, "pattern", item)  # of a regular expression
            factor = _ESCAPED if text is not item or isinstance(text, str) else 2
            size += _OTHER + factor * (len(text) if hasattr(text, "__len__") else 0)
        if size > _SLICE:
            break
    return size
