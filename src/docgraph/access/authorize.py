"""Vetoers and allowers become one Decision, with its reason.

A request proceeds when no vetoer denies it and at least one allower approves it (decision 38).
An authorizer that raises counts as a denial: nothing is opened by a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from docgraph.exchange import Exchange, StartupError
from docgraph.observe import emit
from docgraph.observe.events import PluginFailed
from docgraph.plugins.kinds import Authorizer, AuthorizerRole, Decision

__all__ = ["NOBODY_ALLOWED", "Authorization"]

NOBODY_ALLOWED = Decision(False, "no allower approved the request")
_OPEN = Decision(True, "needs no allower")


class Authorization:
    """The stage `authorize` of the pipeline."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._vetoers = [one for one in authorizers if one.role is AuthorizerRole.VETOER]
        self._allowers = [one for one in authorizers if one.role is AuthorizerRole.ALLOWER]
        if not self._allowers:
            raise StartupError(
                "no allower is enabled, so every request would be refused",
                hint="enable one: dbAclAuthorizer, fileAclAuthorizer or fullAuthorizer",
            )

    async def find_veto(self, exchange: Exchange) -> Decision | None:
        """The first veto, or None."""
        for vetoer in self._vetoers:
            decision = await _ask(vetoer, exchange)
            if not decision.allowed:
                return decision
        return None

    async def find_approval(self, exchange: Exchange, *, secured: bool) -> Decision:
        """The first approval; what is not secured, and OPTIONS, needs none."""
        if not secured or exchange.request.method == "OPTIONS":
            return _OPEN
        for allower in self._allowers:
            if exchange.account is None and _requires_authentication(allower, exchange):
                continue
            decision = await _ask(allower, exchange)
            if decision.allowed:
                return decision
        return NOBODY_ALLOWED


async def _ask(authorizer: Authorizer, exchange: Exchange) -> Decision:
    try:
        decision = await authorizer.decide(exchange)
    except Exception as error:
        emit(PluginFailed(authorizer.name, "decide", error))
        decision = Decision(False, "the authorizer failed")
    return replace(decision, authorizer=authorizer.name)


def _requires_authentication(allower: Authorizer, exchange: Exchange) -> bool:
    try:
        return allower.requires_authentication(exchange)
    except Exception as error:
        emit(PluginFailed(allower.name, "requires_authentication", error))
        return True
