"""Atomic replacement of an export: the new one replaces the previous one when complete.

It is written into a directory inside the target, which may be a repository or a mount with other
files, and its entries are then renamed into place: a rename can be undone. It is synced to disk
before, so that one of the two survives a power failure.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

NEW: Final = ".export-new"
FORMER: Final = ".export-former"
_OWNER_ONLY: Final = 0o700
# Errors of file systems that cannot sync directories, or of directories of other users.
_UNABLE: Final = frozenset({errno.EACCES, errno.EINVAL, errno.ENOTSUP})


@contextmanager
def replacing(directory: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield where to write the entries with these `names`; rename them if all succeeded.

    The first of the names marks an export as complete.
    """
    is_new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
    new = directory / NEW
    try:
        _remove(new)  # of a killed process
        new.mkdir(mode=_OWNER_ONLY)
        yield new
        _keep_all(new)
        _swap(directory, names)
        _keep(directory)
        if is_new:
            _keep(directory.parent)
    except BaseException:
        _remove(new)
        if is_new:
            with suppress(OSError):  # another process has put something there
                directory.rmdir()
        raise
    _remove(new)


def _keep_all(directory: Path) -> None:
    """Wait until the directory and everything in it is synced to disk."""
    for place, _, names in os.walk(directory, topdown=False):
        for name in names:
            _keep(Path(place, name))
        _keep(Path(place))


def _keep(path: Path) -> None:
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno not in _UNABLE:
            raise


def _swap(directory: Path, names: Sequence[str]) -> None:
    new, former = directory / NEW, directory / FORMER
    former.mkdir(mode=_OWNER_ONLY)
    moves = [(directory / name, former / name) for name in names]
    moves += [(new / name, directory / name) for name in reversed(names)]
    moves.append((former, new / FORMER))  # from here on it is only leftover
    tried: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            if os.path.lexists(source):
                tried.append((source, target))
                os.rename(source, target)
    except BaseException:
        for source, target in reversed(tried):
            if not os.path.lexists(source):
                os.rename(target, source)
        former.rmdir()
        raise


def _remove(path: Path) -> None:
    """Remove what exists; a link, not its target."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
