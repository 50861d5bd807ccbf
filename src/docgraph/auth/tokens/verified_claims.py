"""Signed tokens: the compact form (JWS, RFC 7515), their claims, and why one is rejected.

Types are strict: a number in quotes is no number, a text is no list of one. A claim of the wrong
type is rejected, never converted.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism
from docgraph.codec import decode_json
from docgraph.exchange import Account
from docgraph.exchange.errors import BodyError

_LAST_SECOND: Final = 253_402_300_799  # of the year 9999; larger values are likely milliseconds
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
# Permission rules use these names for all callers; no user has them as a role.
_RESERVED_ROLES: Final = frozenset({"$authenticated", "$unauthenticated"})


@dataclass(frozen=True, slots=True)
class Verified:
    """An account with the claims that are checked at each use."""

    account: Account
    expires: float | None = None  # seconds since the epoch, from the token
    issued: float | None = None
    id: str | None = None  # `jti`


@dataclass(frozen=True, slots=True)
class Claims:
    """The requirements for the claims."""

    username_claim: str
    roles_claim: str | None
    fixed_roles: tuple[str, ...]
    issuer: str | None
    audiences: frozenset[str] | None
    require_exp: bool
    leeway: float
    end_leeway: float

    @classmethod
    def from_section(cls, section: JwtAuthenticationMechanism) -> Claims:
        """Build the requirements; `fixedRoles` has precedence over `rolesClaim` (decision 31)."""
        audience = section.audience
        given = (audience,) if isinstance(audience, str) else audience
        return cls(
            username_claim=section.username_claim,
            roles_claim=None if section.fixed_roles else section.roles_claim,
            fixed_roles=section.fixed_roles or (),
            issuer=section.issuer,
            audiences=None if given is None else frozenset(given),
            require_exp=section.require_exp,
            leeway=section.leeway,
            end_leeway=section.leeway,
        )

    def read(self, claims: dict[str, Any], now: float) -> Verified:
        """Return the account of the claims, if they are valid now and for this service."""
        expires = _read_time(claims, "exp")
        if expires is None and self.require_exp:
            raise TokenRefused("missing-exp")
        if self.is_over(expires, now):
            raise TokenRefused("expired-token")
        issued = _read_time(claims, "iat")
        for begin in (issued, _read_time(claims, "nbf")):
            if begin is not None and begin > now + self.leeway:
                raise TokenRefused("not-yet-valid")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise TokenRefused("wrong-issuer")
        self._check_audience(claims)
        ends = None if expires is None else expires + self.end_leeway
        account = Account(
            self._read_user(claims), self._read_roles(claims), claims, "jwt", ends, expires
        )
        id = claims.get("jti")
        return Verified(account, expires, issued, id if isinstance(id, str) else None)

    def is_over(self, expires: float | None, now: float) -> bool:
        return expires is not None and now >= expires + self.end_leeway

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        """Check that one of our audiences is the token's audience, or in its list."""
        if self.audiences is None:
            return
        claim = claims.get("aud")
        named: Any = [claim] if isinstance(claim, str) else claim
        if not _is_list_of_text(named) or self.audiences.isdisjoint(named):
            raise TokenRefused("wrong-audience")

    def _read_user(self, claims: Mapping[str, Any]) -> str:
        user = claims.get(self.username_claim)
        if not isinstance(user, str) or not user or _CONTROL.search(user):
            raise TokenRefused("bad-claims")
        return user

    def _read_roles(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the roles; null counts as none, and anything but a list of texts is rejected."""
        if self.roles_claim is None:
            return self.fixed_roles
        roles = claims.get(self.roles_claim)
        if roles is None:
            return ()
        if not _is_list_of_text(roles):
            raise TokenRefused("bad-claims")
        return tuple(role for role in dict.fromkeys(roles) if role not in _RESERVED_ROLES)


def _read_time(claims: Mapping[str, Any], name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefused("bad-claims")
    if not 0 <= value <= _LAST_SECOND:  # NaN is in no range
        raise TokenRefused("bad-claims")
    return value


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


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
    """The parts of a token; untrusted before the signature is verified.

    The compact form (JWS, RFC 7515) is parsed strictly, before any key is used. Everything
    ambiguous is rejected: padding, the other alphabet, unused bits, JSON that is not UTF-8, a
    repeated member. Key parameters of the header (`jwk`, `jku`, `x5u`, `x5c`) are never used: a
    token does not choose the key that verifies it.
    """

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


Reason = Literal[
    "malformed",
    "too-large",
    "wrong-algorithm",
    "wrong-type",
    "unknown-key",
    "bad-signature",
    "bad-claims",
    "missing-exp",
    "expired-token",
    "not-yet-valid",
    "wrong-issuer",
    "wrong-audience",
    "revoked-token",
]


class TokenRefused(Exception):
    """The token is rejected."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason
