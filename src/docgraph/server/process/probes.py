"""Probe listener: health checks that a thread of the parent process answers (decision 54).

It serves `GET` and `HEAD` of three paths, one request per connection, without the event loop of a
worker. Everything that a client can send is bounded: the head in size and time, the connections in
number. When there are too many of them, or too few descriptors, the oldest one is closed.
"""

from __future__ import annotations

import asyncio
import errno
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from docgraph.exchange import Connection
from docgraph.server.host_gate import Misdirected
from docgraph.store.driver.client import BlockingPing
from docgraph.store.driver.connection_status import ELECTING

CheckHost = Callable[[str | None, Connection], None]  # raises `Misdirected`

_TURNS_WITHIN: Final = 30.0  # seconds; an instance without a turn of any event loop hangs
_ACCEPTS_WITHIN: Final = 10.0  # seconds; a worker without a turn accepts no connection
_GAP: Final = 5.0  # seconds without a check of ours: the whole machine may have been suspended
_INTERVAL: Final = 1.0  # seconds between two pings …
_SOON: Final = 0.1  # … and until the next one after a failure or during an election


class Health(NamedTuple):
    """The result of a check, as a response shows it."""

    status: int
    description: str
    latency_ms: int | None = None
    state: str = ""


class DatabaseCheck:
    """Pings once a second in a thread, more often if something is wrong; `close` after use."""

    def __init__(self, ping: BlockingPing, timeout: float) -> None:
        self._ping = ping
        self._timeout = timeout
        self._result: tuple[float, Health] | None = None
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="database-check", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._is_closed.set()
        self._ping.close()
        self._thread.join(self._timeout + _INTERVAL)

    def read(self) -> Health:
        """Return the last result; 503 before the first one, 504 if the check itself hangs."""
        if self._result is None:
            return Health(503, "the database was not checked yet")
        since, health = self._result
        if time.monotonic() - since > self._timeout + 3 * _INTERVAL:
            return Health(504, "no answer in time")
        return health

    def _run(self) -> None:
        while not self._is_closed.is_set():
            health = self._check()
            self._result = (time.monotonic(), health)
            is_well = health.status == _OK and not health.state
            self._is_closed.wait(_INTERVAL if is_well else _SOON)

    def _check(self) -> Health:
        started, state = time.monotonic(), ""
        try:
            status, description = _OK, "ping successful"
            if self._ping.ping():
                description, state = ELECTING, "electing"
        except TimeoutError as error:
            status, description = 504, str(error)
        except ConnectionError as error:
            status, description = 503, str(error)
        return Health(status, description, round((time.monotonic() - started) * 1000), state)


class HealthState:
    """Liveness and readiness; `check` is called at least once a second.

    It is the health of an instance as its parent process sees it: the loops of the workers, the
    database. Nothing here waits for a worker. Workers move a number in shared memory as long as
    their event loops turn; a thread of the parent pings the database once a second with a client of
    its own.
    """

    def __init__(
        self,
        pulses: memoryview,
        database: Callable[[], Health],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pulses = pulses
        self._database = database
        self._clock = clock
        self._checked = clock()
        self._known = list(pulses)
        self._turned: dict[int, float] = {}  # by the number of the worker
        self.ready: Collection[int] = ()  # the numbers of the workers that have reported it
        self.is_stopping = False

    def check(self) -> None:
        """Record which event loops have turned since the last call."""
        now = self._clock()
        if now - self._checked > _GAP:  # they had no chance to turn either
            self._turned = dict.fromkeys(self._turned, now)
        self._checked = now
        for place, pulse in enumerate(self._pulses):
            if pulse != self._known[place]:
                self._known[place], self._turned[place + 1] = pulse, now
        for number in self.ready:
            self._turned.setdefault(number, now)

    def read_liveness(self) -> Health:
        self.check()
        if not self._turned:
            return Health(503, "no worker has started yet")
        if self._clock() - max(self._turned.values()) > _TURNS_WITHIN:
            return Health(503, f"no event loop has turned for {_TURNS_WITHIN:.0f} s")
        return Health(200, "a worker is alive")

    def read_readiness(self) -> Health:
        """Return whether the database answers, and a worker accepts connections."""
        self.check()
        if self.is_stopping:
            return Health(503, "stopping")
        since = self._clock() - _ACCEPTS_WITHIN
        if not any(self._turned.get(number, since) > since for number in self.ready):
            return Health(503, "no worker accepts connections")
        return self._database()


_MAX_HEAD: Final = 8192  # bytes
_MAX_CONNECTIONS: Final = 64
_SECONDS: Final = 5.0  # that a connection has for everything
_PAUSE: Final = 0.05  # seconds until the next try after an error
_TICK: Final = 0.25  # seconds between two checks of the workers
_END: Final = b"\r\n\r\n"
_OK, _NOT_ALLOWED, _UNAVAILABLE = 200, 405, 503
_LENGTH: Final = b"content-length"
_LINE: Final = re.compile(rb"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.([01])")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ -~\t\x80-\xff]*)")


