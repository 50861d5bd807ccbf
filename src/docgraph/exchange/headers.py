"""HTTP header fields: case-insensitive names, in order, with repetitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

_WILDCARDS: Final = ("*/*", "application/*")
_MAX_TYPES: Final = 100  # of `Accept`


class Headers:
    """The fields of a request, decoded as latin-1 (RFC 9110 5.5) on demand."""

    __slots__ = ("_first", "_raw")

    def __init__(self, raw: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._raw = [(name.lower(), value) for name, value in raw]
        self._first = dict(reversed(self._raw))  # the first field of a repeated name wins

    @classmethod
    def of_lower_case(cls, raw: list[tuple[bytes, bytes]]) -> Headers:
        """Build fields whose names are lower case already; the list is not copied."""
        headers = cls.__new__(cls)
        headers._raw = raw
        headers._first = dict(reversed(raw))
        return headers

    @classmethod
    def of(cls, **fields: str) -> Headers:
        """Build headers such as `Headers.of(content_type="text/plain")`, for tests and commands."""
        return cls((n.replace("_", "-").encode(), v.encode("latin-1")) for n, v in fields.items())

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of that name."""
        value = self._first.get(_encode_name(name))
        return default if value is None else value.decode("latin-1")

    def get_list(self, name: str) -> list[str]:
        """Return every value of that name, in order."""
        wanted = _encode_name(name)
        if wanted not in self._first:
            return []
        return [value.decode("latin-1") for key, value in self._raw if key == wanted]

    @property
    def raw(self) -> list[tuple[bytes, bytes]]:
        """Names in lower case and values as received; do not change it."""
        return self._raw

    def without(self, name: str) -> Headers:
        """Return the fields without those of that name."""
        wanted = _encode_name(name)
        return Headers((key, value) for key, value in self._raw if key != wanted)

    def __contains__(self, name: str) -> bool:
        return _encode_name(name) in self._first

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._raw)

    def __len__(self) -> int:
        return len(self._raw)


@lru_cache(maxsize=1024)  # every request needs the same few names
def _encode_name(name: str) -> bytes:
    return name.lower().encode("latin-1")


def parse_weight(item: str) -> tuple[str, float]:
    """Parse an item of `Accept` or `Accept-Encoding`: its name in lower case and its `q`."""
    name, *parameters = item.split(";")
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                return name.strip().lower(), float(value)
            except ValueError:
                return name.strip().lower(), 0.0  # an invalid weight is not acceptable
    return name.strip().lower(), 1.0


class Acceptance(NamedTuple):
    """What `Accept` says about another type than the usual ones of a resource."""

    is_preferred: bool = False
    is_required: bool = False  # none of the usual types is accepted


def find_acceptance(accepted: Iterable[str], media_type: str, usual: Sequence[str]) -> Acceptance:
    """Compare a type with the usual ones; only its own name requests it, a wildcard the usual ones.

    Of types with equal weights, the first one is preferred.
    """
    text = ",".join(accepted).lower()
    if media_type not in text:
        return Acceptance()
    weights = [parse_weight(item) for item in text.split(",")[:_MAX_TYPES]]
    own = [(weight, -place) for place, (name, weight) in enumerate(weights) if name == media_type]
    if not own or max(own)[0] <= 0:
        return Acceptance()
    others = [(weight, -place) for place, (name, weight) in enumerate(weights) if name in usual]
    if not others:  # a name is preferred to a wildcard of the same weight
        others = [(weight, -len(weights)) for name, weight in weights if name in _WILDCARDS]
    is_required = not others or max(others)[0] <= 0
    return Acceptance(is_required or max(own) > max(others), is_required)
