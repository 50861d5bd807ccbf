"""`emit` reaches every listener and never raises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from docgraph.observe import Event, Listener, emit, leaving_out, subscribe, unsubscribe
from docgraph.observe.events import LoopLagged, ObserverFailed


@pytest.fixture
def heard() -> Iterator[list[Event]]:
    events: list[Event] = []
    subscribe(events.append)
    yield events
    unsubscribe(events.append)


@pytest.fixture
def broken() -> Iterator[Listener]:
    def listener(event: Event) -> None:
        raise ValueError("broken")

    subscribe(listener)
    yield listener
    unsubscribe(listener)


def test_an_event_without_listeners_is_no_error() -> None:
    emit(LoopLagged(1.0))


def test_nobody_hears_of_the_kinds_that_a_block_leaves_out(heard: list[Event]) -> None:
    with leaving_out((LoopLagged,)):
        emit(LoopLagged(1.0))
        emit(ObserverFailed(event="x", error=ValueError()))
    emit(LoopLagged(2.0))

    assert [type(one) for one in heard] == [ObserverFailed, LoopLagged]
    assert heard[-1] == LoopLagged(2.0)


def test_who_subscribes_while_kinds_are_left_out_stays_and_who_leaves_is_gone(
    heard: list[Event],
) -> None:
    late: list[Event] = []
    with leaving_out((LoopLagged,)):
        subscribe(late.append)
        unsubscribe(heard.append)
        emit(LoopLagged(1.0))
    emit(LoopLagged(2.0))
    unsubscribe(late.append)

    assert (heard, late) == ([], [LoopLagged(2.0)])


def test_a_listener_hears_events_until_it_unsubscribes(heard: list[Event]) -> None:
    emit(LoopLagged(1.0))
    unsubscribe(heard.append)
    emit(LoopLagged(2.0))

    assert heard == [LoopLagged(1.0)]


def test_a_listener_that_raises_is_reported_and_disturbs_nobody(
    broken: Listener, heard: list[Event]
) -> None:
    emit(LoopLagged(1.0))

    report, event = heard
    assert event == LoopLagged(1.0)
    assert isinstance(report, ObserverFailed)
    assert report.event == "loop-lagged"
    assert str(report.error) == "broken"


def test_unsubscribing_a_stranger_is_no_error() -> None:
    unsubscribe(lambda event: None)


def test_a_listener_hears_only_the_kinds_of_events_that_it_wants() -> None:
    heard: list[Event] = []
    subscribe(heard.append, wants=lambda kind: kind is ObserverFailed)
    failure = ObserverFailed(event="line", error=ValueError())

    emit(LoopLagged(1.0))
    emit(failure)
    unsubscribe(heard.append)

    assert heard == [failure]
