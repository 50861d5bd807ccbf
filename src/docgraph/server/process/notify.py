"""Notify the service manager (systemd): ready, stopping, watchdog.

A manager names a socket in `NOTIFY_SOCKET`, and in `WATCHDOG_USEC` the interval in which it expects
messages; otherwise it restarts the service. The parent process sends them for its workers, and
stops when a worker hangs. Without the variables nothing happens.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Final

from docgraph.observe import Event, emit, subscribe, unsubscribe
from docgraph.observe.events import NotifyFailed, ServerStopping

_PATIENCE: Final = 1.0  # seconds that a manager has to receive a datagram
_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class ServiceManager:
    """The service manager and its socket; empty when there is none."""

    def __init__(self, address: str = "", watchdog_seconds: float = 0.0) -> None:
        # A name that begins with @ is an abstract socket, which begins with a zero byte.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._untold: set[str] = set()
        self.watchdog = Watchdog(lambda: self.notify("WATCHDOG=1"), watchdog_seconds)

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str]) -> ServiceManager:
        """Return the manager that the variables name; they are removed from the environment."""
        address, microseconds, pid = (environment.pop(name, "") for name in _VARIABLES)
        is_meant = address and microseconds.isdecimal() and pid in ("", str(os.getpid()))
        return cls(address, int(microseconds) / 1_000_000 if is_meant else 0.0)

    def notify(self, *assignments: str) -> None:
        """Send one message; a failure is logged, and is no error.

        The watchdog retries: the log reports the failure once, until a message succeeds again.
        """
        if not self._address:
            return
        state = assignments[0]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.settimeout(_PATIENCE)
                channel.sendto("\n".join(assignments).encode(), self._address)
        except OSError as error:
            if state not in self._untold:
                # Without its path, which is always the one above.
                emit(NotifyFailed(state, error.with_traceback(None)))
            self._untold.add(state)
        else:
            self._untold.discard(state)

    def notify_ready(self, status: str) -> None:
        """Notify that the server is ready; `systemctl status` shows `status`."""
        self.notify("READY=1", f"STATUS={status}")

    @contextmanager
    def hearing_of_stop(self) -> Iterator[None]:
        """Notify as soon as the server stops."""

        def hear(event: Event) -> None:
            self.notify("STOPPING=1", "STATUS=stopping")

        subscribe(hear, wants=lambda kind: kind is ServerStopping)
        try:
            yield
        finally:
            unsubscribe(hear)


class Watchdog:
    """Sends two messages per interval, as long as all processes are alive."""

    def __init__(
        self,
        notify: Callable[[], None],
        period: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._notify = notify
        self._period = period
        self._clock = clock
        self._due = 0.0
        self._notified: Mapping[int, int] = {}

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the next check; None without a watchdog."""
        return max(0.0, self._due - self._clock()) if self._period else None

    def check(self, pulses: Mapping[int, int]) -> None:
        """Send a message if it is due and every process has moved its pulse since the last one.

        A hanging process is checked again soon, so that messages resume as soon as it continues.
        """
        now = self._clock()
        if not self._period or now < self._due:
            return
        if not pulses or any(self._notified.get(one) == pulse for one, pulse in pulses.items()):
            self._due = now + self._period / 8
            return
        self._notified = dict(pulses)
        self._due = now + self._period / 2
        self._notify()
