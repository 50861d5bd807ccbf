"""Authorize a hypothetical request (impersonate, dry run), with the same authorizers.

For services that must know what a caller may do elsewhere, or that execute another request on the
caller's behalf. Nothing is answered here, and only the rules are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from docgraph.access.authorize import LOGIN_DEMANDED, Authorization
from docgraph.access.combine import combine
from docgraph.config.section import PluginConfig, Section
from docgraph.exchange import Account, DocgraphError, Exchange, Headers, Parsed, Request
from docgraph.exchange.errors import Unauthenticated
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import Decision, Kind, Provider, Service
from docgraph.plugins.registry import PluginRegistry, bound_path, is_secured

_MAX_BYTES: Final = 1 << 30  # of a body that is already in memory


def _parse(exchange: Exchange, service: Service) -> Parsed | None:
    """Return the request as the service parses it, or its rejection.

    The rejection is not reported before the rules have decided.
    """
    try:
        return service.parse(exchange)
    except DocgraphError as error:
        return Parsed(error)


@dataclass(frozen=True)
class RequestDryRun:
    """Dry runs with the authorizers and services of this instance."""

    registry: PluginRegistry
    configuration: Mapping[str, Section]

    @cached_property
    def authorization(self) -> Authorization:
        """The vetoers and allowers."""
        return Authorization(self.registry.of_kind(Kind.AUTHORIZER))

    @cached_property
    def services(self) -> list[tuple[tuple[str, ...], Service]]:
        """The services and their paths, the longest path first."""
        services = self.registry.of_kind(Kind.SERVICE)
        bound = [
            (bound_path(service, self.configuration.get(service.name)), service)
            for service in services
        ]
        return sorted(bound, key=lambda binding: -len(binding[0]))

    def find_service(self, segments: tuple[str, ...]) -> Service | None:
        """Return the service that answers at the path: the one with the longest prefix."""
        for prefix, service in self.services:
            if (segments if service.exact else segments[: len(prefix)]) == prefix:
                return service
        return None

    def build_get(self, outer: Exchange, path: str, method: str = "GET") -> Exchange:
        """Build a request without a body by the caller of `outer`.

        `path` is encoded, and may have parameters that identify the resource.
        """
        raw_path, _, query_string = path.encode().partition(b"?")
        request = Request(
            method,
            raw_path,
            query_string=query_string,
            headers=outer.request.headers,
            connection=outer.request.connection,
        )
        return self.enter(Exchange(request, outer.id), outer.account)

    def build_post(
        self, outer: Exchange, path: str, body: bytes, account: Account | None
    ) -> Exchange:
        """Build a POST of JSON by `account` to the encoded path, within the deadline of `outer`."""

        async def read(limit: int) -> bytes:
            return body

        fields = outer.request.headers.raw
        kept = [(name, value) for name, value in fields if not name.startswith(b"content-")]
        kept.append((b"content-type", b"application/json"))
        connection = outer.request.connection
        request = Request(
            "POST", path.encode(), headers=Headers(kept), body=read, connection=connection
        )
        request.body_limit = _MAX_BYTES
        request.pages = outer.request.pages
        request.offload = outer.request.offload
        exchange = Exchange(
            request,
            outer.id,
            started=outer.started,
            deadline=outer.deadline,
            attributes=outer.attributes,
        )
        return self.enter(exchange, account)

    def enter(self, exchange: Exchange, account: Account | None) -> Exchange:
        """Run the stages before authorization; without a service the exchange names none."""
        request = exchange.request
        exchange.account = request.account = account
        service = self.find_service(request.segments)
        if service is not None:
            exchange.service, exchange.parsed = service.name, _parse(exchange, service)
        return exchange

    async def authorize(
        self, exchange: Exchange, outer: Exchange, *, quietly: bool = False
    ) -> Decision:
        """Authorize a hypothetical request on behalf of `outer`, whose row filters apply, too.

        The exchange gets the permission; a denial is logged unless `quietly`.
        """
        decision = await self.find_decision(exchange)
        if decision.allowed:
            exchange.permission = combine(outer.permission, decision.permission)
        elif not quietly and decision is not LOGIN_DEMANDED:
            emit(AccessDenied(exchange.id, decision.authorizer, decision.reason))
        return decision

    async def find_decision(self, exchange: Exchange) -> Decision:
        """Return the decision of vetoers and allowers on a hypothetical request."""
        return (await self.decide(exchange))[1]

    async def decide(self, exchange: Exchange) -> tuple[Decision | None, Decision]:
        """Return the veto, if any, and the decision that the pipeline would make."""
        service = self.registry.find(exchange.service)
        secured = is_secured(service, self.configuration.get(service.name)) if service else True
        try:
            veto = await self.authorization.find_veto(exchange)
        except Unauthenticated:
            return None, LOGIN_DEMANDED
        return veto, veto or await self.authorization.find_approval(exchange, secured=secured)

    async def decide_get(self, exchange: Exchange, path: str) -> tuple[str, Decision | None]:
        """Return the service and the decision (None: denied) of a plain GET by the caller.

        The hypothetical request has the same origin as the current one, so that vetoers decide
        alike.
        """
        other = self.build_get(exchange, path)
        if not other.service:
            return "", None
        decision = await self.find_decision(other)
        return other.service, decision if decision.allowed else None


class DryRunProvider(Provider):
    """Provides dry runs to services that must know what a caller may do elsewhere."""

    name: ClassVar[str] = "imaginedRequests"
    description: ClassVar[str] = "what would become of another request of the same caller"
    provides: ClassVar[str] = "imagined-requests"
    security: ClassVar[bool] = True

    def __init__(
        self, config: PluginConfig, registry: PluginRegistry, configuration: Mapping[str, Section]
    ) -> None:
        self._dry_run = RequestDryRun(registry, configuration)

    def get(self) -> RequestDryRun:
        return self._dry_run
