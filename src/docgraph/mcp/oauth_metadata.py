"""OAuth 2.0 protected resource metadata (RFC 9728): how clients log in.

With `mcp.authorization-servers`, a rejected client learns from the challenge where the metadata is,
and from the metadata which server issues accepted tokens. The JWT mechanism checks the tokens, as
for every other endpoint.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import orjson

from docgraph.exchange import Answer, Body, Exchange, Parsed
from docgraph.exchange.errors import NotFound, Unauthenticated
from docgraph.exchange.request import encode_path, parse_path
from docgraph.mcp.request_checks import HostCheck
from docgraph.mcp.sections import Mcp
from docgraph.plugins.kinds import Interceptor, Point, Service
from docgraph.runtime.sections import Core

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_CHALLENGE: Final = "WWW-Authenticate"


class _Addresses:
    """The URLs of the endpoint and its metadata, as a caller has to write them."""

    def __init__(self, settings: Mcp, core: Core) -> None:
        self._base_url = core.base_url
        self.path = encode_path(parse_path(settings.uri.encode()))

    def find_resource(self, exchange: Exchange) -> str:
        return self._find_base(exchange) + self.path

    def find_metadata(self, exchange: Exchange) -> str:
        return self._find_base(exchange) + _WELL_KNOWN + self.path

    def _find_base(self, exchange: Exchange) -> str:
        request = exchange.request
        connection = request.connection
        if self._base_url is not None:
            return connection.find_base(self._base_url)
        host = connection.host or request.headers.get("host") or "localhost"
        return f"{connection.scheme}://{host}{connection.root_path}"


class McpMetadata(Service):
    """Serves the list of authorization servers that the MCP endpoint trusts."""

    name: ClassVar[str] = "mcpMetadata"
    description: ClassVar[str] = "where clients of the endpoint of agents log in (RFC 9728)"
    uri: ClassVar[str] = _WELL_KNOWN
    part_of: ClassVar[str] = "mcp"

    def __init__(self, config: Any, settings: Mcp, core: Core) -> None:
        self.config = config
        self._servers = settings.authorization_servers
        self._addresses = _Addresses(settings, core)
        self._gate = HostCheck(settings, core)
        self.secured = not self._servers  # type: ignore[misc] # callers have no login yet

    def parse(self, exchange: Exchange) -> Parsed:
        """Accept the metadata path of the endpoint, and no other."""
        rest = encode_path(exchange.request.segments[len(parse_path(_WELL_KNOWN.encode())) :])
        if not self._servers or rest not in ("", self._addresses.path):
            raise NotFound("nothing is served at this path")
        self._gate.check_host(exchange.request)  # the response repeats it as our own URL
        return Parsed()

    async def handle(self, exchange: Exchange) -> Answer:
        content = {
            "resource": self._addresses.find_resource(exchange),
            "authorization_servers": list(self._servers),
            "bearer_methods_supported": ["header"],
            "resource_name": "docgraph",
        }
        return Body(200, orjson.dumps(content), "application/json")


class McpChallenge(Interceptor):
    """Adds the URL of the metadata to the challenge of a rejected request to `/mcp`."""

    name: ClassVar[str] = "mcpChallenge"
    description: ClassVar[str] = "tells refused clients where they can log in (RFC 9728)"
    point: ClassVar[Point] = Point.AFTER_FAILED_AUTH
    part_of: ClassVar[str] = "mcp"

    def __init__(self, config: Any, settings: Mcp, core: Core) -> None:
        self.config = config
        self._is_on = bool(settings.authorization_servers)
        self._addresses = _Addresses(settings, core)
        self._gate = HostCheck(settings, core)

    def resolve(self, exchange: Exchange) -> bool:
        """Return whether an anonymous caller of the endpoint gets challenges."""
        is_asked = self._is_on and exchange.service == "mcp" and exchange.account is None
        rejection = exchange.rejection
        is_challenged = isinstance(rejection, Unauthenticated) and bool(rejection.headers)
        return is_asked and is_challenged and self._gate.knows_host(exchange.request)

    async def handle(self, exchange: Exchange) -> None:
        """Put the one `Bearer` challenge first: many clients read no other."""
        rejection = exchange.rejection
        assert rejection is not None  # noqa: S101 - checked before
        address = self._addresses.find_metadata(exchange)
        others = [value for name, value in rejection.headers if name == _CHALLENGE]
        bearer = next(
            (challenge for challenge in others if challenge.startswith("Bearer ")), "Bearer "
        )
        parts = [bearer.removeprefix("Bearer "), f'resource_metadata="{address}"']
        first = "Bearer " + ", ".join(part for part in parts if part)
        kept = [challenge for challenge in others if not challenge.startswith("Bearer")]
        rejection.headers = tuple((_CHALLENGE, value) for value in (first, *kept))
