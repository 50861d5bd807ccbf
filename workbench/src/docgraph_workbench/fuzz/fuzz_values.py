"""Fuzz values: ordinary values that every caller may see, and canaries that none may.

Ordinary values come from small pools, the same for every collection, so that documents refer to
each other and callers can guess them. A canary is random and occurs nowhere else.
"""

from __future__ import annotations

import string
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from bson import Binary, Decimal128, Int64, ObjectId, Timestamp

from docgraph.tools.data import binary_text, is_uuid

POOL: Final = 8
_START: Final = datetime(2024, 1, 1, 12, 0)
_FAR: Final = datetime(2100, 1, 1)
_SHORTEST: Final = 8  # characters that make a canary unlikely to occur by chance
_UUID: Final = 4
_HALVES: Final = (string.ascii_lowercase[:13], string.ascii_lowercase[13:])


_ORDINARY: Final[Mapping[str, Callable[[int], Any]]] = {
    "int": int,
    "long": Int64,
    "double": lambda number: number + 0.5,
    "bool": lambda number: number % 2 == 0,
    "date": lambda number: _START + timedelta(days=number),
    "objectId": lambda number: ObjectId(f"{number:024x}"),
    "decimal": lambda number: Decimal128(f"{number}.25"),
    "timestamp": lambda number: Timestamp(number + 1, 1),
    "binary": lambda number: bytes([number]) * 4,
    "uuid": lambda number: Binary(bytes([number]) * 16, _UUID),
    "object": lambda number: {"text": f"word{number}"},
    # Strings that expressions parse.
    "digits": lambda number: str(number + 1),
    "dateText": lambda number: f"{(_START + timedelta(days=number)).isoformat()}Z",
    "idText": lambda number: f"{number:024x}",
}
# The kind of value that a GraphQL scalar has in the database.
KINDS = {
    "String": "string",
    "ID": "string",
    "Int": "int",
    "Long": "long",
    "Float": "double",
    "Boolean": "bool",
    "DateTime": "date",
    "ObjectId": "objectId",
    "Decimal128": "decimal",
    "UUID": "uuid",
    "Timestamp": "timestamp",
    "BsonDocument": "object",
}


def happens(random: Random, share: float) -> bool:
    """Return True in that share of the cases."""
    return random.random() < share


def pool_value(kind: str, number: int) -> Any:
    """Return the ordinary value of that number."""
    make = _ORDINARY.get(kind)
    return f"word{number % POOL}" if make is None else make(number % POOL)


@dataclass(frozen=True, slots=True)
class Canary:
    """A secret value and its location; `reason` is what hides it from the caller."""

    value: Any
    namespace: str
    path: str
    reason: str
    is_row: bool = False  # the whole document is hidden from the caller


def _make_text(random: Random, world: int) -> str:
    """Return letters only: no encoding of texts changes them."""
    first = random.choice(_HALVES[world % 2])
    return first + "".join(random.choices(string.ascii_lowercase, k=19))


def _make_number(random: Random, world: int, least: int) -> int:
    """Return a number with as many digits as `least`."""
    return least * (1 + 4 * (world % 2)) + random.randrange(least * 4)


def _make_small(random: Random, world: int) -> int:
    """Return a number with ten digits that fits into 32 bits."""
    return 1_100_000_000 + 500_000_000 * (world % 2) + random.randrange(500_000_000)


def _make_date(random: Random, world: int) -> datetime:
    return _FAR + timedelta(seconds=_make_number(random, world, 10**9))


_SECRET: Final[Mapping[str, Callable[[Random, int], Any]]] = {
    "int": _make_small,
    "long": lambda random, world: Int64(_make_number(random, world, 10**14)),
    "double": lambda random, world: _make_number(random, world, 10**9) + 0.25,
    "date": _make_date,
    "objectId": lambda random, world: ObjectId(random.randbytes(12)),
    "decimal": lambda random, world: Decimal128(f"{_make_number(random, world, 10**12)}.5"),
    "timestamp": lambda random, world: Timestamp(_make_small(random, world), 1),
    "binary": lambda random, world: random.randbytes(12),
    "uuid": lambda random, world: Binary(random.randbytes(16), _UUID),
    "object": lambda random, world: {"text": _make_text(random, world)},
    "digits": lambda random, world: str(_make_small(random, world)),
    "dateText": lambda random, world: f"{_make_date(random, world).isoformat()}Z",
    "idText": lambda random, world: random.randbytes(12).hex(),
}


def make_canary(kind: str, random: Random, world: int) -> Any:
    """Return a secret value of a kind.

    Those of two worlds are on two sides: every comparison with them distinguishes the worlds.
    """
    if kind == "bool":
        return world % 2 == 0
    return _SECRET.get(kind, _make_text)(random, world)


class Finder:
    """Searches responses for canaries, plain and encoded."""

    def __init__(self) -> None:
        self._forms: dict[str, list[tuple[str, Canary]]] = {}

    def add(self, canary: Canary) -> None:
        """Add a canary; values that could occur by chance are not searched for."""
        for form in _spell(canary.value):
            if len(form) >= _SHORTEST:
                self._forms.setdefault(form[:_SHORTEST], []).append((form, canary))

    def find(self, data: bytes, *, besides: str = "") -> list[Canary]:
        """Return the canaries in some bytes, except those that the caller has sent."""
        text = data.decode("utf-8", "replace").lower()
        said = besides.lower()
        canaries: dict[int, Canary] = {}
        for start in range(len(text) - _SHORTEST + 1):
            for form, canary in self._forms.get(text[start : start + _SHORTEST], ()):
                if text.startswith(form, start) and not any(
                    spelling in said for spelling in _spell(canary.value)
                ):
                    canaries[id(canary)] = canary
        return list(canaries.values())


def _spell(value: Any) -> Iterator[str]:
    """Yield how a value may appear in a response, in lower case; none if it could be chance."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _spell(inner)
    elif isinstance(value, str):
        yield value
        yield from _encode(value.encode())
    elif isinstance(value, bytes):
        yield value.hex()
        yield b64encode(value).decode().rstrip("=").lower()
        if is_uuid(value):
            yield binary_text(value)
    elif isinstance(value, datetime):
        yield value.isoformat()[:19].lower()
        yield str(int(value.replace(tzinfo=UTC).timestamp() * 1000))
    elif isinstance(value, Timestamp):
        yield str(value.time)
    elif isinstance(value, float):
        yield str(int(value))
    elif isinstance(value, int | Decimal128 | ObjectId) and not isinstance(value, bool):
        yield str(value)


def _encode(data: bytes) -> Iterator[str]:
    """Yield Base64, at any offset in a longer text, and hexadecimal digits."""
    yield data.hex()
    for before in range(3):
        coded = b64encode(b"\0" * before + data).decode().rstrip("=").lower()
        yield coded[4 if before else 0 : -4]


@dataclass(slots=True)
class Guesses:
    """Values that a caller puts into arguments and filters: ordinary ones, sometimes canaries."""

    random: Random
    canaries: Mapping[str, list[Any]]  # by kind
    is_lucky: bool = False  # for a while, every guess is a canary

    def choose(self, kind: str, among: Iterable[Any] = ()) -> Any:
        """Return a value of that kind."""
        stored, secret = list(among), self.canaries.get(kind)
        if secret and self.is_lucky:
            return self.random.choice(secret)
        if stored and happens(self.random, 0.7):  # mostly stored values
            return self.random.choice(stored)
        if secret and happens(self.random, 0.25):  # sometimes a lucky guess
            return self.random.choice(secret)
        return pool_value(kind, self.random.randrange(POOL))
