"""Databases of tests: where the files of a `mongod` lie, and how a database goes away."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from pymongo import MongoClient

from tests.leaks import lasting_clients

_MEMORY = Path("/dev/shm")  # noqa: S108 - in memory; each run has a directory of its own there
_ENOUGH = 4 << 30  # bytes; many times what the largest documents of tests take

_DIGITS = str.maketrans("0123456789abcdef", "bcdfghjklmnpqrst")


_made: set[str] = set()
_dropped: set[str] = set()  # by the module that is running
_free: set[str] = set()


def new_name() -> str:
    """A name for a database, of consonants only: no number or word of a test is part of it."""
    name = _free.pop() if _free else f"test_{uuid4().hex[:16].translate(_DIGITS)}"
    _made.add(name)
    return name


def recycle() -> None:
    """Let the next modules use the names of databases that a module has dropped.

    A `mongod` remembers every name, and copies all of them for each collection that is created or
    dropped: after a thousand names that takes twice as long. Within a module every name is new, for
    its application lives on, and caches what it knows of a database.
    """
    for client in lasting_clients if _dropped else ():
        _free.update((_made & _dropped).difference(client.list_database_names()))
    _dropped.clear()


@cache
def find_memory() -> Path | None:
    """A directory whose files are in memory, if there is one with room for all that tests write.

    What is lost with the machine nobody reads again.
    """
    has_room = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH
    return _MEMORY if has_room else None


def data_directory() -> tempfile.TemporaryDirectory[str]:
    """A directory for the data of a `mongod`, in memory where that is possible.

    A new collection is several files, each of them written through to the disk: that takes
    most of the time of a small test.
    """
    return tempfile.TemporaryDirectory(prefix="docgraph-tests-", dir=find_memory())


def drop(mongo: MongoClient[Any], database: str) -> None:
    """Drop a database by its collections: `dropDatabase` waits a tenth of a second.

    It waits for the journal without asking for it.
    """
    names = mongo[database].list_collection_names()
    for name in names:
        if not name.startswith("system."):
            mongo[database].drop_collection(name)
    if any(name.startswith("system.") for name in names):
        mongo.drop_database(database)
    _dropped.add(database)
