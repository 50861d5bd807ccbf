"""What a collector answers, and how a message is sent that cannot be: nothing of it harms us."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from docgraph.exchange import StartupError
from docgraph.observe.engine_events import CollectorLost
from docgraph.observe.otel.collector import CollectorSession, CollectorStatus
from docgraph.observe.otel.traces import _build_processor, _Exporter
from tests.http.harness import listening

MEBIBYTE = 1024 * 1024
PATIENCE = 20.0


@dataclass
class Stranger:
    """A collector that answers as a test wants; `answer` returns when it keeps the connection."""

    port: int = 0
    connections: int = 0
    has_said_all: bool = False
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/traces"

    def wait(self) -> None:
        for thread in self.threads:
            thread.join(PATIENCE)


@contextmanager
def listening_stranger(answer: Callable[[socket.socket], None]) -> Iterator[Stranger]:
    stranger = Stranger()

    def talk(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while connection.recv(65536):
                answer(connection)
                stranger.has_said_all = True

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                stranger.connections += 1
                thread = threading.Thread(target=talk, args=(connection,), daemon=True)
                stranger.threads.append(thread)
                thread.start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        stranger.port = listener.getsockname()[1]
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield stranger
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(PATIENCE)


def export(address: str, times: int = 1, **options: object) -> tuple[list[bool], list[str]]:
    """Whether messages were taken, and what is told of one that was not."""
    session = CollectorSession()
    exporter = OTLPSpanExporter(address, session=session, **options)  # type: ignore[call-overload]
    contact = CollectorStatus("traces", address)
    try:
        with listening(CollectorLost) as told:
            sender = _Exporter(exporter, contact)
            taken = [sender.export([]) is SpanExportResult.SUCCESS for _ in range(times)]
        return taken, [event.reason for event in told]
    finally:
        exporter.shutdown()
        contact.close()


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 2\r\n\r\nok",
        b"Content-Length: 0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ],
)
def test_messages_share_a_connection(rest: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + rest)

    with listening_stranger(answer) as stranger:
        assert export(stranger.address, times=3) == ([True] * 3, [])
        stranger.wait()
    assert stranger.connections == 1


def test_a_redirect_is_not_followed_and_told_of() -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")

    with listening_stranger(answer) as stranger:
        taken, reasons = export(stranger.address)
    assert taken == [False]
    assert len(reasons) == 1
    assert "it answers with 302" in reasons[0]


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_an_answer_without_end_is_not_read(coding: str) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {10**12}\r\n\r\n"

    def answer(connection: socket.socket) -> None:
        connection.sendall(head.encode())
        for _ in range(100):
            connection.sendall(bytes(MEBIBYTE))

    with listening_stranger(answer) as stranger:
        assert export(stranger.address) == ([True], [])
        stranger.wait()
    assert not stranger.has_said_all


def test_an_answer_that_comes_drop_by_drop_is_left() -> None:
    is_enough = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n")
        for _ in range(200):
            connection.sendall(b".")
            is_enough.wait(0.05)

    with listening_stranger(answer) as stranger:
        assert export(stranger.address, timeout=0.3) == ([True], [])
        stranger.wait()
    assert not stranger.has_said_all


def test_what_a_collector_says_of_a_refusal_is_cut() -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 400 " + b"No! " * 10_000 + b"\r\nContent-Length: 0\r\n\r\n")

    with listening_stranger(answer) as stranger:
        taken, (reason,) = export(stranger.address)
    assert taken == [False]
    assert len(reason) <= 300


@pytest.mark.parametrize("value", ["Bearer s3cret\n", " s3cret", "s3cret €"])
def test_a_header_that_cannot_be_sent_is_not_shown(value: str) -> None:
    taken, (reason,) = export("http://127.0.0.1:9/", headers={"authorization": value})

    assert taken == [False]
    assert "a header for the collector cannot be sent" in reason
    assert "s3cret" not in reason


@pytest.mark.parametrize(
    "address", ["ftp://me:s3cret@there", "me:s3cret@there:1", "http://[s3cret"]
)
def test_an_address_that_cannot_be_understood_is_not_shown(address: str) -> None:
    taken, (reason,) = export(address)

    assert taken == [False]
    assert "cannot be understood" in reason
    assert "s3cret" not in reason


def test_variables_of_the_queue_that_do_not_fit_stop_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")

    with pytest.raises(StartupError, match="OTEL_BSP_… do not fit together"):
        _build_processor(OTLPSpanExporter())
