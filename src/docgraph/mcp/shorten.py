"""Shortening of one value to a number of bytes: its texts, lists and keys, with a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson

Entry = TypeVar("Entry")

_DEEPEST: Final = 64
_MARK: Final = "…"
_LEAST: Final = 8  # bytes: a mark in quotes


@dataclass(frozen=True, slots=True)
class Cut:
    """A value of which a part is returned: `returned` of `total` elements from `start`.

    `unit` is what is counted: elements of a list, characters of a text or keys of an object.
    """

    path: str
    start: int
    returned: int
    total: int
    unit: str = "elements"

    def as_dict(self) -> dict[str, Any]:
        """Return the cut for the agent."""
        content = {
            "path": self.path[:200],
            "from": self.start,
            "returned": self.returned,
            "total": self.total,
        }
        return content if self.unit == "elements" else {**content, "of": self.unit}


def measure(value: Any) -> int:
    """Return the length of the JSON of a value in bytes."""
    return len(orjson.dumps(value))


def shorten(value: Any, room: int, path: str, cuts: list[Cut], depth: int = 0) -> Any:
    """Return the value, or as much of it as `room` bytes can hold; add what was cut to `cuts`.

    A number or a value that is nested too deep becomes null if it does not fit; the latter is a
    cut, too.
    """
    if measure(value) <= room:
        return value
    match value:
        case str():
            return _shorten_text(value, room, path, cuts)
        case list() if depth < _DEEPEST:
            return _shorten_list(value, room, path, cuts, depth)
        case dict() if depth < _DEEPEST:
            return _shorten_object(value, room, path, cuts, depth)
        case list() | dict():
            unit = "elements" if isinstance(value, list) else "keys"
            cuts.append(Cut(path, 0, 0, len(value), unit))
    return None


def keep_first(entries: Iterable[Entry], room: int) -> list[Entry]:
    """Return as many of the entries as `room` bytes can hold, from the first on."""
    kept: list[Entry] = []
    for entry in entries:
        room -= measure(entry) + 1
        if room < 0:
            break
        kept.append(entry)
    return kept


def _shorten_text(text: str, room: int, path: str, cuts: list[Cut]) -> str:
    # A character takes 6 bytes at most; halving finds a length that fits in a few steps.
    length = min(len(text), max(room - _LEAST, 0))
    while length and measure(text[:length]) > room - _LEAST + 2:
        length = length * 3 // 4
    cuts.append(Cut(path, 0, length, len(text), "characters"))
    return text[:length] + _MARK


def _shorten_list(value: list[Any], room: int, path: str, cuts: list[Cut], depth: int) -> list[Any]:
    taken: list[Any] = []
    room -= 2
    for number, element in enumerate(value):
        length = measure(element) + 1
        if length > room:
            if not taken and room > _LEAST:
                taken.append(shorten(element, room - 1, f"{path}.{number}", cuts, depth + 1))
            break
        taken.append(element)
        room -= length
    cuts.append(Cut(path, 0, len(taken), len(value)))
    return taken


def _shorten_object(
    value: dict[str, Any], room: int, path: str, cuts: list[Cut], depth: int
) -> dict[str, Any]:
    """Share the room equally; what a small value leaves is for the larger ones."""
    room -= 2
    sizes = {key: measure(inner) for key, inner in value.items()}
    found: dict[str, Any] = {}
    waiting = sorted(value, key=lambda key: sizes[key])
    for number, key in enumerate(waiting):
        name = measure(key) + 2
        share = room // (len(waiting) - number) - name
        if share < min(sizes[key], _LEAST):
            continue
        place = f"{path}.{key}" if path else key
        found[key] = shorten(value[key], share, place, cuts, depth + 1)
        room -= measure(found[key]) + name
    if len(found) < len(value):
        cuts.append(Cut(path, 0, len(found), len(value), "keys"))
    return {key: found[key] for key in value if key in found}
