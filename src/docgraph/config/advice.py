"""Mixes of options that work and are still worth a warning; as `rules`, one function each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from docgraph.config.section import View
from docgraph.config.sections import (
    IdentityAuthMechanism,
    JwtTokenManager,
    RndTokenManager,
    TokenBasicAuthMechanism,
)
from docgraph.exchange.errors import Problem

__all__ = ["ADVICE", "give_advice"]


def give_advice(view: View) -> list[Problem]:
    """What is worth a warning."""
    return [problem for rule in ADVICE for problem in rule(view)]


def identity_is_for_tests(view: View) -> Iterator[Problem]:
    """Everybody is somebody: fine on a desk, a disaster elsewhere."""
    identity = view.on(IdentityAuthMechanism)
    if identity is not None:
        yield view.blame(
            "/identityAuthMechanism/enabled",
            "every request without other credentials counts as one account",
            "use it for tests only",
        )


def token_basic_has_a_manager(view: View) -> Iterator[Problem]:
    """Without a token manager the mechanism has nothing to check."""
    if not view.knows(RndTokenManager, JwtTokenManager) or not view.on(TokenBasicAuthMechanism):
        return
    if not view.on(RndTokenManager) and not view.on(JwtTokenManager):
        yield view.blame(
            "/tokenBasicAuthMechanism/enabled",
            "without effect: no token manager is on",
            "turn on rndTokenManager or jwtTokenManager, or set it to false",
            "/rndTokenManager/enabled",
        )


ADVICE: Final = (
    identity_is_for_tests,
    token_basic_has_a_manager,
)
