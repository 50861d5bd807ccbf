"""Life cycle of an instance: service manager (systemd), reload (SIGHUP), graceful shutdown.

SIGUSR1 reopens log files, SIGUSR2 is ignored: their default would end the process.

A service manager names a socket in `NOTIFY_SOCKET`, and in `WATCHDOG_USEC` the interval in which
it expects messages; otherwise it restarts the service. The parent process sends them for its
workers, and stops when a worker hangs. Without the variables nothing happens.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from docgraph.exchange import ConfigError, StartupError
from docgraph.observe import Event, emit, subscribe, unsubscribe
from docgraph.observe.engine_events import ReloadFailed, ServerReloaded
from docgraph.observe.events import NotifyFailed, ServerStopping
from docgraph.observe.writer import reopen_log_files
from docgraph.server.process.terminal import ControllingTerminal

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


class Watchdog:
    """Sends two messages per interval, as long as all processes are alive."""

    def __init__(
        self, notify: Callable[[], None], period: float, clock: Callable[[], float] = time.monotonic
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
        if not pulses or any(
            self._notified.get(worker) == pulse for worker, pulse in pulses.items()
        ):
            self._due = now + self._period / 8
            return
        self._notified = dict(pulses)
        self._due = now + self._period / 2
        self._notify()


class Reload:
    """SIGHUP in the process that the service manager started: reload, or stop.

    `list_changed` returns the options that differ from those of the start.

    A reload loads certificate and key and opens log files; other options need a restart and are
    listed.

        SIGHUP ── the terminal is closed ──▶ graceful shutdown
               └─ otherwise ──▶ log files, comparison of the configuration ──▶ `server-reloaded`
                            └─▶ each serving process: log files, certificate ─▶ `certificate-loaded`
        SIGUSR1 ── log files alone ──▶ `server-reloaded`
    """

    def __init__(self, list_changed: Callable[[], Sequence[str]] = lambda: ()) -> None:
        self._list_changed = list_changed
        self._terminal = ControllingTerminal()
        self._turns = threading.Lock()

    def must_stop(self) -> bool:
        """Return whether the signal came because the terminal is closed."""
        return self._terminal.is_gone()

    def start(self, *, logs_only: bool = False) -> None:
        """Reload in a thread: files may be slow to read."""
        threading.Thread(
            target=self._run, args=(logs_only,), name="docgraph-reload", daemon=True
        ).start()

    def _run(self, logs_only: bool) -> None:
        with self._turns:
            log_files = reopen_logs()
            try:
                needs_restart = () if logs_only else tuple(self._list_changed())
            except ConfigError as error:
                emit(ReloadFailed("configuration", "; ".join(map(str, error.problems))))
            except StartupError as error:
                emit(ReloadFailed("configuration", error.message))
            else:
                emit(ServerReloaded(log_files, needs_restart))


def reopen_logs() -> tuple[str, ...]:
    """Open log files that were renamed again; a failure is logged to the previous ones."""
    try:
        return reopen_log_files()
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        emit(ReloadFailed("log file", f"cannot open {error.filename}: {reason}"))
        return ()


WORKER_MARGIN: Final = 1.0  # seconds beyond the grace in which a worker has to end
_TELL_DATABASE: Final = 0.3  # seconds beyond the grace
_END_DATABASE: Final = 1.5
_LEAVE: Final = 1.8
_SHORTEST: Final = 0.5  # seconds that the database has to shut down, however late it is


@contextmanager
def hearing_of_stop(act: Callable[[Event], None]) -> Iterator[None]:
    """Call `act` as soon as the server is asked to stop, inside this context."""
    subscribe(act, wants=lambda kind: kind is ServerStopping)
    try:
        yield
    finally:
        unsubscribe(act)


class EmbeddedDatabase(Protocol):
    """An embedded `mongod` and its keeper process, which end with this process."""

    def request_stop(self) -> None:
        """Request a clean shutdown, also of a suspended process."""

    def kill(self) -> None:
        """Kill the database immediately."""


class Shutdown:
    """Wraps serving: the countdown begins when the server is asked to stop.

    The graceful shutdown has an overall deadline, even if something hangs.

        SIGTERM ── grace: requests finish ── +0.3 s: stop mongod ── +1.5 s: kill it ── exit

    Everything that a stop waits for has its own timeout, and they would add up: a frozen database,
    writes that wait for it, plugins, the driver. So a countdown begins with the first signal.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._begun: float | None = None
        self._timers: list[threading.Timer] = []
        self.database: EmbeddedDatabase | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Start the countdown when the server stops; exit normally when all is done."""
        try:
            with hearing_of_stop(self._hear):
                yield
        finally:
            for timer in self._timers:
                timer.cancel()

    @property
    def left(self) -> float | None:
        """Seconds that the database has to shut down; None without a request to stop."""
        if self._begun is None:
            return None
        return max(self._begun + self._grace + _END_DATABASE - time.monotonic(), _SHORTEST)

    def _hear(self, event: Event) -> None:
        if self._begun is None:
            self._begun = time.monotonic()
            self._after(self._grace + _TELL_DATABASE, self._stop_database)
            self._after(self._grace + _LEAVE, self._leave)

    def _after(self, seconds: float, work: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, work)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _stop_database(self) -> None:
        """Stop the database during the shutdown; commands that wait for a frozen one then end."""
        if self.database is not None:
            self.database.request_stop()

    def _leave(self) -> None:
        if self.database is not None:
            self.database.kill()
        os._exit(0)
