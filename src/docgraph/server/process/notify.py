"""What the service manager of the machine (systemd) is told: ready, stopping, still alive.

A manager that wants to know names a socket in `NOTIFY_SOCKET`, and in `WATCHDOG_USEC` within what
time it wants to hear from us again and again, or else it starts us anew. The parent process speaks
for its workers: who hangs is not spoken for. Without the variables nothing happens.
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

__all__ = ["ServiceManager", "Watchdog"]

_PATIENCE: Final = 1.0  # seconds that a manager has to take a datagram
_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class ServiceManager:
    """Who has started this process, and where it listens; empty when it does not want to know."""

    def __init__(self, address: str = "", watchdog_seconds: float = 0.0) -> None:
        # A name that begins with @ is of the abstract kind, which begins with a zero byte.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._untold: set[str] = set()
        self.watchdog = Watchdog(lambda: self.tell("WATCHDOG=1"), watchdog_seconds)

    @classmethod
    def take_from(cls, environment: MutableMapping[str, str]) -> ServiceManager:
        """The manager that the variables name; they are removed, for they are not for others."""
        address, microseconds, pid = (environment.pop(name, "") for name in _VARIABLES)
        is_meant = address and microseconds.isdecimal() and pid in ("", str(os.getpid()))
        return cls(address, int(microseconds) / 1_000_000 if is_meant else 0.0)

    def tell(self, *assignments: str) -> None:
        """Send one message; a manager that cannot be told stands in the log, and is no error.

        The watchdog tries on: the log has a state once, until the manager hears of it again.
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
                # Without its way, which is always the one above.
                emit(NotifyFailed(state, error.with_traceback(None)))
            self._untold.add(state)
        else:
            self._untold.discard(state)

    def tell_ready(self, status: str) -> None:
        """We serve; `status` is what people read in `systemctl status`."""
        self.tell("READY=1", f"STATUS={status}")

    @contextmanager
    def hearing_of_stop(self) -> Iterator[None]:
        """Tell it as soon as the server says that it stops."""

        def hear(event: Event) -> None:
            self.tell("STOPPING=1", "STATUS=stopping")

        subscribe(hear, wants=lambda kind: kind is ServerStopping)
        try:
            yield
        finally:
            unsubscribe(hear)


class Watchdog:
    """Says twice in each period that all is well, for as long as it is."""

    def __init__(
        self,
        tell: Callable[[], None],
        period: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = tell
        self._period = period
        self._clock = clock
        self._due = 0.0
        self._told: Mapping[int, int] = {}

    @property
    def seconds_left(self) -> float | None:
        """Until it wants to look again; None where nobody waits for it."""
        return max(0.0, self._due - self._clock()) if self._period else None

    def look(self, pulses: Mapping[int, int]) -> None:
        """Tell if it is time, and every process has moved its pulse since it was told last.

        What hangs is looked at again soon, so that it is spoken for as soon as it goes on.
        """
        now = self._clock()
        if not self._period or now < self._due:
            return
        if not pulses or any(self._told.get(one) == pulse for one, pulse in pulses.items()):
            self._due = now + self._period / 8
            return
        self._told = dict(pulses)
        self._due = now + self._period / 2
        self._tell()
