"""A test that hangs ends the run: one thread watches all of them.

pytest-timeout starts a thread for each test and waits for its end: for a short test that is a good
part of what it costs, the more so on a busy machine. This one is told when a test begins and ends;
when the time of a test is over, it does what pytest-timeout does. A plugin: `pytest -p
tests.hanging`.
"""

from __future__ import annotations

import faulthandler
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import pytest_timeout

_now = time.monotonic  # as it is before a test replaces it
# A run takes minutes, and several times as long when coverage is measured (`make coverage` sets the
# variable). Whatever hangs is shown, and ends the run.
_LONGEST_RUN_SECONDS = int(os.environ.get("DOCGRAPH_TEST_SECONDS", "2400"))


def bound_run(config: pytest.Config) -> None:
    """No run hangs: at the bound, this process prints its stacks and exits."""
    stream = os.fdopen(os.dup(2), "w")
    config.add_cleanup(stream.close)
    faulthandler.dump_traceback_later(_LONGEST_RUN_SECONDS, exit=True, file=stream)
    config.add_cleanup(faulthandler.cancel_dump_traceback_later)


class _Watch:
    """Calls a function at the end of its time, unless it is forgotten before."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._end = self._looks_at = math.inf
        self._tell: Callable[[], object] | None = None

    def begin(self, seconds: float, tell: Callable[[], object]) -> None:
        """Call that function in so many seconds; it takes the place of the one before."""
        with self._changed:
            self._end, self._tell = _now() + seconds, tell
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
                self._thread.start()
            elif self._end < self._looks_at:
                self._changed.notify()

    def forget(self) -> None:
        """Call nothing. The thread sleeps on: it is woken neither for this nor for most tests."""
        with self._changed:
            self._end, self._tell = math.inf, None

    def _run(self) -> None:
        while True:
            self._await_end()()

    def _await_end(self) -> Callable[[], object]:
        with self._changed:
            while self._tell is None or self._end > _now():
                self._looks_at = self._end
                left = self._end - _now()
                self._changed.wait(None if math.isinf(left) else left)
            tell, self._end, self._tell = self._tell, math.inf, None
            return tell


_watch = _Watch()


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Watch a test, where a thread is to do it."""
    if settings.method != "thread":
        return None
    _watch.begin(settings.timeout, lambda: pytest_timeout.timeout_timer(item, settings))
    return True


def pytest_timeout_cancel_timer() -> None:
    """The test has ended, or somebody debugs it."""
    _watch.forget()
