"""Shared libraries for `mongod` where the system lacks them: libcurl 4 and OpenSSL 3.

The wheel of pycurl, which the extra `embedded` includes, has both in `pycurl.libs` under its own
names. A directory of links gives them the names that `mongod` needs, and LD_LIBRARY_PATH leads the
loader there. It is set in the environment of that one process, and only after the loader has
reported that the system lacks them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

SEARCH_PATH = "LD_LIBRARY_PATH"
# The library names that mongod needs, and patterns of the files of pycurl that can replace them.
# All of them are used, or none: two versions of OpenSSL in one process would use each other's
# functions.
LENT: Mapping[str, str] = {
    "libcurl.so.4": "libcurl*.so.4*",
    "libssl.so.3": "libssl*.so.3*",
    "libcrypto.so.3": "libcrypto*.so.3*",
}
# The loader splits at these or expands them in LD_LIBRARY_PATH, and they cannot be quoted.
_UNUSABLE = frozenset(":;$")


def build_environment(links: Path) -> dict[str, str] | None:
    """Return our environment with pycurl's libraries, or None if they are not installed.

    `links` is the directory for the links, created here: other users cannot write to it.
    """
    libraries = find_pycurl_libraries()
    if libraries is None or not _UNUSABLE.isdisjoint(f"{links}{libraries}"):
        return None
    targets = {name: sorted(libraries.glob(pattern)) for name, pattern in LENT.items()}
    if not all(targets.values()):
        return None
    links.mkdir(mode=0o700, exist_ok=True)
    for name, (target, *_) in targets.items():
        _link(links / name, target)
    path = [str(links), str(libraries), os.environ.get(SEARCH_PATH)]
    return {**os.environ, SEARCH_PATH: ":".join(part for part in path if part)}


def find_pycurl_libraries() -> Path | None:
    """Return the directory with the libraries of the wheel of pycurl, if it is installed."""
    if sys.platform != "linux":
        return None
    try:
        directory = Path(str(metadata.distribution("pycurl").locate_file("pycurl.libs")))
    except metadata.PackageNotFoundError:
        return None
    return directory.resolve() if directory.is_dir() else None


def _link(link: Path, target: Path) -> None:
    """Point the link to the target atomically: a loader sees the old or the new one."""
    if link.is_symlink() and link.readlink() == target:
        return
    draft = link.with_name(f".{link.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)
