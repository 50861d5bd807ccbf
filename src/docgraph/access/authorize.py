"""Vetoers and allowers become one Decision, with its reason.

A request proceeds when no vetoer denies it and at least one allower approves it (decision 38).
An authorizer that raises counts as a denial: nothing is opened by a fault. A database that cannot
be asked is told as that, since "forbidden" would be a lie; it opens nothing either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from docgraph.exchange import Exchange, StartupError
from docgraph.exchange.errors import Overloaded, RequestError, StoreError, Unauthenticated
from docgraph.observe import emit
from docgraph.observe.events import PluginFailed
from docgraph.plugins.kinds import Authorizer, AuthorizerRole, Decision

__all__ = [
    "LOGIN_DEMANDED",
    "NOBODY_ALLOWED",
    "Authorization",
    "DemandsLogin",
    "MayBeIdle",
    "ask",
]

NOBODY_ALLOWED = Decision(False, "no allower approved the request")
LOGIN_DEMANDED = Decision(False, "the request must be authenticated")
_OPEN = Decision(True, "needs no allower")


@runtime_checkable
class DemandsLogin(Protocol):
    """An authorizer that can make unknown callers log in, whatever allowers say."""

    async def demands_login(self, exchange: Exchange) -> bool:
        """Whether this request must be authenticated."""
        ...


@runtime_checkable
class MayBeIdle(Protocol):
    """An allower that can be there without anything to approve by."""

    @property
    def is_idle(self) -> bool:
        """Whether it would approve nothing at all."""
        ...


class Authorization:
    """The stage `authorize` of the pipeline."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self.vetoers = [one for one in authorizers if one.role is AuthorizerRole.VETOER]
        self.allowers = [one for one in authorizers if one.role is AuthorizerRole.ALLOWER]
        self._demanding = [one for one in authorizers if isinstance(one, DemandsLogin)]
        if all(isinstance(one, MayBeIdle) and one.is_idle for one in self.allowers):
            raise StartupError(
                "no allower is enabled, so every request would be refused",
                hint="enable one: dbAclAuthorizer, fileAclAuthorizer or fullAuthorizer",
            )

    async def find_veto(self, exchange: Exchange) -> Decision | None:
        """The first veto, or None; who must log in does so before hearing it.

        Raises `Unauthenticated` then.
        """
        for vetoer in self.vetoers:
            try:
                decision = _check(await vetoer.decide(exchange))
            except Exception as error:
                decision = _judge(error, vetoer)
            if not decision.allowed:
                if await self.demands_login(exchange):
                    raise Unauthenticated(LOGIN_DEMANDED.reason)
                return _sign(decision, vetoer)
        return None

    async def find_approval(self, exchange: Exchange, *, secured: bool) -> Decision:
        """The first approval; what is not secured, and OPTIONS, needs none."""
        if exchange.account is None and await self.demands_login(exchange):
            return LOGIN_DEMANDED
        if not secured or exchange.request.method == "OPTIONS":
            return _OPEN
        failure: StoreError | None = None
        for allower in self.allowers:
            if exchange.account is None and _requires_authentication(allower, exchange):
                continue
            try:
                decision = _check(await allower.decide(exchange))
            except StoreError as error:
                failure = failure or error
                continue
            except Exception as error:
                decision = _judge(error, allower)
            if decision.allowed:
                return _sign(decision, allower)
        if failure is not None:
            raise failure
        return NOBODY_ALLOWED

    async def demands_login(self, exchange: Exchange) -> bool:
        """Whether the caller is unknown and must not be, for this request."""
        if exchange.account is not None or exchange.request.method == "OPTIONS":
            return False
        for one in self._demanding:
            if await one.demands_login(exchange):
                return True
        return False


async def ask(authorizer: Authorizer, exchange: Exchange) -> Decision:
    """The decision of one authorizer, with its name; a fault is a denial."""
    try:
        decision = _check(await authorizer.decide(exchange))
    except Exception as error:
        decision = _judge(error, authorizer)
    return _sign(decision, authorizer)


def _check(decision: object) -> Decision:
    if not isinstance(decision, Decision):
        raise TypeError(f"`decide` returned {decision!r}, which is no Decision")
    return decision


def _judge(error: Exception, authorizer: Authorizer) -> Decision:
    """What it means that an authorizer raised: a denial, unless it has not been able to look."""
    if isinstance(error, StoreError | Overloaded):
        raise error
    if isinstance(error, RequestError):  # what it was asked to look at cannot be read
        return Decision(False, error.message)
    emit(PluginFailed(authorizer.name, "decide", error))
    return Decision(False, "the authorizer failed")


def _sign(decision: Decision, authorizer: Authorizer) -> Decision:
    if decision.authorizer == authorizer.name:
        return decision
    return Decision(decision.allowed, decision.reason, authorizer.name, decision.permission)


def _requires_authentication(allower: Authorizer, exchange: Exchange) -> bool:
    try:
        return allower.requires_authentication(exchange)
    except Exception as error:
        emit(PluginFailed(allower.name, "requires_authentication", error))
        return True
