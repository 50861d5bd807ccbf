"""Health checks: `GET /ping` (liveness) and `GET /health/db` (latency and readiness)."""

from __future__ import annotations

import time
from typing import ClassVar

import orjson

from docgraph import __version__
from docgraph.exchange import Answer, Body, Exchange
from docgraph.exchange.errors import StoreError, TimeLimitExceeded
from docgraph.plugins.kinds import Service
from docgraph.runtime import Generations
from docgraph.server.services.sections import DatabaseProbe as DatabaseProbeConfig
from docgraph.server.services.sections import Ping as PingConfig
from docgraph.store import Store
from docgraph.store.driver.connection_status import Lacking


class DatabaseProbe(Service):
    """Pings the database with a timeout; does not disclose its address."""

    name: ClassVar[str] = "database-probe"
    description: ClassVar[str] = "says whether the database answers"
    uri: ClassVar[str] = "/health/db"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False
    is_probe: ClassVar[bool] = True
    is_same_for_all: ClassVar[bool] = True
    Config = DatabaseProbeConfig

    def __init__(self, config: DatabaseProbeConfig, store: Store, generations: Generations) -> None:
        self._generations = generations
        self._timeout = config.timeout_ms / 1000
        self._db = config.dbname
        self._store = store

    async def handle(self, exchange: Exchange) -> Answer:
        """Return 200 with the latency, 504 for a timeout, 503 for other failures and a stop."""
        started = time.perf_counter()
        if self._generations.read("stopping"):
            return _report(503, "error", "stopping", started)
        try:
            await self._store.ping(timeout=self._timeout, db=self._db)
        except TimeLimitExceeded:
            return _report(504, "error", "no answer in time", started)
        except StoreError:
            return _report(503, "error", self._explain(), started)
        if isinstance(fault := self._store.fault, Lacking) and fault.is_serious:
            return _report(503, "error", fault.summary, started)
        return _report(200, "ok", "ping successful", started)

    def _explain(self) -> str:
        if self._generations.read("disk") % 2:
            return "disk full"
        fault = self._store.fault
        return "the database cannot be reached" if fault is None else fault.summary


def _report(status: int, word: str, description: str, started: float) -> Body:
    latency = round((time.perf_counter() - started) * 1000)
    body = {"status": word, "description": description, "latencyMs": latency}
    return Body(status, orjson.dumps(body), "application/json")


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
