"""A small load client: a fixed number of keep-alive connections, one request after the other.

It does as little as it can per request, so that the server is what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import cast

import uvloop


@dataclass(frozen=True)
class Measured:
    """One timed run."""

    requests: int
    errors: int
    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        """Latency in milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


class _Caller(asyncio.Protocol):
    """One connection."""

    def __init__(self, requests: Iterator[bytes], until: float, done: asyncio.Future[None]) -> None:
        self.requests, self.until, self.done = requests, until, done
        self.latencies: list[float] = []
        self.errors = 0
        self.buffer = b""
        self.started = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._send()

    def _send(self) -> None:
        self.started = time.perf_counter()
        self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self.buffer.lower().find(b"content-length: ", 0, head)
        length = int(self.buffer[at + 16 : self.buffer.find(b"\r\n", at)])
        if len(self.buffer) < head + 4 + length:
            return
        now = time.perf_counter()
        if b" 200 " not in self.buffer[:16] or b'"errors":[' in self.buffer:
            self.errors += 1
        self.latencies.append(now - self.started)
        self.buffer = b""
        if now >= self.until:
            self.transport.close()
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def build_request(port: int, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """The bytes of one POST, or of a GET when there is no body."""
    fields = {"Host": f"127.0.0.1:{port}", **headers}
    if body:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    method = "POST" if body else "GET"
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def measure(
    port: int,
    path: str,
    bodies: Sequence[bytes],
    *,
    seconds: float,
    connections: int,
    headers: Mapping[str, str] | None = None,
) -> Measured:
    """Run the load from this process; all connections together send the bodies in turns."""
    requests = cycle([build_request(port, path, body, headers or {}) for body in bodies])
    return uvloop.run(_measure(port, requests, seconds, connections))


async def _measure(
    port: int, requests: Iterator[bytes], seconds: float, connections: int
) -> Measured:
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    callers = []
    for _ in range(connections):
        done: asyncio.Future[None] = loop.create_future()
        _, caller = await loop.create_connection(
            partial(_Caller, requests, started + seconds, done), "127.0.0.1", port
        )
        callers.append(caller)
    await asyncio.gather(*(caller.done for caller in callers))
    latencies = [one for caller in callers for one in caller.latencies]
    return Measured(
        len(latencies),
        sum(caller.errors for caller in callers),
        time.perf_counter() - started,
        latencies,
    )
