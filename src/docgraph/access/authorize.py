"""Authorization of a request: combine vetoers and allowers into one decision with its reason.

A request proceeds when no vetoer denies it and at least one allower approves it (decision 38). An
authorizer that raises counts as a denial: a fault never permits anything. A database failure is
reported as such, because "forbidden" would be false; it permits nothing either.

The authorizers that need no rules are here, too: `fullAuthorizer`, and the vetoers of origins and
of operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from docgraph.access.combine import Contradiction, bound
from docgraph.access.language.path_functions import parse_template
from docgraph.access.sections import FilterOperatorsBlacklist as FilterOperatorsBlacklistConfig
from docgraph.access.sections import FullAuthorizer as FullAuthorizerConfig
from docgraph.access.sections import OriginVetoer as OriginVetoerConfig
from docgraph.exchange import Account, DataRequest, Exchange, StartupError
from docgraph.exchange.errors import Overloaded, RequestError, StoreError, Unauthenticated
from docgraph.exchange.origin import Wildcard, spell_origin
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied, PluginFailed
from docgraph.plugins.kinds import Authorizer, AuthorizerRole, Decision, LoginDemander
from docgraph.store.guard.stage_checks import has_key

NO_APPROVAL = Decision(False, "no allower approved the request")
LOGIN_DEMANDED = Decision(False, "the request must be authenticated")
_OPEN = Decision(True, "needs no allower")
_ALWAYS = (None,)
_MAKING_CREDENTIALS = frozenset({"apiKeys", "authTokenService"})  # services


class Authorization:
    """The stage `authorize` of the pipeline."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self.vetoers = [
            authorizer for authorizer in authorizers if authorizer.role is AuthorizerRole.VETOER
        ]
        self.allowers = [
            authorizer for authorizer in authorizers if authorizer.role is AuthorizerRole.ALLOWER
        ]
        # Each with what it decides by, and whether it decides on requests to the REST API only.
        self._vetoers: list[tuple[Authorizer, Sequence[Any], bool]] = [
            (vetoer, getattr(vetoer, "decides_by", _ALWAYS), getattr(vetoer, "only_data", False))
            for vetoer in self.vetoers
        ]
        self._demanding: list[tuple[LoginDemander, Sequence[Any]]] = [
            (authorizer, getattr(authorizer, "demands_by", _ALWAYS))
            for authorizer in authorizers
            if isinstance(authorizer, LoginDemander)
        ]
        self._requirements = [predicates for _, predicates in self._demanding]
        self._allowers: list[tuple[Authorizer, Sequence[Any], bool]] = [
            (
                allower,
                getattr(allower, "decides_by", _ALWAYS),
                not vars(type(allower)).get("takes_anonymous", False),  # it may require a login
            )
            for allower in self.allowers
        ]
        # An allower can be enabled without having anything to approve by.
        if all(getattr(allower, "is_idle", False) for allower in self.allowers):
            raise StartupError(
                "no allower is enabled, so every request would be refused",
                hint="enable one: dbAclAuthorizer, fileAclAuthorizer or fullAuthorizer",
            )

    async def find_veto(self, exchange: Exchange) -> Decision | None:
        """Return the first veto, or None.

        Raises `Unauthenticated` when the caller must log in first: the veto is reported only after
        that.
        """
        is_key = exchange.account is not None and exchange.account.owner is not None
        if is_key and exchange.service in _MAKING_CREDENTIALS:
            return Decision(False, "a key makes no keys and no tokens", "apiKeyMechanism")
        is_for_data = isinstance(exchange.parsed, DataRequest)
        for vetoer, predicates, needs_data in self._vetoers:
            if not predicates or (needs_data and not is_for_data):
                continue
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
        is_anonymous = exchange.account is None
        if is_anonymous and any(self._requirements) and await self.demands_login(exchange):
            return LOGIN_DEMANDED
        if not secured or exchange.request.method == "OPTIONS":
            return _OPEN
        failure: StoreError | None = None
        denial = NO_APPROVAL
        for allower, predicates, may_require in self._allowers:
            asks = is_anonymous and may_require
            if not predicates or (asks and _requires_authentication(allower, exchange)):
                continue
            try:
                decision = await allower.decide(exchange)
                decision = decision if type(decision) is Decision else _check(decision)
            except StoreError as error:
                failure = failure or error
                continue
            except Exception as error:
                decision = _read_failure(error, allower)
            if decision.allowed:
                is_signed = decision.authorizer == allower.name
                decision = decision if is_signed else _sign(decision, allower)
                owner = None if exchange.account is None else exchange.account.owner
                return decision if owner is None else await self._bound(decision, exchange, owner)
            if decision.authorizer and denial is NO_APPROVAL:  # rules sign their reason
                denial = decision
        if failure is not None:
            raise failure
        return denial

    async def _bound(self, decision: Decision, exchange: Exchange, owner: Account) -> Decision:
        """Return the approval of a key under the conditions of its owner (decision 72).

        Without it, a rule for those who lack a role or a property would give a key more than its
        owner has.
        """
        key, request = exchange.account, exchange.request
        exchange.account = request.account = owner  # a copy would cost more than the decision
        try:
            approval = await self.find_veto(exchange)
            approval = approval or await self.find_approval(exchange, secured=True)
        finally:
            exchange.account = request.account = key
        reason = approval.reason
        if approval.allowed:
            try:
                permission = bound(decision.permission, approval.permission)
                return Decision(True, decision.reason, decision.authorizer, permission)
            except Contradiction as contradiction:
                reason = str(contradiction)
        return Decision(False, f"of the owner of the key: {reason}", approval.authorizer)

    async def demands_login(self, exchange: Exchange) -> bool:
        """Return whether the caller is not authenticated and this request requires it."""
        if exchange.account is not None or exchange.request.method == "OPTIONS":
            return False
        for authorizer, predicates in self._demanding:
            if predicates and await authorizer.demands_login(exchange):
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
    """Return the decision for an authorizer that raised: a denial, unless the system failed."""
    if isinstance(error, StoreError | Overloaded | MemoryError):
        raise error
    if isinstance(error, RequestError):  # the request that it was checking is invalid
        return Decision(False, error.message)
    emit(PluginFailed(authorizer.name, "decide", error))
    return Decision(False, "the authorizer failed")


