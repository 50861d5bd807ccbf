"""`GET /ping`: liveness check of the server."""

from __future__ import annotations

from typing import ClassVar

import orjson

from docgraph import __version__
from docgraph.exchange import Answer, Body, Exchange
from docgraph.plugins.kinds import Service
from docgraph.server.services.sections import Ping as PingConfig


class Ping(Service):
    """Answers without using the database."""

    name: ClassVar[str] = "ping"
    description: ClassVar[str] = "says whether the server answers"
    uri: ClassVar[str] = "/ping"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False
    is_probe: ClassVar[bool] = True
    is_same_for_all: ClassVar[bool] = True
    Config = PingConfig

    def __init__(self, config: PingConfig) -> None:
        self._message = config.msg
        self._extended = config.enable_extended_response

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the message, with the caller and the version unless disabled."""
        body: dict[str, str] = {"message": self._message}
        if self._extended:
            client = exchange.request.connection.client
            body["client_ip"] = client[0] if client else ""
            body["host"] = exchange.request.headers.get("host") or ""
            body["version"] = __version__
        return Body(content=orjson.dumps(body), media_type="application/json")
