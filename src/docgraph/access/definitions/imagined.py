"""What would become of another request of the same caller: asked of the same authorizers.

For those who must know what a caller may do elsewhere: nothing is answered, and nothing is read but
the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from docgraph.access.authorize import Authorization
from docgraph.config.section import Section
from docgraph.exchange import Exchange, Request
from docgraph.exchange.errors import Unauthenticated
from docgraph.exchange.path import encode_path
from docgraph.plugins.binding import bound_path, is_secured
from docgraph.plugins.kinds import Decision, Kind, Service
from docgraph.plugins.registry import PluginRegistry

__all__ = ["Imagination", "find_service"]


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

    async def decide_get(
        self, exchange: Exchange, segments: tuple[str, ...]
    ) -> tuple[str, Decision | None]:
        """The service of a plain GET by the caller of `exchange`, and its decision; None: denied.

        It comes from the same place as the present request, so that vetoers judge it alike.
        """
        service = find_service(segments, self.registry, self.configuration)
        if service is None:
            return "", None
        request = Request(
            "GET",
            encode_path(segments).encode(),
            headers=exchange.request.headers,
            connection=exchange.request.connection,
        )
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
