"""Claims of a verified token: user, roles and validity period.

Types are strict: a number in quotes is no number, a text is no list of one. A claim of the wrong
type is rejected, never converted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from docgraph.auth.mechanisms.rejection_reason import TokenRefused
from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism
from docgraph.exchange import Account

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
        self._check_issuer(claims)
        self._check_audience(claims)
        ends = None if expires is None else expires + self.leeway
        account = Account(self._read_user(claims), self._read_roles(claims), claims, "jwt", ends)
        id = claims.get("jti")
        return Verified(account, expires, issued, id if isinstance(id, str) else None)

    def is_over(self, expires: float | None, now: float) -> bool:
        """Return whether a token has expired."""
        return expires is not None and now >= expires + self.leeway

    def _check_issuer(self, claims: Mapping[str, Any]) -> None:
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise TokenRefused("wrong-issuer")

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
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
