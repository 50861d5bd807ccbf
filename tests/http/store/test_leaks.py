"""What the suite takes for left behind, and what it does not."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from typing import Any
from weakref import ref

import pytest

from tests.http.driver import _CollectedSocket
from tests.http.harness import Mongo
from tests.leaks import Snapshot


def test_a_connection_that_the_client_of_the_run_opens_again_is_not_left_behind(
    mongo_client: Mongo,
) -> None:
    for server in mongo_client._topology._servers.values():
        server.pool.reset()
        server.pool.ready()
    before = Snapshot.take()
    mongo_client.admin.command("ping")
    before.check()


def test_a_socket_of_a_test_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.leaks._PATIENCE", 0.0)
    before = Snapshot.take()
    with socket.socket(), pytest.raises(pytest.fail.Exception, match="1 open: socket"):
        before.check()


def test_a_socket_that_becomes_garbage_in_a_moment_is_not_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of the driver, in a circle that something else held when the test was over."""
    circle: list[Any] = [_CollectedSocket()]
    known = ref(circle[0])
    circle.append(circle)
    held = [circle]
    before = Snapshot.take()
    monkeypatch.setattr("tests.leaks._count_descriptors", lambda: Counter(one=bool(known())))
    before._descriptors = Counter()
    timer = threading.Timer(0.3, held.clear)
    timer.start()
    del circle
    before.check()
    assert known() is None
    timer.join()
