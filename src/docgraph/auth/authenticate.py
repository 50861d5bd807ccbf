"""The outcomes of all mechanisms become one: an account, nobody, or refused credentials.

Mechanisms are tried in the order of their priority; one that rejects lets the next one try.
Credentials in an `Authorization` header that nobody accepts are refused even where anonymous
callers may read, so that a mistyped password never passes for a missing one (decision 27).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docgraph.exchange import Account, Exchange
from docgraph.exchange.errors import Unauthenticated
from docgraph.observe import emit
from docgraph.observe.events import AuthFailed
from docgraph.plugins.kinds import ABSENT, Absent, Accepted, AuthMechanism, Rejected

__all__ = ["Authentication", "Authenticator"]


@dataclass(frozen=True, slots=True)
class Authentication:
    """What the mechanisms found: `refused` are credentials that nobody accepted."""

    account: Account | None = None
    refused: bool = False


_NOBODY = Authentication()
_REFUSED = Authentication(refused=True)


class Authenticator:
    """The stage `authenticate` of the pipeline."""

    def __init__(self, mechanisms: Sequence[AuthMechanism]) -> None:
        self._mechanisms = tuple(mechanisms)

    async def authenticate(self, exchange: Exchange) -> Authentication:
        """Ask each mechanism until one accepts."""
        for mechanism in self._mechanisms:
            outcome = await mechanism.authenticate(exchange)
            if outcome is ABSENT:  # as from most mechanisms
                continue
            match outcome:
                case Accepted(Account() as account):
                    return Authentication(account)
                case Rejected(reason):
                    emit(AuthFailed(mechanism.name, reason, request_id=exchange.id))
                case Absent():
                    pass
                case other:
                    raise TypeError(
                        f"the auth-mechanism {mechanism.name!r} returned {other!r}, which is "
                        "neither ABSENT nor Rejected nor Accepted with an Account"
                    )
        return _REFUSED if "authorization" in exchange.request.headers else _NOBODY

    def challenge(self, exchange: Exchange) -> Unauthenticated:
        """The 401 for an unknown caller, with a challenge per mechanism unless suppressed."""
        request = exchange.request
        if "no-auth-challenge" in request.headers or "noauthchallenge" in request.query:
            return Unauthenticated("authentication required")
        offered = [value for one in self._mechanisms for value in one.challenge(exchange)]
        unique = dict.fromkeys(offered)  # basic and token-basic offer the same one
        return Unauthenticated(
            "authentication required",
            headers=[("WWW-Authenticate", value) for value in unique],
        )
