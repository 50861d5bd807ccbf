"""Reload on SIGHUP: certificate and key, log files; other options need a restart and are listed.

SIGHUP ── the terminal is closed ──▶ graceful shutdown
       └─ otherwise ──▶ log files, comparison of the configuration ──▶ `server-reloaded`
                    └─▶ each serving process: log files, certificate ──▶ `certificate-loaded`
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from docgraph.exchange import ConfigError, StartupError
from docgraph.observe import emit
from docgraph.observe.event import ReloadFailed, ServerReloaded
from docgraph.observe.writer import reopen_log_files
from docgraph.server.process.terminal import ControllingTerminal


class Reload:
    """What SIGHUP means for the process that the service manager started.

    `list_changed` returns the options that differ from those of the start.
    """

    def __init__(self, list_changed: Callable[[], Sequence[str]] = lambda: ()) -> None:
        self._list_changed = list_changed
        self._terminal = ControllingTerminal()
        self._turns = threading.Lock()

    def must_stop(self) -> bool:
        """Return whether the signal came because the terminal is closed."""
        return self._terminal.is_gone()

    def start(self) -> None:
        """Reload in a thread: files may be slow to read."""
        threading.Thread(target=self._run, name="docgraph-reload", daemon=True).start()

    def _run(self) -> None:
        with self._turns:
            log_files = reopen_logs()
            try:
                needs_restart = tuple(self._list_changed())
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
