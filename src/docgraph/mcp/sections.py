"""Section of the MCP service: `mcp`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from docgraph.config.section import ByteSize, ServiceConfig, Uri, View
from docgraph.exchange.errors import Problem
from docgraph.graphql.sections import Graphql
from docgraph.runtime.sections import AllowedHost, AllowedOrigin

HttpAddress = Annotated[
    str,
    Meta(
        pattern=r"^https?://[^/\s?#]+(/[^\s?#]*)?\Z",
        extra={"form": "an address such as 'https://login.example.org'"},
    ),
]


class Mcp(ServiceConfig, frozen=True):
    """Agents' access to the GraphQL apps by the Model Context Protocol."""

    section_name: ClassVar[str] = "mcp"
    enabled: Annotated[bool, "whether the service is on"] = False
    uri: Annotated[Uri, "path of the endpoint"] = "/mcp"
    secured: Annotated[bool, "whether requests have to pass an authorizer"] = True
    allowed_hosts: Annotated[
        tuple[AllowedHost, ...],
        "`Host` values accepted in addition to this machine's own and that of `core.base-url`; "
        "one without a port matches every port",
    ] = ()
    allowed_origins: Annotated[
        tuple[AllowedOrigin, ...],
        "`Origin` values accepted from browsers beside `cors.allow-origins`",
    ] = ()
    authorization_servers: Annotated[
        tuple[HttpAddress, ...], "addresses of servers whose tokens log in here, told to clients"
    ] = ()
    calls_per_second: Annotated[
        int, Meta(ge=1, le=10**6), "requests of one caller within a second; more is 429"
    ] = 20
    json_mode: Annotated[
        Literal["plain", "standard"],
        "values in results: `plain` (dates as ISO 8601, numbers as numbers), or `standard` (as "
        "the endpoint of the app renders them)",
    ] = "plain"
    max_body_size: Annotated[ByteSize, "largest request body; more is 413"] = 1_048_576
    max_documents: Annotated[
        int, Meta(ge=1, le=10**9), "most documents that one query may fetch"
    ] = 10_000
    max_result_bytes: Annotated[
        int,
        Meta(ge=4_096, le=1 << 30, extra={"size": True}),
        "largest result of a tool; longer lists are cut",
    ] = 65_536

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Yield a problem if `graphql` is off: agents query its apps."""
        if self.enabled and view.knows(Graphql) and view.on(Graphql) is None:
            yield view.blame(
                "/mcp/enabled",
                "agents ask the GraphQL apps, and 'graphql' is off",
                "enable graphql, or turn off mcp",
                "/graphql/enabled",
            )
