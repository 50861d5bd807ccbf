"""Parse the compact form of a signed token (JWS, RFC 7515), strictly, before any key is used.

Everything ambiguous is rejected: padding, the other alphabet, unused bits, JSON that is not UTF-8,
a repeated member. Key parameters of the header (`jwk`, `jku`, `x5u`, `x5c`) are never used: a token
does not choose the key that verifies it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.auth.mechanisms.rejection_reason import TokenRefused
from docgraph.codec import decode_json
from docgraph.exchange.errors import BodyError

MAX_TOKEN_BYTES: Final = 8 << 10
_MAX_DEPTH: Final = 64
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+")
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]+={0,2}")
_TYPES: Final = frozenset({"jwt", "at+jwt"})
_CONTENT_TYPES: Final = frozenset({"json"})
# Parameters that change the meaning of a token, and would have to be supported.
_UNSUPPORTED: Final = ("crit", "b64", "zip", "enc")


@dataclass(frozen=True, slots=True)
class Jws:
    """The parts of a token; untrusted before the signature is verified."""

    header: Mapping[str, Any]
    payload: bytes = field(repr=False)
    signing_input: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @property
    def kid(self) -> str | None:
        """The name of the key, if the token has one."""
        kid: str | None = self.header.get("kid")
        return kid


def parse_jws(token: str, algorithm: str) -> Jws:
    """Parse a token that claims to be signed with `algorithm` and is meant for this service."""
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
    """Return the token inside (`base64Encoded`); its characters are the same in both alphabets."""
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
    """Decode a JSON object with limited nesting and without repeated members."""
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
    """Compare a type by RFC 7515 4.1.9: case-insensitive, and `application/` is optional."""
    return isinstance(value, str) and value.lower().removeprefix("application/") in types
