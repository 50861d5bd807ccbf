"""What would become of another request of the same caller: asked of the same authorizers.

For those who must know what a caller may do elsewhere: nothing is answered, and nothing is read but
the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from docgraph.access.authorize import Authorization
from docgraph.config.section import PluginConfig, Section
from docgraph.exchange import Exchange, Request
from docgraph.exchange.errors import Unauthenticated
from docgraph.plugins.binding import bound_path, is_secured
from docgraph.plugins.kinds import Decision, Kind, Provider, Service
from docgraph.plugins.registry import PluginRegistry

__all__ = ["Imagination", "ImaginationProvider", "find_service"]


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


@dataclass(frozen=True, slots=True)
class Imagination:
    """The authorizers and services of this instance."""

    registry: PluginRegistry
    configuration: Mapping[str, Section]

    async def decide_get(self, exchange: Exchange, path: str) -> tuple[str, Decision | None]:
        """The service of a plain GET by the caller of `exchange`, and its decision; None: denied.

        It comes from the same place as the present request, so that vetoers judge it alike. `path`
        is encoded, and may have parameters that say which resource it is.
        """
        raw_path, _, query_string = path.encode().partition(b"?")
        request = Request(
            "GET",
            raw_path,
            query_string=query_string,
            headers=exchange.request.headers,
            connection=exchange.request.connection,
        )
        service = find_service(request.segments, self.registry, self.configuration)
        if service is None:
            return "", None
        request.account = exchange.account
        other = Exchange(request, exchange.id, account=exchange.account)
        other.service, other.parsed = service.name, service.parse(other)
        authorization = Authorization(self.registry.of_kind(Kind.AUTHORIZER))
        secured = is_secured(service, self.configuration.get(service.name))
        try:
            denied = await authorization.find_veto(other)
        except Unauthenticated:
            return service.name, None
        decision = denied or await authorization.find_approval(other, secured=secured)
        return service.name, decision if decision.allowed else None


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
