"""Probe listener: health checks that a thread of the parent process answers (decision 54).

It serves `GET` and `HEAD` of three paths, one request per connection, without the event loop of a
worker. Everything that a client can send is bounded: the head in size and time, the connections in
number. When there are too many of them, or too few descriptors, the oldest one is closed.
"""

from __future__ import annotations

import errno
import json
import re
import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
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
        """Return whether any event loop turns."""
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


class _Visitor:
    """One connection."""

    __slots__ = ("deadline", "output", "peer", "received", "request", "socket")

    def __init__(self, connection: socket.socket, peer: Connection, deadline: float) -> None:
        self.socket = connection
        self.peer = peer
        self.deadline = deadline
        self.received = b""
        self.request: _Request | None = None
        self.output: memoryview | None = None  # what remains of the response

    def fileno(self) -> int:
        return self.socket.fileno()


class ProbeServer:
    """Answers health checks in a thread until `close`."""

    def __init__(
        self,
        listener: socket.socket,
        state: HealthState,
        render_metrics: Callable[[], bytes] | None = None,
        metrics_type: str = "",
        check_host: CheckHost = lambda host, peer: None,
    ) -> None:
        self.state = state
        self._listener = listener
        self._render_metrics = render_metrics
        self._metrics_type = metrics_type
        self._check_host = check_host
        self._metrics: bytes | None = None
        self._awaiting: list[_Visitor] = []  # metrics, which another thread renders
        self._visitors: dict[_Visitor, None] = {}  # the oldest first
        self._selector = selectors.DefaultSelector()
        self._wake_r, self._wake_w = socket.socketpair()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)
        for source in (listener, self._wake_r, self._wake_w):
            source.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._wake_r, selectors.EVENT_READ)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and close all connections."""
        self._is_closed = True
        self._wake()
        self._thread.join()
        for visitor in tuple(self._visitors):
            self._drop(visitor)
        self._selector.close()
        for source in (self._listener, self._wake_r, self._wake_w):
            source.close()

    def _run(self) -> None:
        while not self._is_closed:
            for key, _ in self._selector.select(_TICK):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._wake_r:
                    self._wake_r.recv(64)
                    self._send_metrics()
                elif key.data in self._visitors:
                    self._advance(key.data)
            self.state.check()
            now = time.monotonic()
            for visitor in [visitor for visitor in self._visitors if visitor.deadline <= now]:
                self._drop(visitor)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # it wakes up already
            self._wake_w.send(b"\0")

    def _accept(self) -> None:
        for _ in range(_MAX_CONNECTIONS):
            try:
                connection, client = self._listener.accept()
                peer = Connection(client[:2], connection.getsockname()[:2])
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE) and self._visitors:
                    self._drop(next(iter(self._visitors)))
                    continue
                time.sleep(_PAUSE)  # it is gone again, or others have all descriptors
                return
            connection.setblocking(False)
            if len(self._visitors) >= _MAX_CONNECTIONS:
                self._drop(next(iter(self._visitors)))
            visitor = _Visitor(connection, peer, time.monotonic() + _SECONDS)
            self._visitors[visitor] = None
            self._selector.register(visitor, selectors.EVENT_READ, visitor)

    def _drop(self, visitor: _Visitor) -> None:
        del self._visitors[visitor]
        self._selector.unregister(visitor)
        visitor.socket.close()

    def _advance(self, visitor: _Visitor) -> None:
        """Read or write what is possible now."""
        try:
            if visitor.output:
                self._write(visitor)
            elif self._read(visitor):
                self._answer(visitor)
        except BlockingIOError:
            pass  # it was not ready after all
        except OSError:  # the client is gone
            self._drop(visitor)

    def _read(self, visitor: _Visitor) -> bool:
        """Read more; return whether the head is complete or too large."""
        data = visitor.socket.recv(_MAX_HEAD)
        if not data:
            self._drop(visitor)
            return False
        if visitor.request is not None or visitor.output is not None:
            return False  # it is answered; what follows is discarded
        visitor.received += data
        return _END in visitor.received or len(visitor.received) > _MAX_HEAD

    def _write(self, visitor: _Visitor) -> None:
        assert visitor.output is not None  # noqa: S101 - the caller has checked it
        visitor.output = visitor.output[visitor.socket.send(visitor.output) :]
        if not visitor.output:
            # Closing while the client still sends would discard the response.
            visitor.socket.shutdown(socket.SHUT_WR)
            self._selector.modify(visitor, selectors.EVENT_READ, visitor)

    def _answer(self, visitor: _Visitor) -> None:
        head, end, _ = visitor.received.partition(_END)
        try:
            if not end or len(head) > _MAX_HEAD:
                raise _Rejected(431, f"the head has more than {_MAX_HEAD} bytes")
            visitor.request = parse_request(head)
            self._check_host(visitor.request.host, visitor.peer)
            path = visitor.request.path
            if path == "/ping":
                health = self.state.read_liveness()
            elif path == "/health/db":
                health = self.state.read_readiness()
            elif path == "/metrics" and self._render_metrics is not None:
                health = None
            else:
                raise _Rejected(404, "there is nothing at this path")
        except _Rejected as rejected:
            health = rejected.health
        except Misdirected as error:
            health = Health(error.status, error.message)
        if health is None:
            self._awaiting.append(visitor)
            if len(self._awaiting) == 1:
                threading.Thread(target=self._collect_metrics, daemon=True).start()
            return
        self._send(visitor, health.status, "application/json", _render(health))

    def _collect_metrics(self) -> None:
        assert self._render_metrics is not None  # noqa: S101 - else there is no such path
        content = b""  # in case of an error, which the thread reports
        try:
            content = self._render_metrics()
        finally:
            self._metrics = content
            self._wake()

    def _send_metrics(self) -> None:
        if self._awaiting and self._metrics is not None:
            awaiting, self._awaiting = self._awaiting, []
            content, self._metrics = self._metrics, None
            for visitor in awaiting:
                if visitor in self._visitors:
                    status = _OK if content else _UNAVAILABLE
                    self._send(visitor, status, self._metrics_type, content)

    def _send(self, visitor: _Visitor, status: int, media_type: str, content: bytes) -> None:
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"Content-Type: {media_type}",
            f"Content-Length: {len(content)}",
            "Cache-Control: no-store",
            "Connection: close",
            *(["Allow: GET, HEAD"] if status == _NOT_ALLOWED else ()),
        ]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode()
        is_bodiless = visitor.request is not None and not visitor.request.has_content
        visitor.output = memoryview(head if is_bodiless else head + content)
        self._selector.modify(visitor, selectors.EVENT_WRITE, visitor)


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