def report_denial(exchange: Exchange, authorizer: str, reason: str) -> None:
    """Log that an interceptor denies the request of the caller."""
    request, account = exchange.request, exchange.account
    name = account.name if account is not None else ""
    emit(AccessDenied(exchange.id, authorizer, reason, name, request.method, request.path))


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


_PASSED = Decision(True, "no objection")


class OriginVetoer(Authorizer):
    """Denies requests from pages whose origin is not listed."""

    name: ClassVar[str] = "originVetoer"
    description: ClassVar[str] = "denies requests of pages that are not on a list"
    enabled_by_default: ClassVar[bool] = False
    role: ClassVar[AuthorizerRole] = AuthorizerRole.VETOER
    Config = OriginVetoerConfig

    def __init__(self, config: OriginVetoerConfig) -> None:
        self._origins = frozenset(spell_origin(_normalise(origin)) for origin in config.whitelist)
        # A port in a pattern stays: without it, `https://*:443` would match all ports.
        self._patterns = [Wildcard(_normalise(pattern)) for pattern in config.whitelist_patterns]
        self._allow_missing = config.allow_missing_origin
        try:
            self._ignored = [parse_template(path) for path in config.ignore_paths]
        except ValueError as error:
            raise StartupError(f"originVetoer.ignore-paths: {error}") from None

    async def decide(self, exchange: Exchange) -> Decision:
        """Pass preflights, ignored paths, listed origins, and everything without a list."""
        request = exchange.request
        origins = request.headers.get_list("origin")
        asks = request.method == "OPTIONS" and "access-control-request-method" in request.headers
        if origins and asks:
            return _PASSED
        if any(template.match(request.segments) is not None for template in self._ignored):
            return _PASSED
        if not self._origins and not self._patterns:
            return _PASSED
        if not origins:
            missing = Decision(False, "the request does not say where it comes from")
            return _PASSED if self._allow_missing else missing
        if all(map(self._is_listed, origins)):
            return _PASSED
        return Decision(False, "the origin of the request is not on the list")

    def _is_listed(self, origin: str) -> bool:
        normal = _normalise(origin)
        spelled = spell_origin(normal)
        return spelled in self._origins or any(
            pattern.matches(normal) or pattern.matches(spelled) for pattern in self._patterns
        )


def _normalise(origin: str) -> str:
    return origin.strip().lower().removesuffix("/")


class FilterOperatorsBlacklist(Authorizer):
    """Denies REST requests whose filter contains one of the listed operators, at any depth."""

    name: ClassVar[str] = "filterOperatorsBlacklist"
    description: ClassVar[str] = "denies filters with certain operators"
    role: ClassVar[AuthorizerRole] = AuthorizerRole.VETOER
    only_data: ClassVar[bool] = True
    Config = FilterOperatorsBlacklistConfig

    def __init__(self, config: FilterOperatorsBlacklistConfig) -> None:
        self._refused = frozenset(operator.lower() for operator in config.blacklist)

    async def decide(self, exchange: Exchange) -> Decision:
        """Check the filter; requests that the service has rejected pass: they are not executed."""
        parsed = exchange.parsed
        if isinstance(parsed, DataRequest):
            for filter in (parsed.parameters.filter, parsed.parameters.shardkey):
                if filter is not None and has_key(filter, self._refused):
                    return Decision(False, "the filter holds an operator that is refused")
        return _PASSED


_APPROVED = Decision(True, "fullAuthorizer approves every request", "fullAuthorizer")


class FullAuthorizer(Authorizer):
    """Approves authenticated users; without `authentication-required` every caller."""

    name: ClassVar[str] = "fullAuthorizer"
    description: ClassVar[str] = "approves every request"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 100  # last: rules have conditions, this one has none
    Config = FullAuthorizerConfig

    def __init__(self, config: FullAuthorizerConfig) -> None:
        self._authentication_required = config.authentication_required

    async def decide(self, exchange: Exchange) -> Decision:
        return _APPROVED

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Return the configured value; true by default."""
        return self._authentication_required
