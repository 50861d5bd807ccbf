"""Path → service: the longest bound prefix of whole segments wins; `/` may be a page besides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from docgraph.exchange import Request, StartupError
from docgraph.exchange.path import encode_path
from docgraph.plugins.binding import bound_path, is_secured
from docgraph.plugins.kinds import Service
from docgraph.server.pages.navigation import is_navigation

__all__ = ["Route", "Routes", "bind", "bind_all", "takes_entries"]


@dataclass(frozen=True, slots=True)
class Route:
    """A service, the path it is bound to, and whether callers need an allower for it.

    `console` is the path of the page for people below which they find what is below `prefix`.
    """

    service: Service
    prefix: tuple[str, ...]
    secured: bool
    console: tuple[str, ...] | None = None

    def find_page(self, request: Request) -> str | None:
        """The path of the page in which people do what programs do at the path of this request."""
        if self.console is None:
            return None
        return encode_path((*self.console, *request.segments[len(self.prefix) :]))

    @property
    def is_probe(self) -> bool:
        """Whether its service says how the server is."""
        return getattr(self.service, "is_probe", False)

    @property
    def is_for_everybody(self) -> bool:
        """Whether it answers the same to callers of whom nobody can say who they are."""
        return not self.secured and getattr(self.service, "is_same_for_all", False)


class Routes:
    """A table of prefixes; a look-up costs one dictionary access per segment at most."""

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
        """The route that serves this request; browsers that look at `/` get the front page."""
        if not request.segments and self._front is not None and is_navigation(request):
            return self._front
        return self.match(request.segments)

    def _find(self, segments: tuple[str, ...]) -> Route | None:
        """The route that serves this path."""
        for length in range(min(len(segments), self._longest), -1, -1):
            route = self._table.get(segments[:length])
            if route is not None and (length == len(segments) or not route.service.exact):
                return route
        return None

    def __iter__(self) -> Iterator[Route]:
        return iter(self._table.values())


def takes_entries(route: Route | None) -> bool:
    """Whether requests of a batch may go there."""
    return route is not None and getattr(route.service, "takes_entries", False) is True


def bind(service: Service, config: object) -> Route:
    """A service at the `uri` of its section, or at its own default."""
    return Route(service, bound_path(service, config), is_secured(service, config))


def bind_all(services: Iterable[Service], sections: Mapping[str, object]) -> list[Route]:
    """All services, each at its path; the apps know where the console asks them."""
    routes = [bind(one, sections.get(one.name)) for one in services]
    console = next((one.prefix for one in routes if one.service.name == "console"), None)
    if console is None:
        return routes
    return [
        replace(one, console=(*console, "ask")) if one.service.name == "graphql" else one
        for one in routes
    ]
