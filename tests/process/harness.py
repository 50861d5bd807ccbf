"""Starts the server as a process of its own and talks to it in bytes.

`serve_options` is the one place that knows how a server is started. A `Wire` is a raw connection:
what these tests are about cannot be sent with an HTTP client.
"""

from __future__ import annotations

import json
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, Request

from tests.process import commands
from tests.process.commands import ROOT, Process
from tests.programs import HANGS_SECONDS

T = TypeVar("T")


# What every server of these tests has: the sample instead of the services, and no database.
COMMON: dict[str, Any] = {
    "mclient": {"connection-string": "mongodb://127.0.0.1:9/"},
    "fullAuthorizer": {"enabled": True},
    "logging": {"level": "error", "format": "json"},
    "ping": {"enabled": False},
    "mongo": {"enabled": False},
}
# A machine may stand still for seconds: only a test that is about a limit has a short one.
GENEROUS = {
    "header-timeout-ms": 120_000,
    "body-timeout-ms": 120_000,
    "keep-alive-timeout-ms": 120_000,
    "write-timeout-ms": 120_000,
    "shutdown-timeout-ms": 60_000,
}


def serve_options(settings: dict[str, Any]) -> list[str]:
    """What starts a server with these sections: the real one, with the sample as a plugin."""
    core = {"plugins-directory": str(ROOT / "tests/process/plugins"), **settings.get("core", {})}
    limits = {**GENEROUS, **settings.get("connection-options", {})}
    sections = {**COMMON, **settings, "core": core, "connection-options": limits}
    options = [
        f"--set=/{section}/{option}={json.dumps(value)}"
        for section, options in sections.items()
        for option, value in options.items()
    ]
    return ["serve", *options]


