"""Authorizers without rules: `fullAuthorizer`, and vetoers of the origin and of operators."""

from __future__ import annotations

from typing import ClassVar

from docgraph.access.language.path_functions import parse_template
from docgraph.access.sections import FilterOperatorsBlacklist as FilterOperatorsBlacklistConfig
from docgraph.access.sections import FullAuthorizer as FullAuthorizerConfig
from docgraph.access.sections import OriginVetoer as OriginVetoerConfig
from docgraph.exchange import DataRequest, Exchange, StartupError
from docgraph.exchange.origin import Wildcard, spell_origin
from docgraph.plugins.kinds import Authorizer, AuthorizerRole, Decision
from docgraph.store.guard.stage_checks import has_key

_PASSED = Decision(True, "no objection")


class OriginVetoer(Authorizer):
    """Denies requests from pages whose origin is not listed."""

    name: ClassVar[str] = "originVetoer"
    description: ClassVar[str] = "denies requests of pages that are not on a list"
    enabled_by_default: ClassVar[bool] = False
    role: ClassVar[AuthorizerRole] = AuthorizerRole.VETOER
    Config = OriginVetoerConfig

    def __init__(self, config: OriginVetoerConfig) -> None:
        self._origins = frozenset(spell_origin(_normalise(one)) for one in config.whitelist)
        # A port in a pattern stays: without it, `https://*:443` would match all ports.
        self._patterns = [Wildcard(_normalise(one)) for one in config.whitelist_patterns]
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
        if any(one.match(request.segments) is not None for one in self._ignored):
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
            one.matches(normal) or one.matches(spelled) for one in self._patterns
        )


def _normalise(origin: str) -> str:
    return origin.strip().lower().removesuffix("/")


class FilterOperatorsBlacklist(Authorizer):
    """Denies REST requests whose filter contains one of the listed operators, at any depth."""

    name: ClassVar[str] = "filterOperatorsBlacklist"
    description: ClassVar[str] = "denies filters with certain operators"
    role: ClassVar[AuthorizerRole] = AuthorizerRole.VETOER
    Config = FilterOperatorsBlacklistConfig

    def __init__(self, config: FilterOperatorsBlacklistConfig) -> None:
        self._refused = frozenset(one.lower() for one in config.blacklist)

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
        """Approve the request."""
        return _APPROVED

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Return the configured value; true by default."""
        return self._authentication_required
