"""Callers that ask a server without end, half of them reading and half of them writing."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.drills.server import DrillServer

__all__ = ["Answered", "Callers", "calling"]


class Answered(NamedTuple):
    """One request: when it was sent, what it was, and what came of it."""

    begun: float
    kind: str
    status: int
    seconds: float
    code: Any


class Callers:
    """What several callers saw."""

    def __init__(self, server: DrillServer, count: int, pause: float) -> None:
        self._server = server
        self._pause = pause
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._call, args=(number,)) for number in range(count)
        ]
        self.seen: list[Answered] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def between(self, start: float, end: float) -> list[Answered]:
        """The requests that were sent in that time."""
        return [one for one in self.seen if start <= one.begun < end]

    def since(self, start: float) -> list[Answered]:
        """The requests that were not answered yet at that moment, and those sent later."""
        return [one for one in self.seen if one.begun + one.seconds >= start]

    def describe(self, start: float) -> str:
        seen = self.since(start)
        answers = Counter(f"{one.kind} {one.status}" for one in seen)
        longest = max(seen, key=lambda one: one.seconds)
        told = f"longest a {longest.kind} of {longest.seconds:.2f} s"
        return f"{told}, sent at {longest.begun - start:.2f} s; {dict(answers)}"

    def _call(self, number: int) -> None:
        while not self._is_over.is_set():
            begun = time.monotonic()
            kind = "read" if number % 2 else "write"
            if kind == "read":
                answer = self._server.ask("GET", "/drill/things?pagesize=5")
            else:
                answer = self._server.ask("POST", "/drill/things", {"n": number})
            code = answer[1].get("code") if isinstance(answer[1], dict) else None
            self.seen.append(Answered(begun, kind, answer[0], answer[2], code))
            time.sleep(self._pause)


@contextmanager
def calling(server: DrillServer, count: int = 4, pause: float = 0.02) -> Iterator[Callers]:
    """So many callers, as long as the block lasts."""
    callers = Callers(server, count, pause)
    callers.start()
    try:
        yield callers
    finally:
        callers.stop()
