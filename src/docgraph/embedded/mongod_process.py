"""Process control of one `mongod` in one directory: port, start, readiness, stop.

The replica set that it belongs to is the task of `mongod_setup.py`.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from docgraph.embedded.directory import DataDirectory, Remembered, describe_os_error
from docgraph.embedded.errors import (
    ADDRESS_TAKEN,
    CANNOT_EXECUTE,
    ExitReport,
    explain_exit,
    find_missing_library,
)
from docgraph.embedded.mongod_setup import (
    POLL_SECONDS,
    SUBSTITUTE_LIBRARIES,
    MongodOptions,
    build_command,
    build_environment,
    find_binary,
    serves_directory,
    tie_to_owner,
)
from docgraph.exchange.errors import StartupError

FORCE_SECONDS = 5.0
_HAS_PROC = Path("/proc/self/stat").exists()


def is_mongod_of(pid: int, data: Path, log: Path) -> bool:
    """Return whether that process is a `mongod` that docgraph started on these paths.

    Process ids are reused, so a number in a file proves nothing; the command line does.
    """
    command = _read_command(pid)
    return str(data) in command and str(log) in command


def _read_command(pid: int) -> list[str]:
    if _HAS_PROC:
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
        except OSError:  # no such process
            return []
    listing = subprocess.run(  # noqa: S603 - no text of a caller is in it
        ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return _split_listing(listing.stdout)


def _split_listing(line: str) -> list[str]:
    """Split the output of `ps` at the options, the only safe positions: paths may have spaces."""
    words = line.strip().replace(" --", "\0--").split("\0")
    return [part for word in words for part in word.split(" ", 1)]


def end_process(pid: int, timeout: float) -> bool:
    """Terminate a process, kill it after `timeout` seconds; return whether it has ended."""
    for sign, patience in ((signal.SIGTERM, timeout), (signal.SIGKILL, FORCE_SECONDS)):
        try:
            os.kill(pid, sign)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        if await_end(pid, patience):
            return True
    return False


def await_end(pid: int, timeout: float) -> bool:
    """Wait until a process has released its files and ports."""
    end = time.monotonic() + timeout
    while not _is_gone(pid):
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def is_ending(pid: int) -> bool:
    """Return whether a process has no memory any more: its files and ports follow next."""
    return _HAS_PROC and not _is_gone(pid) and not any(_read_command(pid))


def _is_gone(pid: int) -> bool:
    """Return whether the process has ended; a zombie, with only an exit code left, has.

    Its first thread can be a zombie while others are alive, and hold the files and ports of all.
    """
    if _HAS_PROC:
        process = Path(f"/proc/{pid}")
        try:
            state = (process / "stat").read_text(errors="replace").rpartition(")")[2]
            threads = os.listdir(process / "task")
        except OSError:  # no such process
            return True
        return state.split()[0] in ("Z", "X") and len(threads) <= 1
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


LOOPBACK = "127.0.0.1"
# Below the ephemeral ports: the system does not assign these to other processes by itself.
PORTS = range(20_000, 32_000)
ATTEMPTS = 5
LOG_TAIL_BYTES = 256 * 1024

Progress = Callable[[str], None]


class Mongod:
    """A `mongod` that this process owns, from `launch` to `stop`."""

    def __init__(self, directory: Path | str, options: MongodOptions, progress: Progress) -> None:
        self.place = DataDirectory(directory)
        self.directory, self.log = self.place.path, self.place.log
        self.port = 0  # on loopback, known from the first start on
        self._options = options
        self._progress = progress
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._binary = Path()
        self._environment: dict[str, str] | None = None
        self._log_start = 0

    @property
    def host(self) -> str:
        """The name of this member in the replica set."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self.is_running else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self, deadline: float) -> None:
        """Lock the directory, end a leftover process, start, and wait until it listens."""
        self._binary = find_binary()
        self.place.claim()
        self._owner = os.getpid()
        self._forget_process()
        self._end_leftover()
        self.port = self._choose_port()
        for _ in range(ATTEMPTS):
            self._spawn()
            if self._listens(deadline):
                return
        raise _no_port()

    def check_alive(self) -> None:
        """Raise the cause if the process ended."""
        if self._process is not None and self._process.poll() is not None:
            raise explain_exit(self._report_exit(self._process.returncode))

    def check_time(self, deadline: float) -> None:
        """Raise if the time for starting is used up."""
        if time.monotonic() > deadline:
            raise StartupError(
                f"the embedded MongoDB was not ready within {self._options.start_timeout:g} s",
                hint=f"its log may say why: {self.place.log}",
            )

    def request_stop(self) -> None:
        """Request a clean end without waiting for it."""
        if self._process is not None and self._owner == os.getpid() and self.is_running:
            self._process.terminate()
            # A suspended process receives the signal only after SIGCONT.
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process immediately; the journal makes this safe."""
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()

    def stop(self, timeout: float | None = None) -> None:
        """End the process cleanly and release the directory; do nothing in a forked copy.

        A process that does not end within `timeout` seconds is killed.
        """
        if self._owner != os.getpid():
            return
        if self._process is not None:
            self.request_stop()
            try:
                self._process.wait(self._options.stop_timeout if timeout is None else timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()  # the journal makes this safe
                self._process.wait()
            self._forget_process()
            # A full disk must not prevent stopping; the next start verifies the process id.
            with contextlib.suppress(StartupError):
                self.place.remember(Remembered(self.port, None))
        self.place.lock.release()

    def _spawn(self) -> None:
        place = self.place
        try:
            place.rotate_log()
            self._log_start = place.log.stat().st_size if place.log.exists() else 0
            self._output = tempfile.TemporaryFile(dir=place.path)  # noqa: SIM115 - `stop` closes it
        except OSError as error:
            raise describe_os_error(error, place.path) from error
        command = build_command(self._binary, place.data, place.log, self.port, self._options)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - no text of a caller is in it
                tie_to_owner(command),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for docgraph, which then stops mongod
            )
        except OSError as error:
            said = f"{CANNOT_EXECUTE} {error.errno}"
            raise explain_exit(replace(self._report_exit(126), output=said)) from error
        place.remember(Remembered(self.port, self._process.pid))

    def _listens(self, deadline: float) -> bool:
        """Wait until the port answers; return False if another attempt may succeed.

        Another process may have taken the port in between, or the missing libraries are available
        now.
        """
        process = self._process
        while process is not None:
            if process.poll() == ADDRESS_TAKEN:
                self._forget_process()
                self.port = self._choose_port(avoid=self.port)
                return False
            if process.poll() is not None and self._lend_libraries():
                self._forget_process()
                return False
            self.check_alive()
            self.check_time(deadline)
            with socket.socket() as probe:
                probe.settimeout(1)
                is_listening = probe.connect_ex((LOOPBACK, self.port)) == 0
            # With a login, it cannot be verified that our `mongod` has the port.
            is_login = self._options.key_file is not None
            if is_listening and (is_login or serves_directory(self.port, self.place.data)):
                return True
            time.sleep(POLL_SECONDS)
        return False

    def _lend_libraries(self) -> bool:
        """Return whether libraries were missing that the next process will have."""
        if (
            self._environment is not None
            or find_missing_library(self._read_output()) not in SUBSTITUTE_LIBRARIES
        ):
            return False
        try:
            self._environment = build_environment(self.place.libraries)
        except OSError as error:
            raise describe_os_error(error, self.place.path) from error
        return self._environment is not None

    def _choose_port(self, avoid: int | None = None) -> int:
        if (chosen := self._options.port) is not None:
            if chosen == avoid or not _is_free(chosen):
                raise StartupError(
                    f"port {chosen}, which is set for the embedded MongoDB, is in use",
                    hint="stop what listens there, or set another core.embedded-port",
                )
            return chosen
        kept = self.place.recall().port
        if kept and kept != avoid:
            if _is_free(kept):
                return kept
            self._progress(f"port {kept} is taken, choosing another for MongoDB")
        for port in random.sample(PORTS, 100):
            if port != avoid and _is_free(port):
                return port
        raise _no_port()

    def _end_leftover(self) -> None:
        place = self.place
        for pid in {place.recall().pid, place.read_mongod_pid()}:
            if pid is None:
                continue
            if is_mongod_of(pid, place.data, place.log):
                self._progress(f"stopping a MongoDB left over as process {pid}")
                if not end_process(pid, self._options.stop_timeout):
                    raise StartupError(
                        f"data directory {place.path} in use by process {pid}, a mongod left over "
                        "that cannot be stopped",
                        hint=f"stop it (kill {pid}) and start again",
                    )
            elif is_ending(pid):
                await_end(pid, self._options.stop_timeout)

    def _forget_process(self) -> None:
        if self._output is not None:
            self._output.close()
        self._process = self._output = None

    def _report_exit(self, code: int) -> ExitReport:
        place = self.place
        return ExitReport(
            code=code,
            output=self._read_output(),
            log=_read_from(place.log, self._log_start),
            binary=self._binary,
            directory=place.path,
            log_path=place.log,
            pid_in_lock=place.read_mongod_pid(),
            free_bytes=shutil.disk_usage(place.path).free,
        )

    def _read_output(self) -> str:
        if self._output is None:
            return ""
        self._output.seek(0)
        return self._output.read(LOG_TAIL_BYTES).decode(errors="replace")


def _no_port() -> StartupError:
    return StartupError(
        f"no free port found for the embedded MongoDB on {LOOPBACK}",
        hint="start again, or set mclient.connection-string to a running MongoDB",
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As mongod does: lingering connections of the last run do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _read_from(path: Path, start: int) -> str:
    """Return the end of a file, at most what was written since `start`."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(start, size - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")
    except OSError:  # it ended before it had a log
        return ""
