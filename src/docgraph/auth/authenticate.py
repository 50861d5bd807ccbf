"""Authentication of a request: combine the results of all mechanisms.

The result is an account, no account, or rejected credentials. Mechanisms are tried in the order of
their priority; when one rejects, the next one is tried. Credentials in an `Authorization` header
that no mechanism accepts are rejected even where anonymous callers may read, so that a mistyped
password never counts as a missing one (decision 27), unless `authentication.anonymous-fallback` is
on (decision 55). Writes, other services and open streams are strict even then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from docgraph.auth.credentials import read_credentials
from docgraph.auth.password_queue import set_login
from docgraph.exchange import Account, Exchange
from docgraph.exchange.errors import Unauthenticated
from docgraph.exchange.request import KEY_PREFIX
from docgraph.observe import emit
from docgraph.observe.events import AuthFailed
from docgraph.plugins.kinds import ABSENT, Absent, Accepted, AuthMechanism, Rejected

API_KEYS: Final = "apiKeyMechanism"


@dataclass(frozen=True, slots=True)
class Authentication:
    """The result of the mechanisms; `refused` means that no mechanism accepted the credentials."""

    account: Account | None = None
    refused: bool = False


_ANONYMOUS = Authentication()
_REFUSED = Authentication(refused=True)


class AuthenticateStage:
    """The stage `authenticate` of the pipeline."""

    def __init__(
        self, mechanisms: Sequence[AuthMechanism], *, anonymous_fallback: bool = False
    ) -> None:
        self._mechanisms = tuple(mechanisms)
        # Each with the only scheme of `Authorization` that it reads, if its own class names one.
        self._schemes = [
            (mechanism, vars(type(mechanism)).get("authorization_scheme"))
            for mechanism in mechanisms
        ]
        self._has_fallback = anonymous_fallback
        self._has_keys = any(mechanism.name == API_KEYS for mechanism in mechanisms)

    async def authenticate(self, exchange: Exchange) -> Authentication:
        """Try each mechanism until one accepts."""
        credentials = read_credentials(exchange.request.headers)
        given = "" if credentials is None else credentials.scheme
        is_login = False
        for mechanism, scheme in self._schemes:
            if scheme is not None and scheme != given:
                continue  # it would be absent
            if not is_login and scheme != "bearer":  # which holds no password
                is_login = True
                set_login(exchange)
            outcome = await mechanism.authenticate(exchange)
            if outcome is ABSENT:  # the usual result of most mechanisms
                continue
            match outcome:
                case Accepted(Account() as account):
                    # No other account has the name of a key: rules and logs could not tell them
                    # apart (decision 72).
                    if (
                        not account.name.startswith(KEY_PREFIX)
                        or account.owner
                        or not self._has_keys
                    ):
                        return Authentication(account)
                    emit(AuthFailed(mechanism.name, "name-of-a-key", request_id=exchange.id))
                case Rejected(reason):
                    emit(AuthFailed(mechanism.name, reason, request_id=exchange.id))
                case Absent():
                    pass
                case other:
                    raise TypeError(
                        f"the auth-mechanism {mechanism.name!r} returned {other!r}, which is "
                        "neither ABSENT nor Rejected nor Accepted with an Account"
                    )
        if b"authorization" not in exchange.request.headers.first:
            return _ANONYMOUS
        return _ANONYMOUS if self._has_fallback and _is_public_read(exchange) else _REFUSED

    def challenge(self, exchange: Exchange) -> Unauthenticated:
        """Build the 401 for a caller who is not authenticated, with a challenge per mechanism.

        `No-Auth-Challenge` in the request suppresses the challenges.
        """
        request = exchange.request
        if "no-auth-challenge" in request.headers or "noauthchallenge" in request.query:
            return Unauthenticated("authentication required")
        offered = [
            value for mechanism in self._mechanisms for value in mechanism.challenge(exchange)
        ]
        offered.sort(key=lambda value: not value.startswith("Digest "))  # clients take the first
        unique = dict.fromkeys(offered)  # basic and token-basic have the same challenge
        return Unauthenticated(
            "authentication required", headers=[("WWW-Authenticate", value) for value in unique]
        )


def _is_public_read(exchange: Exchange) -> bool:
    """Return whether an anonymous caller could be meant; an open stream never changes its user."""
    if exchange.is_renewal:
        return False
    is_read = exchange.service == "mongo" and exchange.request.method in ("GET", "HEAD")
    return is_read or exchange.service == "graphql"
