"""Authorization of a request: combine vetoers and allowers into one decision with its reason.

A request proceeds when no vetoer denies it and at least one allower approves it (decision 38). An
authorizer that raises counts as a denial: a fault never permits anything. A database failure is
reported as such, because "forbidden" would be false; it permits nothing either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from docgraph.exchange import Exchange, StartupError
from docgraph.exchange.errors import Overloaded, RequestError, StoreError, Unauthenticated
from docgraph.observe import emit
from docgraph.observe.events import PluginFailed
from docgraph.plugins.kinds import Authorizer, AuthorizerRole, Decision

NO_APPROVAL = Decision(False, "no allower approved the request")
LOGIN_DEMANDED = Decision(False, "the request must be authenticated")
_OPEN = Decision(True, "needs no allower")


@runtime_checkable
class DemandsLogin(Protocol):
    """An authorizer that can require a login, regardless of the allowers."""

    async def demands_login(self, exchange: Exchange) -> bool:
        """Return whether this request must be authenticated."""
        ...


@runtime_checkable
class MayBeIdle(Protocol):
    """An allower that can be enabled without having anything to approve by."""

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
        """Return the first veto, or None.

        Raises `Unauthenticated` when the caller must log in first: the veto is reported only after
        that.
        """
        for vetoer in self.vetoers:
            try:
                decision = _check(await vetoer.decide(exchange))
            except Exception as error:
                decision = _read_failure(error, vetoer)
            if not decision.allowed:
                if await self.demands_login(exchange):
                    raise Unauthenticated(LOGIN_DEMANDED.reason)
                return _sign(decision, vetoer)
        return None

    async def find_approval(self, exchange: Exchange, *, secured: bool) -> Decision:
        """Return the first approval; OPTIONS and unsecured routes need none."""
        if await self.demands_login(exchange):
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
                decision = _read_failure(error, allower)
            if decision.allowed:
                return _sign(decision, allower)
        if failure is not None:
            raise failure
        return NO_APPROVAL

    async def demands_login(self, exchange: Exchange) -> bool:
        """Return whether the caller is not authenticated and this request requires it."""
        if exchange.account is not None or exchange.request.method == "OPTIONS":
            return False
        for one in self._demanding:
            if await one.demands_login(exchange):
                return True
        return False


async def decide(authorizer: Authorizer, exchange: Exchange) -> Decision:
    """Return the decision of one authorizer, with its name; a fault is a denial."""
    try:
        decision = _check(await authorizer.decide(exchange))
    except Exception as error:
        decision = _read_failure(error, authorizer)
    return _sign(decision, authorizer)


def _check(decision: object) -> Decision:
    if not isinstance(decision, Decision):
        raise TypeError(f"`decide` returned {decision!r}, which is no Decision")
    return decision


def _read_failure(error: Exception, authorizer: Authorizer) -> Decision:
    """Return the decision for an authorizer that raised: a denial, unless the database failed."""
    if isinstance(error, StoreError | Overloaded):
        raise error
    if isinstance(error, RequestError):  # the request that it was checking is invalid
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
