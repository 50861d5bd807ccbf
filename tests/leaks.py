"""What a test may leave behind: nothing. `Snapshot.check` fails where it did.

Threads, child processes, open descriptors and listeners of events are compared with those before.
A socket or file that only the garbage collector would close counts as left open: warnings are
errors, and the collector runs here, at the test that made the garbage.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import re
import socket
import threading
import time
from collections import Counter
from typing import Any

import psutil
import pytest
from pymongo import MongoClient

import docgraph.observe as bus

_PATIENCE = 10.0  # seconds; what is about to end may need a moment on a busy machine
_LOOK_FURTHER = 2.0  # seconds until what earlier tests left alive is looked at, too: it takes long
_LOOK_AT_ALL = 2000  # tests; likewise
_TASKS = "/proc/self/task"
_DESCRIPTORS = "/proc/self/fd"
_HAS_PROC = os.path.isdir(_TASKS)  # Linux
# As they are before the watch for blocking calls wraps them: every test looks twice.
_close, _list, _open, _read_bytes, _read_link = os.close, os.listdir, os.open, os.read, os.readlink
_MAX_BYTES = 1 << 16
_NAMELESS = re.compile(r"#\d+ \(deleted\)$")

# Applications of modules: their pools and threads grow while a test talks to them.
living_applications: set[object] = set()

# Clients that live as long as the run: their connections come again when they were cut.
lasting_clients: set[MongoClient[Any]] = set()


class Snapshot:
    """What there is now."""

    def __init__(self, *, may_grow: bool = False) -> None:
        self._children = _find_children()
        self._listeners = bus._listeners.known
        self._may_grow = may_grow
        self._threads = frozenset[threading.Thread]() if may_grow else _find_threads()
        self._descriptors = Counter[str]() if may_grow else _count_descriptors()

    @classmethod
    def take(cls) -> Snapshot:
        """What there is now; of applications that live on, only what cannot grow."""
        return cls(may_grow=bool(living_applications))

    def check(self) -> None:
        """Fail for what was not there before, and does not go away."""
        _unfreeze_now_and_then()
        gc.collect()
        begun = time.monotonic()
        while (left := self._find_left()) and (waited := time.monotonic() - begun) < _PATIENCE:
            time.sleep(0.005)
            if waited > _LOOK_FURTHER:
                gc.unfreeze()  # what has become garbage since may hold it
            gc.collect()
        gc.freeze()
        if left:
            pytest.fail(f"left behind: {', '.join(left)}; {_describe_connections()}")

    def _find_left(self) -> list[str]:
        started = _find_children() - self._children
        left = [f"{count} running: {command}" for command, count in started.items()]
        left += [
            f"the listener {one}" for one in bus._listeners.known if one not in self._listeners
        ]
        if not self._may_grow:
            left += [f"the thread {one.name!r}" for one in _find_threads() - self._threads]
            opened = _count_descriptors() - self._descriptors
            left += [f"{count} open: {what}" for what, count in opened.items()]
        return left


_checks = itertools.count(1)


def _unfreeze_now_and_then() -> None:
    """What tests left alive need not be looked at by every test after them, but by some.

    A frozen object is never given back.
    """
    if next(_checks) % _LOOK_AT_ALL == 0:
        gc.unfreeze()


def _find_threads() -> frozenset[threading.Thread]:
    return frozenset(threading.enumerate())


def _find_children() -> Counter[str]:
    """Child processes by their command: one that was started again is no leak."""
    if not _HAS_PROC:
        return Counter(" ".join(one.cmdline()) for one in psutil.Process().children())
    texts = [_read(f"{_TASKS}/{task}/children") for task in _list(_TASKS)]
    commands = [_read(f"/proc/{pid}/cmdline") for text in texts for pid in text.split()]
    return Counter(command.replace("\0", " ")[:300] for command in commands if command)


def _read(path: str) -> str:
    try:
        descriptor = _open(path, os.O_RDONLY)
    except OSError:  # the thread or the process has ended
        return ""
    try:
        return _read_bytes(descriptor, _MAX_BYTES).decode(errors="replace")
    except OSError:  # likewise
        return ""
    finally:
        _close(descriptor)


def _count_descriptors() -> Counter[str]:
    """Files by their path, sockets and pipes by their kind: a reconnected one is no leak.

    A file without a name is one of its directory: a program that was started again has another.
    """
    counts: Counter[str] = Counter()
    lasting = _find_lasting_sockets()
    for one in _list(_DESCRIPTORS) if _HAS_PROC else ():
        if one in lasting:
            continue
        try:
            path = _read_link(f"{_DESCRIPTORS}/{one}")
        except OSError:  # that of the directory itself, closed again
            continue
        if not path.startswith(("/dev/", "/proc/")):
            counts[_NAMELESS.sub("#", path.split(":", 1)[0])] += 1
    return counts


def _find_lasting_sockets() -> set[str]:
    """The descriptors of connections which clients of the whole run keep."""
    servers = [one for client in lasting_clients for one in client._topology._servers.values()]
    pools = [pool for one in servers for pool in (one.pool, one._monitor._pool)]
    return {str(connection.conn.fileno()) for pool in pools for connection in list(pool.conns)}


def _describe_connections() -> str:
    """The sockets that there are, connected or not, and the objects behind them."""
    lasting = _find_lasting_sockets()
    connected = {one.fd: one for one in psutil.Process().net_connections(kind="all")}
    told = []
    for name in _list(_DESCRIPTORS) if _HAS_PROC else ():
        if name not in lasting and _is_socket(name):
            one = connected.get(int(name))
            way = "nowhere" if one is None else f"{one.laddr}-{one.raddr} {one.status}"
            told.append(f"{name}: {way}, {_find_owner(int(name))}")
    return f"sockets: {'; '.join(told)}"


def _is_socket(name: str) -> bool:
    try:
        return _read_link(f"{_DESCRIPTORS}/{name}").startswith("socket:")
    except OSError:
        return False


def _find_owner(descriptor: int) -> str:
    gc.unfreeze()
    owners = [
        one
        for one in gc.get_objects()
        if issubclass(type(one), (socket.socket, asyncio.Transport)) and _number(one) == descriptor
    ]
    holders = [type(holder).__name__ for one in owners for holder in gc.get_referrers(one)]
    return f"{owners} held by {holders}"


def _number(owner: socket.socket | asyncio.Transport) -> int:
    used = owner if isinstance(owner, socket.socket) else owner.get_extra_info("socket")
    return -1 if used is None else int(used.fileno())
