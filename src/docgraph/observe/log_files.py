"""Log files: regular files that stdout and stderr were redirected to, and their rotation.

A rotation renames the file, and the process continues to write to the renamed one. It remembers the
path from its start, so that it can open a new file there. Forked processes inherit the paths.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple


class _LogFile(NamedTuple):
    """The path and the permissions of a file at the start."""

    path: str
    mode: int


# By descriptor. Standard streams belong to the whole process, and so does this.
_files: dict[int, _LogFile] = {}


def remember_log_files() -> None:
    """Record where stdout and stderr are written to; call this before other processes are forked.

    Only Linux tells the path of an open file.
    """
    for descriptor in (1, 2):
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            continue
        try:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if os.path.samestat(found, os.stat(path)):
                _files[descriptor] = _LogFile(path, stat.S_IMODE(found.st_mode))
        except OSError:
            continue  # already deleted, or not on Linux: there is nothing to open again


def reopen_log_files() -> tuple[str, ...]:
    """Open the files that are no longer at their paths; return these paths. Raises `OSError`."""
    opened = set()
    for descriptor, (path, mode) in _files.items():
        if _is_current(descriptor, path):
            continue
        fresh = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.fchmod(fresh, mode)
            os.dup2(fresh, descriptor)
        finally:
            os.close(fresh)
        opened.add(path)
    return tuple(sorted(opened))


def _is_current(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
