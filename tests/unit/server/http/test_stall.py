"""Readers that do not read are noticed when our patience is over, whatever they read before."""

from __future__ import annotations

import asyncio

from docgraph.server.http.state import StallWatch

PATIENCE = 20.0  # seconds: enough are 20 KiB


class Buffer(asyncio.Transport):
    """What is written and not taken yet."""

    size = 1_000_000

    def get_write_buffer_size(self) -> int:
        return self.size


def test_patience_begins_anew_when_the_peer_has_read_enough_for_it() -> None:
    buffer = Buffer()
    watch = StallWatch(buffer, PATIENCE)
    assert not watch.is_stalled(0)

    buffer.size -= 500_000
    assert not watch.is_stalled(5)
    assert not watch.is_stalled(24)
    assert watch.is_stalled(25)


def test_a_peer_that_keeps_to_the_slowest_pace_is_never_stalled() -> None:
    buffer = Buffer()
    watch = StallWatch(buffer, PATIENCE)

    for second in range(100):
        assert not watch.is_stalled(second)
        buffer.size -= 1024


def test_a_peer_that_reads_too_little_is_stalled() -> None:
    buffer = Buffer()
    watch = StallWatch(buffer, PATIENCE)

    for second in range(int(PATIENCE)):
        assert not watch.is_stalled(second)
        buffer.size -= 500
    assert watch.is_stalled(PATIENCE)
