"""Callers that cost little: one process of raw sockets, with a clock that is not their own.

    python -m tests.drills.burst PORT CALLERS SECONDS PAUSE < requests, as a list in JSON

Hundreds of callers on the machine of the server would measure how late they are themselves. These
do next to nothing per request, and count until the kernel had the last bytes of the answer (Linux
tells when that was), however much later they come to read it. How late that is, is told, too.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import select
import socket
import struct
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from tests.drills.clients import Seen

__all__ = ["Burst", "burst"]

_LAST_RECEIVED = 8 + 11 * 4  # where `tcp_info` has the milliseconds since the last bytes came
_PATIENCE = 30.0  # seconds for the answers that are still due at the end


@dataclass(frozen=True)
class Burst:
    """What the callers saw, and what they cost."""

    seen: Seen
    lateness: float  # seconds, 99 of 100: from the arrival of an answer to its reading
    cpu: float  # seconds
    seconds: float  # from the first request to the last answer

    def describe(self) -> str:
        late = f"callers late by up to {self.lateness * 1000:.0f} ms, {self.cpu:.1f} s of CPU"
        return f"{self.seen.describe()}; {late}"


async def burst(
    port: int,
    callers: int,
    seconds: float,
    *,
    request: bytes | list[bytes],
    pause: float = 0.0,
) -> Burst:
    """What so many callers see; of several requests, each caller has one."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.drills.burst"),
        *map(str, (port, callers, seconds, pause)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    requests = [request] if isinstance(request, bytes) else request
    texts = [one.decode("latin-1") for one in requests]
    told, _ = await process.communicate(json.dumps(texts).encode())
    assert process.returncode == 0
    content: dict[str, Any] = json.loads(told)
    seen = Seen(refused=content["times"].get("503", []))
    for status, times in content["times"].items():
        seen.answers[status] = len(times)
        seen.times += times
    return Burst(seen, content["lateness"], content["cpu"], content["seconds"])


class _Caller:
    """One of them: its connection, and the request that is not answered yet."""

    __slots__ = ("_request", "answer", "sent", "socket")

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.socket: socket.socket | None = None
        self.answer = b""
        self.sent = 0.0

    def ask(self, port: int, poll: select.epoll) -> int:
        """Send, on a new connection if there is none; returns the descriptor."""
        self.sent = time.monotonic()
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", port))
            poll.register(self.socket, select.EPOLLIN)
        self.socket.sendall(self._request)
        return self.socket.fileno()

    def read(self) -> tuple[str, float] | None:
        """The status and when it came, if the answer is whole."""
        assert self.socket is not None
        try:
            data = self.socket.recv(1 << 20)
        except OSError as error:
            return self._end(type(error).__name__)
        if not data:
            return self._end("ended")
        self.answer += data
        head, separator, content = self.answer.partition(b"\r\n\r\n")
        if not separator:
            return None
        lines = head.lower()
        length = int(lines.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        if len(content) < length:
            return None
        status, moment = lines[9:12].decode(), time.monotonic() - _since_arrival(self.socket)
        if status == "200" and b'"errors":[{' in content:
            status = "200 with errors"
        self.answer = b""
        if b"connection: close" in lines:
            self._close()
        return status, moment

    def _end(self, reason: str) -> tuple[str, float]:
        self._close()
        return reason, time.monotonic()

    def _close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        self.answer = b""


def _since_arrival(client: socket.socket) -> float:
    """Seconds since the kernel has the last bytes, give or take a few milliseconds."""
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_RECEIVED + 4)
    milliseconds: int = struct.unpack_from("I", info, _LAST_RECEIVED)[0]
    return milliseconds / 1000


def _run(
    port: int, callers: int, seconds: float, pause: float, requests: list[str]
) -> dict[str, Any]:
    begun = time.monotonic()
    poll, until = select.epoll(), begun + seconds
    times: dict[str, list[float]] = defaultdict(list)
    lateness: list[float] = []
    order = itertools.count()  # callers that are due at the same moment
    every = itertools.cycle([one.encode("latin-1") for one in requests])
    due = [(time.monotonic(), next(order), _Caller(next(every))) for _ in range(callers)]
    asking: dict[int, _Caller] = {}
    while (due or asking) and time.monotonic() < until + _PATIENCE:
        while due and due[0][0] <= time.monotonic():
            _, _, caller = heapq.heappop(due)
            asking[caller.ask(port, poll)] = caller
        wait = max(0.0, due[0][0] - time.monotonic()) if due else 1.0
        for descriptor, _ in poll.poll(wait):
            known = asking.get(descriptor)
            answered = known.read() if known else None
            if known is None or answered is None:
                continue
            status, moment = answered
            now = time.monotonic()
            del asking[descriptor]
            times[status].append(max(0.0, moment - known.sent))
            lateness.append(now - moment)
            if now + pause < until:
                heapq.heappush(due, (now + pause, next(order), known))
    times["unanswered"] += [time.monotonic() - one.sent for one in asking.values()]
    return {
        "times": {status: found for status, found in times.items() if found},
        "lateness": sorted(lateness or [0.0])[int(len(lateness) * 0.99)],
        "cpu": time.process_time(),
        "seconds": time.monotonic() - begun,
    }


if __name__ == "__main__":
    port, callers, seconds, pause = sys.argv[1:]
    json.dump(
        _run(int(port), int(callers), float(seconds), float(pause), json.load(sys.stdin)),
        sys.stdout,
    )
