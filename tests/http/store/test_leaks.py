"""What the suite takes for left behind, and what it does not."""

from __future__ import annotations

import socket

import pytest

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
