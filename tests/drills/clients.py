"""Clients that speak HTTP on connections of their own choosing, and what they see."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Seen", "ask", "call", "get"]


@dataclass
class Seen:
    """What callers of one kind saw."""

    times: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    refused: list[float] = field(default_factory=list)  # how long it took to hear a 503

    def describe(self) -> str:
        ordered = sorted(self.times) or [0.0]
        middle, late = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        answers = ", ".join(f"{count} x {status}" for status, count in self.answers.items())
        return f"p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms ({answers})"

    @property
    def p99(self) -> float:
        return sorted(self.times)[int(len(self.times) * 0.99)]


async def call(
    port: int,
    packets: list[bytes],
    seen: Seen,
    until: float,
    *,
    pause: float = 0.01,
    keep: bool = True,
) -> None:
    """Ask again and again, on one connection or on a new one each time."""
    streams = None
    try:
        while time.monotonic() < until:
            begun = time.monotonic()
            try:
                streams = streams or await asyncio.open_connection("127.0.0.1", port)
                status, closes = await ask(*streams, packets)
            except (OSError, asyncio.IncompleteReadError) as error:
                status, closes = type(error).__name__, True
            seen.times.append(time.monotonic() - begun)
            seen.answers[status] += 1
            if status == "503":
                seen.refused.append(seen.times[-1])
            if streams and (closes or not keep):
                streams[1].close()
                streams = None
            await asyncio.sleep(pause)
    finally:
        if streams:
            streams[1].close()


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, packets: list[bytes]
) -> tuple[str, bool]:
    for packet in packets:
        writer.write(packet)
        await asyncio.sleep(0)  # a packet of its own
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
    content = await reader.readexactly(length)
    status = head.split(" ", 2)[1]
    if status == "200" and b'"errors":[{' in content:
        status = "200 with errors"
    return status, "connection: close" in head


def get(path: str, *headers: str, close: bool = False) -> bytes:
    """A request without a body."""
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: localhost",
        *headers,
        *(["Connection: close"] if close else []),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
