"""Hundreds of listeners to one change stream that cost little: one process of raw sockets.

    python -m tests.drills.listeners PORT PATH LISTENERS EVENTS SECONDS

It says `ready` when all are connected, and tells what they got at the end. All of them get the same
bytes, besides pings, so that only those which come first are read; the others are compared.
"""

from __future__ import annotations

import base64
import json
import os
import select
import socket
import sys
import time
from typing import Any

_PATIENCE = 60.0
_TEXT = 0x81
_PING, _PONG = b"\x89\0", b"\x8a\x80\0\0\0\0"  # neither byte of a ping is one of an event


class _Story:
    """The bytes that everybody gets, as far as somebody has got them."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.ends: list[int] = []  # of each event
        self.written: list[float] = []  # when its document was
        self.numbers: list[int] = []
        self._read = 0

    def add(self, data: bytes) -> None:
        self.content += data
        while (frame := self._cut()) is not None:
            event = json.loads(frame)["fullDocument"]
            self.numbers.append(event["_id"])
            self.written.append(event["at"])
            self.ends.append(self._read)

    def _cut(self) -> bytes | None:
        content, begin = self.content, self._read
        if len(content) < begin + 4:
            return None
        assert content[begin] == _TEXT, f"no event: {bytes(content[begin : begin + 80])!r}"
        begin, size = begin + 2, content[begin + 1]
        if size == 126:
            begin, size = begin + 2, int.from_bytes(content[begin : begin + 2], "big")
        assert size < 127 or begin > self._read + 2, "an event is not that long"
        if len(content) < begin + size:
            return None
        self._read = begin + size
        return bytes(content[begin : self._read])


class _Listener:
    """How far one of them is."""

    def __init__(self, port: int, path: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.has_opened = False
        self.offset = self.count = 0
        self.is_odd = False  # what it got differs from what others got
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            "Host: localhost",
            "Upgrade: websocket",
            "Connection: Upgrade",
        ]
        lines += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())

    def read(self, story: _Story, delays: list[float]) -> None:
        data, now = self.socket.recv(1 << 20), time.monotonic()
        if not self.has_opened:
            head, _, data = data.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101"), head
            self.has_opened = True
        if _PING in data:
            self.socket.sendall(_PONG)
            data = data.replace(_PING, b"")
        begin, end = self.offset, self.offset + len(data)
        known = len(story.content) - begin
        self.is_odd |= story.content[begin:end] != data[:known]
        if len(data) > known:
            story.add(data[known:])
        self.offset = end
        while self.count < len(story.ends) and story.ends[self.count] <= end:
            delays.append(now - story.written[self.count])
            self.count += 1


def _run(port: int, path: str, count: int, events: int, seconds: float) -> dict[str, Any]:
    story, delays, poll = _Story(), list[float](), select.epoll()
    listeners: dict[int, _Listener] = {}
    for _ in range(count):
        one = _Listener(port, path)
        listeners[one.socket.fileno()] = one
        poll.register(one.socket, select.EPOLLIN)

    def hear() -> None:
        for descriptor, _ in poll.poll(0.1):
            listeners[descriptor].read(story, delays)

    until = time.monotonic() + _PATIENCE
    while not all(one.has_opened for one in listeners.values()):
        assert time.monotonic() < until, "not all are connected in time"
        hear()
    print("ready", flush=True)
    until = time.monotonic() + seconds + _PATIENCE
    while len(delays) < count * events and time.monotonic() < until:
        hear()
    ordered = sorted(delays) or [0.0]
    return {
        "delivered": len(delays),
        "odd": sum(one.is_odd for one in listeners.values()),
        "is_in_order": story.numbers == list(range(len(story.numbers))),
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[int(len(ordered) * 0.99)],
        "cpu": time.process_time(),
    }


if __name__ == "__main__":
    port, path, count, events, seconds = sys.argv[1:]
    json.dump(_run(int(port), path, int(count), int(events), float(seconds)), sys.stdout)
