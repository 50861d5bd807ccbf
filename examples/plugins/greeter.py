"""Three small plugins in one file: a service, an interceptor and a variable.

Put the file into the directory `plugins` beside your configuration (or name another one in
`core.plugins-directory`), and `docgraph plugins` lists them.
"""

from typing import ClassVar

import msgspec

from docgraph import (
    Answer,
    Body,
    Exchange,
    Interceptor,
    Point,
    Service,
    ServiceConfig,
    VariableResolver,
)


class GreeterConfig(ServiceConfig, frozen=True):
    """The section `greeter` of the configuration."""

    greeting: str = "Hello"


class Greeter(Service):
    """`GET /greeter?name=Ada` answers a greeting, `POST` greets everyone in the body."""

    name: ClassVar[str] = "greeter"
    description: ClassVar[str] = "greets people"
    uri: ClassVar[str] = "/greeter"
    methods: ClassVar[tuple[str, ...]] = ("GET", "POST")
    Config = GreeterConfig

    def __init__(self, config: GreeterConfig) -> None:
        self.greeting = config.greeting

    async def handle(self, exchange: Exchange) -> Answer:
        names = [exchange.request.query.get("name") or "world"]
        if exchange.request.method == "POST":
            names = await exchange.request.get_content()
        body = {"message": f"{self.greeting}, {' and '.join(names)}!"}
        return Body(content=msgspec.json.encode(body), media_type="application/json")


class Stamp(Interceptor):
    """Writes who answered into a header of every response."""

    name: ClassVar[str] = "stamp"
    description: ClassVar[str] = "marks every response"
    point: ClassVar[Point] = Point.RESPONSE

    async def handle(self, exchange: Exchange) -> Answer | None:
        exchange.headers.append(("X-Answered-By", exchange.service or "nobody"))
        return None


class Tenant(VariableResolver):
    """`{"$arg": "@tenant"}` in a mapping is the first label of the host name."""

    name: ClassVar[str] = "tenantVariable"
    description: ClassVar[str] = "@tenant: the first label of the host name"
    variable: ClassVar[str] = "tenant"

    async def resolve_variable(self, exchange: Exchange, expression: str) -> str | None:
        host = exchange.request.headers.get("host") or ""
        return host.split(".")[0].split(":")[0] or None