def eventually(check: Callable[[], T], seconds: float = HANGS_SECONDS) -> T:
    """The first true value of `check`; fails when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return value


@dataclass
class Response:
    """A response read from the wire."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def __getitem__(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """A raw connection; with `reconnect`, one whose client obeys `connection: close`."""

    def __init__(
        self, connection: socket.socket, reconnect: Callable[[], socket.socket] | None = None
    ) -> None:
        self.socket = connection
        self._buffer = b""
        self._reconnect = reconnect
        self._must_reconnect = False

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def get(self, path: str, **headers: str) -> Response:
        if self._must_reconnect and self._reconnect:
            self.socket.close()
            self.socket, self._must_reconnect = self._reconnect(), False
        self.send(request("GET", path, **headers))
        response = self.read()
        # A worker with more connections than another may end one after any answer.
        self._must_reconnect = response["connection"] == "close"
        return response

    def read(self, method: str = "GET") -> Response:
        """The next response; EOFError when there is none."""
        head = self._read_until(b"\r\n\r\n").decode("latin-1")
        status_line, *lines = head.split("\r\n")
        fields = [line.split(": ", 1) for line in lines if line]
        response = Response(int(status_line.split()[1]), [(n.lower(), v) for n, v in fields], b"")
        if response.status < 200:
            return self.read(method)
        if response["transfer-encoding"] == "chunked":
            response.body = self._read_chunks()
        elif method != "HEAD":
            response.body = self._read_exactly(int(response["content-length"] or 0))
        return response

    def open_websocket(self, target: str) -> WSConnection:
        """Shake hands; the client's side of the protocol."""
        peer = WSConnection(ConnectionType.CLIENT)
        self.send(peer.send(Request(host="localhost", target=target)))
        assert isinstance(self.read_websocket(peer), AcceptConnection)
        return peer

    def read_websocket(self, peer: WSConnection) -> Event:
        """The next event that the server's bytes make."""
        while True:
            for event in peer.events():
                return event
            peer.receive_data(self.socket.recv(1 << 16) or None)

    def is_closed(self) -> bool:
        """Whether the server closes without another byte."""
        try:
            return not self._buffer and not self.socket.recv(1)
        except ConnectionError:
            return True

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self._read_until(b"\r\n"), 16):
            body += self._read_exactly(size)
            self._read_until(b"\r\n")
        self._read_until(b"\r\n")
        return body

    def _read_until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._fill()
        head, _, self._buffer = self._buffer.partition(mark)
        return head

    def _read_exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._fill()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _fill(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError("the server closed the connection")
        self._buffer += data


def connect_socket(path: Path, timeout: float = 60.0) -> Wire:
    """A connection to the Unix socket at this path."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return Wire(connection)


def request(method: str, path: str, body: bytes | None = None, /, **headers: str) -> bytes:
    """A well-formed request; header names are written with underscores."""
    fields = {"host": "localhost"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    if body is not None:
        fields["content-length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + (body or b"")


@dataclass
class Server:
    """A running server."""

    process: Process
    urls: list[str]
    ready: str = ""  # the line that says that it is
    errors: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.urls[0].rsplit(":", 1)[1])

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the server said about itself so far."""
        return [json.loads(line) for line in list(self.errors) if line.startswith("{")]

    def named(self, name: str) -> list[dict[str, Any]]:
        """The events of that name."""
        return [event for event in self.events if event["event"] == name]

    def connect(self, timeout: float = 60.0) -> Wire:
        def connect() -> socket.socket:
            connection = socket.create_connection(("127.0.0.1", self.port), timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection

        return Wire(connect(), connect)

    def connect_tls(self, context: ssl.SSLContext) -> Wire:
        port = int(self.urls[-1].rsplit(":", 1)[1])

        def connect() -> ssl.SSLSocket:
            plain = socket.create_connection(("127.0.0.1", port), 60)
            return context.wrap_socket(plain, server_hostname="localhost")

        return Wire(connect(), connect)

    def get(self, path: str, **headers: str) -> Response:
        with self.connect() as wire:
            return wire.get(path, **headers)

    def forkers(self) -> list[psutil.Process]:
        """The process that forks the workers, itself a fork of the server, and its spare."""
        server = psutil.Process(self.process.pid)
        return _with_command(server.children(), server.cmdline())

    def forker(self) -> psutil.Process:
        """The one that has forked the workers."""
        return next(one for one in self.forkers() if _children(one))

    def workers(self) -> list[psutil.Process]:
        """The worker processes, or the one process that serves alone."""
        found = [one for forker in self.forkers() for one in _children(forker)]
        return found or [psutil.Process(self.process.pid)]

    def memory(self) -> int:
        """Resident bytes of all serving processes."""
        return sum(one.memory_info().rss for one in self.workers())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(HANGS_SECONDS)


def _children(process: psutil.Process) -> list[psutil.Process]:
    """The children of a process; one that dies in this moment has none."""
    try:
        found: list[psutil.Process] = process.children()
    except psutil.NoSuchProcess:
        return []
    return found


def _with_command(processes: list[psutil.Process], command: list[str]) -> list[psutil.Process]:
    found = []
    for one in processes:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):  # it died a moment ago
            found += [one] if one.cmdline() == command else []
    return found


@contextmanager
def run_server(
    settings: dict[str, Any] | None = None,
    *,
    workers: int = 1,
    limit_files: int | None = None,
    preloaded: bool = True,
    outputs: Sequence[int | None] = (None, None),
    **environment: str,
) -> Iterator[Server]:
    """A server on a free port; killed at the end if it still runs."""
    merged = {"http-listener": {"port": 0}, **(settings or {})}
    merged["core"] = {"workers": workers, **merged.get("core", {})}
    process = start(
        merged, limit_files=limit_files, preloaded=preloaded, outputs=outputs, **environment
    )
    server = Server(process, [])
    reader = threading.Thread(target=_collect, args=(process, server.errors), daemon=True)
    reader.start()
    try:
        line = process.stdout.readline()
        assert line.startswith("docgraph ready "), (line, server.errors)
        server.ready = line
        server.urls = [word for word in line.split() if word.startswith("http")]
        yield server
    finally:
        if process.poll() is None:
            _kill(server)
        process.wait()
        reader.join()
        process.close()


def _kill(server: Server) -> None:
    """The workers first, or they would be missed; it may be stopping by itself meanwhile."""
    with suppress(psutil.NoSuchProcess):
        for one in server.workers():
            with suppress(psutil.NoSuchProcess):
                one.kill()
    server.process.kill()


def start(
    settings: dict[str, Any],
    *,
    limit_files: int | None = None,
    preloaded: bool = True,
    outputs: Sequence[int | None] = (None, None),
    **environment: str,
) -> Process:
    """The bare process."""
    options = serve_options(settings)
    return commands.start(
        *options,
        files=limit_files,
        environment=environment,
        preloaded=preloaded,
        outputs=outputs,
    )


def _collect(process: Process, lines: list[str]) -> None:
    lines.extend(process.stderr)
