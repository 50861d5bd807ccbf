"""A collector that listens on a free port, takes OTLP over HTTP and keeps what it was sent.

It speaks the protocol itself, so that what is tested is what a collector would get: the bytes.
"""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

SERVER, CLIENT = 2, 3  # kinds of spans
ERROR = 2  # the status of a span that failed
REMOTE = 0x200  # among the flags: the parent is in another process


@dataclass(frozen=True)
class Span:
    """A span as it came."""

    trace: str
    id: str
    parent: str
    name: str
    kind: int
    attributes: Mapping[str, Any]
    status: int
    message: str
    state: str
    flags: int
    start: int
    end: int
    resource: Mapping[str, Any] = field(repr=False)


@dataclass
class Collector:
    """What came, in the order in which it came; `status` is what it answers."""

    port: int = 0
    status: int = 200
    spans: list[Span] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, trace: str) -> list[Span]:
        """The spans of a trace, if that of its request is there, which is the last one."""
        found = [one for one in list(self.spans) if one.trace == trace]
        return found if any(one.kind == SERVER for one in found) else []

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        self.headers.append(headers)
        content = gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body
        self.raw.append(content)
        if path == "/v1/traces":
            self.spans += _read_spans(ExportTraceServiceRequest.FromString(content))
            return bytes(ExportTraceServiceResponse().SerializeToString())
        assert path == "/v1/metrics", path
        self.metrics.append(ExportMetricsServiceRequest.FromString(content))
        return bytes(ExportMetricsServiceResponse().SerializeToString())


def _read_spans(message: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in message.resource_spans:
        speaker = read_attributes(resource.resource.attributes)
        for scope in resource.scope_spans:
            for one in scope.spans:
                yield Span(
                    trace=one.trace_id.hex(),
                    id=one.span_id.hex(),
                    parent=one.parent_span_id.hex(),
                    name=one.name,
                    kind=one.kind,
                    attributes=read_attributes(one.attributes),
                    status=one.status.code,
                    message=one.status.message,
                    state=one.trace_state,
                    flags=one.flags,
                    start=one.start_time_unix_nano,
                    end=one.end_time_unix_nano,
                    resource=speaker,
                )


def read_attributes(pairs: Any) -> dict[str, Any]:
    """Attributes as a mapping of plain values."""
    return {one.key: _read_value(one) for one in pairs}


def _read_value(pair: KeyValue) -> Any:
    return getattr(pair.value, str(pair.value.WhichOneof("value")))


@contextmanager
def collecting(port: int = 0) -> Iterator[Collector]:
    """A collector for the time of this block."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = b""
            if collector.status == 200:
                answer = collector.take(self.path, dict(self.headers.items()), body)
            self.send_response(collector.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = False  # those that answer are waited for
        allow_reuse_address = True

        def process_request(self, request: Any, client_address: Any) -> None:
            opened.append(request)
            super().process_request(request, client_address)

    opened: list[Any] = []
    with Server(("127.0.0.1", port), Handler) as server:
        collector.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="collector")
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
            for one in opened:
                _cut(one)


def _cut(connection: Any) -> None:
    """End the connection of a client that keeps it, or the thread that waits for it would stay."""
    with suppress(OSError):  # it was closed before
        connection.shutdown(socket.SHUT_RDWR)
