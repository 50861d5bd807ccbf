"""HTTP header fields, content negotiation (`Accept`), and gzip bodies (RFC 9110 8.4)."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from docgraph.exchange.errors import BodyError, UnsupportedMediaType

_WILDCARDS: Final = ("*/*", "application/*")
_MAX_TYPES: Final = 100  # of `Accept`
UNREAD: Final = object()


class Headers:
    """The fields of a request, decoded as latin-1 (RFC 9110 5.5) on demand."""

    __slots__ = ("credentials", "first", "raw")

    def __init__(self, raw: Iterable[tuple[bytes, bytes]] = ()) -> None:
        # Names in lower case and values as received; do not change it.
        self.raw = [(name.lower(), value) for name, value in raw]
        # By name in lower case; the first field of a repeated name wins.
        self.first = dict(reversed(self.raw))
        self.credentials: Any = UNREAD  # what authentication has read in `Authorization`

    @classmethod
    def of_lower_case(cls, raw: list[tuple[bytes, bytes]]) -> Headers:
        """Build fields whose names are lower case already; the list is not copied."""
        headers = cls.__new__(cls)
        headers.raw = raw
        headers.first = dict(reversed(raw))
        headers.credentials = UNREAD
        return headers

    @classmethod
    def of(cls, **fields: str) -> Headers:
        """Build headers such as `Headers.of(content_type="text/plain")`, for tests and commands."""
        return cls((n.replace("_", "-").encode(), v.encode("latin-1")) for n, v in fields.items())

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of that name."""
        value = self.first.get(_encode_name(name))
        return default if value is None else value.decode("latin-1")

    def get_list(self, name: str) -> list[str]:
        """Return every value of that name, in order."""
        wanted = _encode_name(name)
        if wanted not in self.first:
            return []
        return [value.decode("latin-1") for key, value in self.raw if key == wanted]

    def without(self, name: str) -> Headers:
        """Return the fields without those of that name."""
        wanted = _encode_name(name)
        return Headers((key, value) for key, value in self.raw if key != wanted)

    def __contains__(self, name: str) -> bool:
        return _encode_name(name) in self.first

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((name.decode("latin-1"), value.decode("latin-1")) for name, value in self.raw)

    def __len__(self) -> int:
        return len(self.raw)


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
    matching = [
        (weight, -place) for place, (name, weight) in enumerate(weights) if name == media_type
    ]
    if not matching or max(matching)[0] <= 0:
        return Acceptance()
    others = [(weight, -place) for place, (name, weight) in enumerate(weights) if name in usual]
    if not others:  # a name is preferred to a wildcard of the same weight
        others = [(weight, -len(weights)) for name, weight in weights if name in _WILDCARDS]
    is_required = not others or max(others)[0] <= 0
    return Acceptance(is_required or max(matching) > max(others), is_required)


_PIECE: Final = 64 * 1024  # decompressed in a fraction of a millisecond; then other tasks run
_MAX_MEMBERS: Final = 100  # empty ones cost time and contain nothing
_GZIP: Final = frozenset(("gzip", "x-gzip"))
_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS  # a gzip header and trailer


def is_coded(headers: Headers) -> bool:
    """Return whether the body has a content coding."""
    return bool(_find_codings(headers))


def is_compressed(headers: Headers) -> bool:
    """Return whether the body is gzip; raise `UnsupportedMediaType` for any other coding."""
    if b"content-encoding" not in headers.first:
        return False
    codings = _find_codings(headers)
    if len(codings) > 1 or not _GZIP.issuperset(codings):
        raise UnsupportedMediaType(
            f"Content-Encoding {', '.join(codings)} is not supported",
            hint="send the body plain, or in gzip once",
            headers=[("Accept-Encoding", "gzip")],
        )
    return bool(codings)


def _find_codings(headers: Headers) -> list[str]:
    if "content-encoding" not in headers:
        return []
    listed = ",".join(headers.get_list("content-encoding")).lower().split(",")
    return [coding.strip() for coding in listed if coding.strip() not in ("", "identity")]


async def inflate(data: bytes) -> AsyncIterator[bytes]:
    """Yield the decompressed pieces of one or a few gzip members; empty data yields none.

    The reader of the pieces counts them: at most one piece beyond its limit is decompressed.
    """
    from asyncio import sleep  # slow to import, and CLI commands wait for this module

    member: zlib._Decompress | None = None
    members = 0
    # In slices, because the library copies the rest of its input.
    for start in range(0, len(data), _PIECE):
        rest = data[start : start + _PIECE]
        while rest:
            if member is None:
                member, members = zlib.decompressobj(_WINDOW_BITS), members + 1
            if members > _MAX_MEMBERS:
                raise BodyError(f"the body has more than {_MAX_MEMBERS} gzip members")
            piece = _inflate(member, rest)
            while piece:
                yield piece
                await sleep(0)
                # After its end, a member would append the rest to `unused_data` a second time.
                piece = b"" if member.eof else _inflate(member, member.unconsumed_tail)
            rest = member.unused_data
            member = None if member.eof else member
    if member is not None:
        raise BodyError("the body ends in the middle of its gzip data")


def _inflate(member: zlib._Decompress, data: bytes) -> bytes:
    try:
        return member.decompress(data, _PIECE)
    except zlib.error:
        raise BodyError("the body is not valid gzip data") from None
