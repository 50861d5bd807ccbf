"""A service that takes every path: what the tests of the server's low level talk to.

The real `docgraph serve` loads it as a plugin. It also writes every event to stderr, those that
the log leaves out, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from docgraph import Account, Answer, Body, Exchange, Service, StartupError, Stream, Upgrade
from docgraph.exchange import Socket
from docgraph.exchange.errors import NotFound
from docgraph.observe import Event, subscribe
from docgraph.runtime import Instance


class Sample(Service):
    """One path segment, one behaviour."""

    name: ClassVar[str] = "sample"
    description: ClassVar[str] = "behaves in many ways"
    uri: ClassVar[str] = "/"
    secured: ClassVar[bool] = False
    methods: ClassVar[tuple[str, ...]] = ("GET", "POST", "PUT", "PATCH", "DELETE")

    def __init__(self, config: Any, instance: Instance) -> None:
        self._worker = instance.worker

    async def provision(self) -> None:
        if os.environ.get("SAMPLE_FAILS"):
            raise StartupError("the sample cannot start", hint="unset SAMPLE_FAILS")

    async def close(self) -> None:
        sys.stderr.write("sample shut down\n")  # at once: other workers write there, too
        sys.stderr.flush()

    async def handle(self, exchange: Exchange) -> Answer:
        request = exchange.request
        name = request.segments[0] if request.segments else ""
        handler = getattr(self, f"on_{name}", None)
        if handler is None:
            raise NotFound(f"no {name}")
        answer: Answer = await handler(exchange)
        return answer

    async def on_ping(self, exchange: Exchange) -> Answer:
        return _json({"worker": self._worker, "pid": os.getpid()})

    async def on_modules(self, exchange: Exchange) -> Answer:
        return _json({"pid": os.getpid(), "modules": sorted(sys.modules)})

    async def on_echo(self, exchange: Exchange) -> Answer:
        return Body(200, await exchange.request.read_body(), "application/octet-stream")

    async def on_head(self, exchange: Exchange) -> Answer:
        return _json(dict(exchange.request.headers))

    async def on_number(self, exchange: Exchange) -> Answer:
        return _json(exchange.request.query.get("n"))

    async def on_ignore(self, exchange: Exchange) -> Answer:
        return _json("the body was not read")

    async def on_whoami(self, exchange: Exchange) -> Answer:
        connection = exchange.request.connection
        return _json({"client": connection.client, "scheme": connection.scheme})

    async def on_account(self, exchange: Exchange) -> Answer:
        exchange.account = Account("ada")
        return _json("secret")

    async def on_hold(self, exchange: Exchange) -> Answer:
        """Answer when a file exists that the test makes; without a name, never."""
        until = exchange.request.query.get("until")
        while until is None or not os.path.exists(until):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return _json("released")

    async def on_big(self, exchange: Exchange) -> Answer:
        size = int(exchange.request.query.get("size") or 0)
        return Body(200, b"0123456789abcdef" * (size // 16), "text/plain")

    async def on_random(self, exchange: Exchange) -> Answer:
        return Body(200, os.urandom(1 << 20), "application/octet-stream")

    async def on_stream(self, exchange: Exchange) -> Answer:
        async def chunks() -> AsyncIterator[bytes]:
            for number in range(3):
                yield b"chunk %d\n" % number

        return Stream(chunks(), media_type="text/plain")

    async def on_events(self, exchange: Exchange) -> Answer:
        async def chunks() -> AsyncIterator[bytes]:
            while True:
                yield b"data: tick\n\n"
                await asyncio.sleep(0.1)

        return Stream(chunks(), media_type="text/event-stream")

    async def on_broken(self, exchange: Exchange) -> Answer:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"begin"
            raise ValueError("broken")

        return Stream(chunks(), media_type="text/event-stream")

    async def on_split(self, exchange: Exchange) -> Answer:
        return Body(200, headers=[("X-Evil", "a\r\nSet-Cookie: b")])

    async def on_ws(self, exchange: Exchange) -> Answer:
        async def echo(socket: Socket) -> None:
            while (message := await socket.receive()) is not None:
                await socket.send(str(message))

        return Upgrade(echo)


def _json(value: object) -> Body:
    return Body(200, json.dumps(value).encode(), "application/json")


def _log(event: Event) -> None:
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    line = json.dumps({"event": event.name, **fields}, default=repr) + "\n"
    os.write(sys.stderr.fileno(), line.encode())  # at once, so that lines of workers do not mix


if not hasattr(sys, "_sample_events"):  # a configuration is prepared more than once
    sys._sample_events = True  # type: ignore[attr-defined]
    subscribe(_log)
