"""A pool of threads that never holds up the end of the process.

The pool of `concurrent.futures` waits at exit for whatever still runs: one plugin that hangs would
keep a stopped server alive. These are daemon threads, started when needed and kept for reuse.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from docgraph.exchange.errors import Overloaded

__all__ = ["ThreadPool"]

Job = Callable[[], None]


class ThreadPool:
    """At most `limit` threads; more jobs wait their turn. Jobs must not raise."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0
        self._closed = False

    @property
    def size(self) -> int:
        """How many threads there are."""
        return self._threads

    def submit(self, job: Job) -> None:
        """Run the job in a thread, as soon as one is free."""
        with self._lock:
            if self._closed:
                raise Overloaded("the server is stopping")
            self._unfinished += 1
            if self._threads < min(self._unfinished, self._limit):
                self._threads += 1
                number = self._threads
                threading.Thread(
                    target=self._run, name=f"{self._name}-{number}", daemon=True
                ).start()
        self._jobs.put(job)

    def close(self) -> None:
        """Take no more jobs; threads end when those that were taken are done."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            threads = self._threads
        for _ in range(threads):
            self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            finally:
                del job  # or an idle thread would keep alive what its last job was about
                with self._lock:
                    self._unfinished -= 1
