"""Routing: the longest bound prefix of whole segments wins; `/` may be a page besides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from docgraph.exchange import Request, StartupError
from docgraph.exchange.path import encode_path
from docgraph.plugins.binding import bound_path, is_secured
from docgraph.plugins.kinds import Service
from docgraph.server.pages.navigation import is_navigation


@dataclass(frozen=True, slots=True)
class Route:
    """A service, the path it is bound to, and whether callers need an allower for it.

    `console` is the path of the page where people find what is below `prefix`.
    """

    service: Service
    prefix: tuple[str, ...]
    secured: bool
    console: tuple[str, ...] | None = None

    def find_page(self, request: Request) -> str | None:
        """Return the path of the page for people that corresponds to this request."""
        if self.console is None:
            return None
        return encode_path((*self.console, *request.segments[len(self.prefix) :]))

    @property
    def is_probe(self) -> bool:
        """Whether its service answers health checks."""
        return getattr(self.service, "is_probe", False)

    @property
    def is_for_everybody(self) -> bool:
        """Whether it answers the same to every caller, so that authentication is optional."""
        return not self.secured and getattr(self.service, "is_same_for_all", False)


class Routes:
    """A table of prefixes; a lookup costs at most one dictionary access per segment."""

    def __init__(self, routes: Iterable[Route], front: Route | None = None) -> None:
        self._front = front
        self._table: dict[tuple[str, ...], Route] = {}
        for route in routes:
            other = self._table.setdefault(route.prefix, route)
            if other is not route:
                raise StartupError(
                    f"the services {other.service.name!r} and {route.service.name!r} are both "
                    f"bound to /{'/'.join(route.prefix)}",
                    hint="give one of them another `uri`",
                )
        self._longest = max((len(prefix) for prefix in self._table), default=0)
        self.match = lru_cache(maxsize=1024)(self._find)  # most requests are for few paths

    def find(self, request: Request) -> Route | None:
        """Return the route of this request; browsers that open `/` get the front page."""
        if not request.segments and self._front is not None and is_navigation(request):
            return self._front
        return self.match(request.segments)

    def _find(self, segments: tuple[str, ...]) -> Route | None:
        """Return the route of this path."""
        for length in range(min(len(segments), self._longest), -1, -1):
            route = self._table.get(segments[:length])
            if route is not None and (length == len(segments) or not route.service.exact):
                return route
        return None

    def __iter__(self) -> Iterator[Route]:
        return iter(self._table.values())


def takes_entries(route: Route | None) -> bool:
    """Return whether batch entries may use the route."""
    return route is not None and getattr(route.service, "takes_entries", False) is True


def bind(service: Service, config: object) -> Route:
    """Bind a service to the `uri` of its section, or to its own default."""
    return Route(service, bound_path(service, config), is_secured(service, config))


def bind_all(services: Iterable[Service], sections: Mapping[str, object]) -> list[Route]:
    """Bind all services to their paths; the apps know their page in the console."""
    routes = [bind(one, sections.get(one.name)) for one in services]
    console = next((one.prefix for one in routes if one.service.name == "console"), None)
    if console is None:
        return routes
    return [
        replace(one, console=(*console, "ask")) if one.service.name == "graphql" else one
        for one in routes
    ]
