"""A deadline counts down and then raises."""

from contextlib import suppress

import pytest

from docgraph.exchange import Deadline
from docgraph.exchange.deadline import Patience
from docgraph.exchange.errors import TimeLimitExceeded


def test_no_limit_means_no_end() -> None:
    assert Deadline.after_ms(0).remaining() is None
    assert Deadline.never().remaining() is None


def test_what_remains_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("docgraph.exchange.deadline.time.monotonic", lambda: now[0])
    deadline = Deadline.after_ms(1000)
    assert deadline.remaining() == pytest.approx(1.0)
    now[0] = 100.4
    assert deadline.remaining() == pytest.approx(0.6)


def test_a_deadline_that_is_over_says_which_limit_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("docgraph.exchange.deadline.time.monotonic", lambda: now[0])
    deadline = Deadline.after_ms(250)
    now[0] = 101.0
    with pytest.raises(TimeLimitExceeded, match="250ms"):
        deadline.remaining()


def test_waits_are_deducted_and_count_once_where_they_overlap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("docgraph.exchange.deadline.time.monotonic", lambda: now[0])
    deadline = Deadline(patience=Patience(10.0))
    with deadline.waiting(), deadline.waiting():
        now[0] += 3
    with suppress(KeyError), deadline.waiting():
        now[0] += 2
        raise KeyError

    assert deadline.find_patience(None) == pytest.approx(5.0)
