"""Reasons why a token is rejected, for the log; the caller learns only that it is rejected."""

from __future__ import annotations

from typing import Literal

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
