"""What would become of another request: asked of the same authorizers as if it came now.

For those who must know what a caller may do elsewhere, or carry out for him what he might have
asked for there: nothing is answered here, and nothing is read but the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

from docgraph.access.authorize import LOGIN_DEMANDED, Authorization
from docgraph.config.section import PluginConfig, Section
from docgraph.exchange import (
    Account,
    DocgraphError,
    Exchange,
    Headers,
    Parsed,
    Permission,
    Request,
)
from docgraph.exchange.errors import Unauthenticated
from docgraph.plugins.binding import bound_path, is_secured
from docgraph.plugins.kinds import Decision, Kind, Provider, Service
from docgraph.plugins.registry import PluginRegistry

__all__ = ["Imagination", "ImaginationProvider", "combine", "find_service", "parse"]

_MOST_BYTES: Final = 1 << 30  # of a body that is here already


def find_service(
    segments: tuple[str, ...], registry: PluginRegistry, configuration: Mapping[str, Section]
) -> Service | None:
    """The service that answers at the path: that of the longest prefix."""
    found: tuple[int, Service | None] = (-1, None)
    for service in registry.of_kind(Kind.SERVICE):
        prefix = bound_path(service, configuration.get(service.name))
        length = len(prefix)
        fits = segments == prefix if service.exact else segments[:length] == prefix
        if fits and length > found[0]:
            found = (length, service)
    return found[1]


def parse(exchange: Exchange, service: Service) -> Parsed | None:
    """What the service makes of the request, or its refusal, which nobody hears before rules do."""
    try:
        return service.parse(exchange)
    except DocgraphError as error:
        return Parsed(error)


@dataclass(frozen=True)
class Imagination:
    """The authorizers and services of this instance."""

    registry: PluginRegistry
    configuration: Mapping[str, Section]

    @cached_property
    def _authorization(self) -> Authorization:
        return Authorization(self.registry.of_kind(Kind.AUTHORIZER))

    def imagine_get(self, outer: Exchange, path: str) -> Exchange:
        """A plain GET by the caller of `outer`.

        `path` is encoded, and may have parameters that say which resource it is.
        """
        raw_path, _, query_string = path.encode().partition(b"?")
        request = Request(
            "GET",
            raw_path,
            query_string=query_string,
            headers=outer.request.headers,
            connection=outer.request.connection,
        )
        return self._enter(Exchange(request, outer.id), outer.account)

    def imagine_post(
        self, outer: Exchange, path: str, body: bytes, account: Account | None
    ) -> Exchange:
        """JSON that `account` sends to the encoded path, within the time of `outer`."""

        async def read(limit: int) -> bytes:
            return body

        fields = outer.request.headers.raw
        kept = [(name, value) for name, value in fields if not name.startswith(b"content-")]
        kept.append((b"content-type", b"application/json"))
        connection = outer.request.connection
        request = Request(
            "POST", path.encode(), headers=Headers(kept), body=read, connection=connection
        )
        request.body_limit = _MOST_BYTES
        request.pages = outer.request.pages
        request.offload = outer.request.offload
        exchange = Exchange(
            request,
            outer.id,
            started=outer.started,
            deadline=outer.deadline,
            attributes=outer.attributes,
        )
        return self._enter(exchange, account)

    def _enter(self, exchange: Exchange, account: Account | None) -> Exchange:
        """As far as the pipeline takes it before anybody judges; no service: none is named."""
        request = exchange.request
        exchange.account = request.account = account
        service = find_service(request.segments, self.registry, self.configuration)
        if service is not None:
            exchange.service, exchange.parsed = service.name, parse(exchange, service)
        return exchange

    async def judge(self, exchange: Exchange) -> Decision:
        """What vetoers and allowers say to an imagined request, as to any."""
        service = self.registry.find(exchange.service)
        secured = is_secured(service, self.configuration.get(service.name)) if service else True
        try:
            denied = await self._authorization.find_veto(exchange)
        except Unauthenticated:
            return LOGIN_DEMANDED
        return denied or await self._authorization.find_approval(exchange, secured=secured)

    async def decide_get(self, exchange: Exchange, path: str) -> tuple[str, Decision | None]:
        """The service of a plain GET by the caller of `exchange`, and its decision; None: denied.

        It comes from the same place as the present request, so that vetoers judge it alike.
        """
        other = self.imagine_get(exchange, path)
        if not other.service:
            return "", None
        decision = await self.judge(other)
        return other.service, decision if decision.allowed else None


def combine(outer: Permission | None, inner: Permission | None) -> Permission | None:
    """What the rule of an inner request says, and no row that the rule of the outer one hides."""
    if outer is None or not outer.read_filters:
        return inner
    if inner is None:
        return Permission(outer.rule, read_filters=outer.read_filters)
    filters: dict[str, Mapping[str, Any]] = {**outer.read_filters}
    for namespace, one in inner.read_filters.items():
        other = filters.get(namespace)
        filters[namespace] = one if other is None else {"$and": [other, one]}
    return replace(inner, read_filters=filters)


class ImaginationProvider(Provider):
    """Lets services ask what a caller may do elsewhere."""

    name: ClassVar[str] = "imaginedRequests"
    description: ClassVar[str] = "what would become of another request of the same caller"
    provides: ClassVar[str] = "imagined-requests"
    security: ClassVar[bool] = True

    def __init__(
        self,
        config: PluginConfig,
        registry: PluginRegistry,
        configuration: Mapping[str, Section],
    ) -> None:
        self._imagination = Imagination(registry, configuration)

    def get(self) -> Imagination:
        """The same for everybody."""
        return self._imagination
