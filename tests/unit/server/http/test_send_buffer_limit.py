"""Unread answers are bounded together; the slowest reader of the largest share leaves."""

from __future__ import annotations

import pytest

from docgraph.exchange import Answer, Body, Exchange
from docgraph.server.http.state import ProcessState, build_state
from docgraph.server.sections import ConnectionOptions
from docgraph.server.settings import Limits, ServerSettings
from tests.connections import Peer
from tests.unit.server.http.test_exchanges import App

pytestmark = pytest.mark.anyio


async def answer(_: Exchange) -> Answer:
    return Body(200, b"ok")


def make_state(most: int) -> ProcessState:
    settings = ServerSettings(connection_options=ConnectionOptions(max_unread_size=most))
    return build_state(App(answer), settings)


def keep(state: ProcessState, size: int, address: str = "127.0.0.1") -> Peer:
    """A connection whose client has not taken so many bytes of its answer."""
    peer = Peer(state, client=(address, 1))
    peer.transport.pending = size
    peer.protocol.pause_writing()
    return peer


async def test_the_one_that_is_read_for_longest_is_given_up() -> None:
    state = make_state(100)
    first, second, third = keep(state, 40), keep(state, 50), keep(state, 30)

    assert [peer.transport.is_closing() for peer in (first, second, third)] == [True, False, False]
    assert state.unread.size == 80


async def test_it_is_one_of_the_address_that_keeps_most() -> None:
    state = make_state(100)
    alone, *others = (keep(state, 30, address) for address in ("::1", "10.0.0.1", "10.0.0.1"))
    last = keep(state, 20, "::1")

    assert not alone.transport.is_closing()
    assert [peer.transport.is_closing() for peer in (*others, last)] == [True, False, False]


async def test_what_has_been_read_since_does_not_count() -> None:
    state = make_state(100)
    first, second = keep(state, 60), keep(state, 30)
    first.transport.pending = 10

    third = keep(state, 50)

    assert not any(peer.transport.is_closing() for peer in (first, second, third))
    assert state.unread.size == 90


async def test_who_has_read_or_left_is_not_counted() -> None:
    state = make_state(100)
    first, second = keep(state, 60), keep(state, 30)

    first.protocol.resume_writing()
    second.transport.lose()
    second.protocol.connection_lost(None)

    assert state.unread.size == 0


async def test_one_alone_may_be_longer() -> None:
    state = make_state(100)

    assert not keep(state, 1000).transport.is_closing()


async def test_the_limit_follows_the_memory_that_is_left() -> None:
    state = make_state(100)
    first, second = keep(state, 40), keep(state, 30)

    state.unread.fit(None)
    state.unread.fit(140)  # a third of it and of what is unread
    assert state.unread.size == 70
    state.unread.fit(100)

    assert [peer.transport.is_closing() for peer in (first, second)] == [True, False]
    state.unread.fit(None)
    third = keep(state, 70)
    assert [peer.transport.is_closing() for peer in (second, third)] == [False, False]


@pytest.mark.parametrize(("most", "expected"), [(None, (134_217_728, True)), (10, (5, False))])
def test_only_a_limit_that_is_not_set_follows_the_memory(
    most: int | None, expected: tuple[int, bool]
) -> None:
    limits = Limits.from_options(ConnectionOptions(max_unread_size=most), workers=2)

    assert (limits.unread_size, limits.fits_unread_to_memory) == expected
