"""Shared libraries for a `mongod` on a system that lacks them: libcurl 4 and OpenSSL 3.

The wheel of pycurl, which the extra `embedded` brings along, has both in `pycurl.libs`, under names
of its own. A directory of links gives them the names that `mongod` asks for, and LD_LIBRARY_PATH
leads the loader there: in the environment of that one process, and only after the loader said
that the system has them not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

__all__ = ["LENT", "build_environment", "find_pycurl_libraries"]

SEARCH_PATH = "LD_LIBRARY_PATH"
# What mongod asks for, and how a file of pycurl is recognized that can take its place. All of them
# are used, or none: two versions of OpenSSL in one process would take each other's functions.
LENT: Mapping[str, str] = {
    "libcurl.so.4": "libcurl*.so.4*",
    "libssl.so.3": "libssl*.so.3*",
    "libcrypto.so.3": "libcrypto*.so.3*",
}
# The loader takes these apart or replaces them in LD_LIBRARY_PATH, and nothing quotes them.
_UNUSABLE = frozenset(":;$")


def build_environment(links: Path) -> dict[str, str] | None:
    """Our environment with pycurl's libraries in it, or nothing if they are not there.

    `links` is the directory for the links, made here: one that other users cannot write to.
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
    """The directory with the libraries that the wheel of pycurl brought, if it is installed."""
    if sys.platform != "linux":
        return None
    try:
        directory = Path(str(metadata.distribution("pycurl").locate_file("pycurl.libs")))
    except metadata.PackageNotFoundError:
        return None
    return directory.resolve() if directory.is_dir() else None


def _link(link: Path, target: Path) -> None:
    """Let the link lead to the target; a loader that looks at the same time finds old or new."""
    if link.is_symlink() and link.readlink() == target:
        return
    draft = link.with_name(f".{link.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)
