"""The compact form of a signed token (RFC 7515), read strictly, before any key is touched.

Everything that has more than one reading is refused: padding, the other alphabet, bits that nobody
decodes, JSON that is not UTF-8, a member that stands twice. What the header says about keys (`jwk`,
`jku`, `x5u`, `x5c`) is never looked at: a token does not choose what it is checked with.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.auth.mechanisms.refusal import TokenRefused
from docgraph.codec import decode_json
from docgraph.exchange.errors import BodyError

__all__ = ["MAX_TOKEN_BYTES", "Jws", "decode_object", "parse_jws", "unwrap_base64"]

MAX_TOKEN_BYTES: Final = 8 << 10
_MAX_DEPTH: Final = 64
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+")
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]+={0,2}")
_TYPES: Final = frozenset({"jwt", "at+jwt"})
_CONTENT_TYPES: Final = frozenset({"json"})
# What changes the meaning of a token, and what would have to be understood if it is there.
_UNSUPPORTED: Final = ("crit", "b64", "zip", "enc")


@dataclass(frozen=True, slots=True)
class Jws:
    """The parts of a token; nothing in it is to be believed before the signature is checked."""

    header: Mapping[str, Any]
    payload: bytes = field(repr=False)
    signing_input: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @property
    def kid(self) -> str | None:
        """The name of the key, if the token tells one."""
        kid: str | None = self.header.get("kid")
        return kid


def parse_jws(token: str, algorithm: str) -> Jws:
    """The parts of a token that says it is signed with `algorithm`, and is meant for us."""
    if len(token) > MAX_TOKEN_BYTES:
        raise TokenRefused("too-large")
    segments = token.split(".")
    if len(segments) != 3:  # noqa: PLR2004 - header, payload, signature
        raise TokenRefused("malformed")
    header, payload, signature = map(_decode_segment, segments)
    fields = decode_object(header)
    _check_header(fields, algorithm)
    signing_input = f"{segments[0]}.{segments[1]}".encode()
    return Jws(fields, payload, signing_input, signature)


def unwrap_base64(text: str) -> str:
    """`base64Encoded`: the token inside; its characters are such that both alphabets agree."""
    if len(text) > MAX_TOKEN_BYTES:
        raise TokenRefused("too-large")
    if not _BASE64.fullmatch(text):
        raise TokenRefused("malformed")
    bare = text.rstrip("=")
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4)).decode("ascii")
    except ValueError:
        raise TokenRefused("malformed") from None


def decode_object(data: bytes) -> dict[str, Any]:
    """A JSON object that is not nested beyond reason, and has each of its members once."""
    try:
        value = decode_json(data, max_depth=_MAX_DEPTH)
    except BodyError:
        raise TokenRefused("malformed") from None
    if not isinstance(value, dict):
        raise TokenRefused("malformed")
    return value


def _decode_segment(segment: str) -> bytes:
    if not _SEGMENT.fullmatch(segment):
        raise TokenRefused("malformed")
    try:
        data = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except ValueError:
        raise TokenRefused("malformed") from None
    if base64.urlsafe_b64encode(data).rstrip(b"=") != segment.encode():
        raise TokenRefused("malformed")  # another spelling of the same bytes
    return data


def _check_header(header: Mapping[str, Any], algorithm: str) -> None:
    if header.get("alg") != algorithm:
        raise TokenRefused("wrong-algorithm")
    if any(name in header for name in _UNSUPPORTED):
        raise TokenRefused("wrong-type")
    if not _is_one_of(header.get("typ", "JWT"), _TYPES):
        raise TokenRefused("wrong-type")
    if not _is_one_of(header.get("cty", "json"), _CONTENT_TYPES):
        raise TokenRefused("wrong-type")
    if not isinstance(header.get("kid", ""), str):
        raise TokenRefused("malformed")


def _is_one_of(value: Any, types: frozenset[str]) -> bool:
    """RFC 7515 4.1.9: of any case, and `application/` may be left out."""
    return isinstance(value, str) and value.lower().removeprefix("application/") in types