class _Rejected(Exception):
    """A request without a result: its status, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.health = Health(status, reason)


class _Request(NamedTuple):
    """The path of a request, whether its response has a content, and its header Host."""

    path: str
    has_content: bool
    host: str | None


def parse_request(head: bytes) -> _Request:
    """Parse the head of a request, without the empty line at its end; strictly, without a body."""
    line, *lines = head.split(b"\r\n")
    matched = _LINE.fullmatch(line)
    fields = [_FIELD.fullmatch(field_line) for field_line in lines]
    if matched is None or None in fields:
        raise _Rejected(400, "this is not a request of HTTP/1.1")
    names = [field[1].lower() for field in fields if field is not None]
    lengths = [field[2].strip() for field in fields if field and field[1].lower() == _LENGTH]
    hosts = [
        field[2].decode("latin-1") for field in fields if field and field[1].lower() == b"host"
    ]
    if len(hosts) != 1 and not (matched[3] == b"0" and not hosts):
        raise _Rejected(400, "a request has one header Host")
    method, target = matched[1].decode(), matched[2].decode()
    if method not in ("GET", "HEAD"):
        raise _Rejected(_NOT_ALLOWED, "only GET and HEAD are allowed")
    if b"transfer-encoding" in names or any(length != b"0" for length in lengths):
        raise _Rejected(400, "requests with a body are not accepted")
    return _Request(target.partition("?")[0], method != "HEAD", *(hosts or [None]))


class ProbeServer:
    """Answers health checks until `close`, on an event loop in a thread of its own."""

    def __init__(
        self,
        listener: socket.socket,
        state: HealthState,
        render_metrics: Callable[[], bytes] | None = None,
        metrics_type: str = "",
        check_host: CheckHost = lambda host, peer: None,
    ) -> None:
        self._listener = listener
        self._state = state
        self._render_metrics = render_metrics
        self._metrics_type = metrics_type
        self._check_host = check_host
        self._rendering: asyncio.Future[bytes] | None = None
        self._visitors: dict[asyncio.Task[None], None] = {}  # by connection, the oldest first
        self._loop = asyncio.new_event_loop()
        self._work = self._loop.create_task(self._run())
        self._thread = threading.Thread(target=self._run_loop, name="probes", daemon=True)
        listener.setblocking(False)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and close all connections."""
        self._loop.call_soon_threadsafe(self._work.cancel)
        self._thread.join()
        self._listener.close()

    def _run_loop(self) -> None:
        with closing(self._loop), suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._work)

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._accept())
                group.create_task(self._check())
        finally:
            while self._visitors:
                await self._drop_oldest()

    async def _check(self) -> None:
        while True:
            self._state.check()
            await asyncio.sleep(_TICK)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, client = await loop.sock_accept(self._listener)
                peer = Connection(client[:2], connection.getsockname()[:2])
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE) and self._visitors:
                    await self._drop_oldest()
                else:  # it is gone again, or others have all descriptors
                    await asyncio.sleep(_PAUSE)
                continue
            if len(self._visitors) >= _MAX_CONNECTIONS:
                await self._drop_oldest()
            visitor = loop.create_task(self._serve(connection, peer))
            self._visitors[visitor] = None
            visitor.add_done_callback(lambda visitor: self._visitors.pop(visitor, None))

    async def _drop_oldest(self) -> None:
        visitor = next(iter(self._visitors))
        del self._visitors[visitor]
        visitor.cancel()
        await asyncio.wait([visitor])

    async def _serve(self, connection: socket.socket, peer: Connection) -> None:
        loop = asyncio.get_running_loop()
        with closing(connection), suppress(OSError):  # the client is gone, or too slow
            async with asyncio.timeout(_SECONDS):
                received = b""
                while _END not in received and len(received) <= _MAX_HEAD:
                    data = await loop.sock_recv(connection, _MAX_HEAD)
                    if not data:
                        return
                    received += data
                await loop.sock_sendall(connection, await self._answer(received, peer))
                # Closing while the client still sends would discard the response.
                connection.shutdown(socket.SHUT_WR)
                while await loop.sock_recv(connection, _MAX_HEAD):
                    pass

    async def _answer(self, received: bytes, peer: Connection) -> bytes:
        head, end, _ = received.partition(_END)
        has_content = True
        try:
            if not end or len(head) > _MAX_HEAD:
                raise _Rejected(431, f"the head has more than {_MAX_HEAD} bytes")
            request = parse_request(head)
            has_content = request.has_content
            self._check_host(request.host, peer)
            if request.path == "/metrics" and self._render_metrics is not None:
                text = await self._find_metrics(self._render_metrics)
                status = _OK if text else _UNAVAILABLE
                return _render_response(status, self._metrics_type, text, has_content)
            if request.path == "/ping":
                health = self._state.read_liveness()
            elif request.path == "/health/db":
                health = self._state.read_readiness()
            else:
                raise _Rejected(404, "there is nothing at this path")
        except _Rejected as rejected:
            health = rejected.health
        except Misdirected as error:
            health = Health(error.status, error.message)
        return _render_response(health.status, "application/json", _render(health), has_content)

    async def _find_metrics(self, render: Callable[[], bytes]) -> bytes:
        """Return the metrics, which a thread renders once for all who wait; none if that fails."""
        loop = asyncio.get_running_loop()
        if self._rendering is None or self._rendering.done():
            self._rendering = loop.run_in_executor(None, render)
        try:
            return await asyncio.shield(self._rendering)
        except Exception as error:
            loop.call_exception_handler({"message": "metrics cannot be read", "exception": error})
            return b""


def _render_response(status: int, media_type: str, content: bytes, has_content: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(content)}",
        "Cache-Control: no-store",
        "Connection: close",
        *(["Allow: GET, HEAD"] if status == _NOT_ALLOWED else ()),
    ]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode()
    return head + content if has_content else head


def _render(health: Health) -> bytes:
    is_fine = health.status == _OK
    body: dict[str, Any] = {
        "status": "ok" if is_fine else "error",
        "description": health.description,
    }
    if health.state:
        body["state"] = health.state
    if health.latency_ms is not None:
        body["latencyMs"] = health.latency_ms
    return json.dumps(body).encode()
