"""Thread pool of daemon threads that never delays the end of the process.

The pool of `concurrent.futures` waits at exit for running jobs: one plugin that hangs would keep a
stopped server alive. These threads are daemons. They are started when needed, reused, and ended
after an idle time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from docgraph.exchange.errors import Overloaded

Job = Callable[[], None]
IDLE_SECONDS: Final = 60.0


class ThreadPool:
    """At most `limit` threads; more jobs wait their turn. Jobs must not raise."""

    def __init__(self, name: str, limit: int, idle: float = IDLE_SECONDS) -> None:
        self._names = (f"{name}-{number}" for number in count(1))
        self._limit = limit
        self._idle = idle
        self._jobs: deque[Job] = deque()
        # Not a `SimpleQueue`: its `get` with a timeout may wait forever (Python 3.11).
        self._changed = threading.Condition(threading.Lock())
        self._threads = 0
        self._unfinished = 0
        self._closed = False

    @property
    def size(self) -> int:
        """The number of threads."""
        return self._threads

    def submit(self, job: Job) -> None:
        """Run the job in a thread as soon as one is free."""
        with self._changed:
            if self._closed:
                raise Overloaded("the server is stopping")
            self._unfinished += 1
            self._jobs.append(job)
            if self._threads < min(self._unfinished, self._limit):
                self._start()
            else:
                self._changed.notify()

    def _start(self) -> None:
        """Start a thread; if the system allows no more, the existing ones do the work."""
        try:
            threading.Thread(target=self._run, name=next(self._names), daemon=True).start()
        except RuntimeError:
            if self._threads == 0:
                self._jobs.pop()
                self._unfinished -= 1
                raise Overloaded("no thread can be started") from None
        else:
            self._threads += 1

    def close(self) -> None:
        """Accept no more jobs; threads end after the accepted ones are done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while (job := self._find_job()) is not None:
            try:
                job()
            finally:
                del job  # or an idle thread would keep the objects of its last job alive
                with self._changed:
                    self._unfinished -= 1

    def _find_job(self) -> Job | None:
        """Return the next job; None if this thread is no longer needed."""
        with self._changed:
            while not self._jobs:
                if self._closed or not (self._changed.wait(self._idle) or self._jobs):
                    self._threads -= 1
                    return None
            return self._jobs.popleft()
