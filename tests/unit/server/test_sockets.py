"""What accepted connections have from the socket that listens."""

from __future__ import annotations

import socket

import pytest

from docgraph.events.sections import Events
from docgraph.server.process.sockets import _listen

HEARTBEAT = Events().heartbeat_interval_ms


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux")
def test_the_system_notices_a_peer_that_vanishes_within_a_minute() -> None:
    """W07, for those that are not pinged."""
    with (
        _listen("http", "127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            idle, interval, count, unconfirmed = (
                accepted.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"))
                for name in ("KEEPIDLE", "KEEPINTVL", "KEEPCNT", "USER_TIMEOUT")
            )
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert idle + interval * count < 60
    assert HEARTBEAT + unconfirmed < 60_000


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="Linux, macOS")
def test_the_system_buffers_little_for_a_client_that_does_not_read() -> None:
    """Else its pipelined requests would be executed, and no limit would count their answers."""
    with (
        _listen("http", "127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            accepted.setblocking(False)
            assert accepted.send(bytes(8 << 20)) < 1 << 20
