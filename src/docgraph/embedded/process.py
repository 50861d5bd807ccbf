"""Processes that are not our children: identify a leftover `mongod`, and end it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

POLL_SECONDS = 0.02
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
    listing = subprocess.run(  # noqa: S603
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
    """Return whether it has ended; a zombie counts, of which only the exit code is left.

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
