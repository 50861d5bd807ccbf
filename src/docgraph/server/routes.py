"""Routing: the longest bound prefix of whole segments wins; `/` may be a page besides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from docgraph.exchange import DataRequest, Exchange, Request, ResourceType, StartupError
from docgraph.exchange.request import encode_path
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import bound_path, is_secured
from docgraph.server.html_pages import is_navigation


@dataclass(frozen=True, slots=True)
class Route:
    """A service, the path it is bound to, and whether callers need an allower for it.

    `console` is the path of the page where people find what is below `prefix`.
    """

    service: Service
    prefix: tuple[str, ...]
    secured: bool
    console: tuple[str, ...] | None = None
    is_probe: bool = field(init=False)  # its service answers health checks
    # It answers the same to every caller, so that authentication is optional.
    is_for_everybody: bool = field(init=False)

    def __post_init__(self) -> None:
        is_same = not self.secured and getattr(self.service, "is_same_for_all", False)
        object.__setattr__(self, "is_probe", getattr(self.service, "is_probe", False))
        object.__setattr__(self, "is_for_everybody", is_same)

    def find_page(self, request: Request) -> str | None:
        """Return the path of the page for people that corresponds to this request."""
        if self.console is None:
            return None
        path = encode_path((*self.console, *request.segments[len(self.prefix) :]))
        return request.connection.root_path + path


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
    routes = [bind(service, sections.get(service.name)) for service in services]
    console = next((route.prefix for route in routes if route.service.name == "console"), None)
    if console is None:
        return routes
    return [
        replace(route, console=(*console, "ask")) if route.service.name == "graphql" else route
        for route in routes
    ]


_DATABASE: Final = "{database}"
_COLLECTION: Final = f"{_DATABASE}/{{collection}}"
_PLACES: Final = {
    ResourceType.ROOT: "",
    ResourceType.DATABASE: _DATABASE,
    ResourceType.COLLECTION: _COLLECTION,
    ResourceType.DOCUMENT: f"{_COLLECTION}/{{document}}",
    ResourceType.BULK: f"{_COLLECTION}/*",
    ResourceType.INDEXES: f"{_COLLECTION}/_indexes",
    ResourceType.INDEX: f"{_COLLECTION}/_indexes/{{index}}",
    ResourceType.AGGREGATION: f"{_COLLECTION}/_aggrs/{{aggregation}}",
    ResourceType.STREAMS: f"{_COLLECTION}/_streams",
    ResourceType.STREAM: f"{_COLLECTION}/_streams/{{stream}}",
    ResourceType.SCHEMA_STORE: f"{_DATABASE}/_schemas",
    ResourceType.SCHEMA: f"{_DATABASE}/_schemas/{{schema}}",
}


def describe_route(exchange: Exchange) -> str:
    """Return the path of the service, and the kind of the rest; empty for no service.

    Paths of the REST API are shown as if nothing were mounted elsewhere: the configuration decides
    how many segments of a mount are names of databases.
    """
    prefix = exchange.route
    if prefix is None:
        return ""
    parts = [*prefix, rest] if (rest := _describe_rest(exchange, len(prefix))) else prefix
    return "/" + "/".join(parts)


def _describe_rest(exchange: Exchange, bound: int) -> str:
    parsed = exchange.parsed
    if isinstance(parsed, DataRequest):
        resource = parsed.resource
        return "{path}" if resource is None else _PLACES.get(resource.type, "{path}")
    if len(exchange.request.segments) <= bound:
        return ""
    return "{app}" if exchange.app else "{path}"
