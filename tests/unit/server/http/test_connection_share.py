"""New connections go to the worker with the fewest, and none waits for a worker that hangs."""

from __future__ import annotations

from itertools import count

import pytest

from docgraph.server.http.connection_limits import forget_worker, make_cells
from docgraph.server.http.connection_share import ConnectionShare


class Workers:
    """Shares of workers of one instance, with a clock that the test moves."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int = 2) -> None:
        self.now = 1000.0
        patch.setattr("time.monotonic", lambda: self.now)
        self.cells = make_cells(number)
        self.shares = [ConnectionShare(self.cells, one) for one in range(number)]
        self.counts = [0] * number

    def turn(self, *workers: int) -> None:
        for one in workers:
            self.shares[one].record_turn()

    def accept(self, worker: int) -> bool:
        """Let a worker accept, if the connection is for it."""
        may = self.shares[worker].may_accept()
        if may:
            self.shares[worker].add()
            self.counts[worker] += 1
        return may


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(monkeypatch)


@pytest.mark.parametrize("total", [8, 12, 100, 1000])
@pytest.mark.parametrize("number", [2, 5])
def test_workers_share_connections(
    monkeypatch: pytest.MonkeyPatch, total: int, number: int
) -> None:
    workers = Workers(monkeypatch, number)
    workers.turn(*range(number))
    for attempt in count():  # the first worker is always awake, the others now and then
        worker = 0 if attempt % 3 else attempt // 3 % number
        workers.accept(worker)
        if sum(workers.counts) == total:
            break
    assert max(workers.counts) - min(workers.counts) <= max(1, min(workers.counts) // 4)


def test_a_worker_that_hangs_or_has_ended_does_not_count(workers: Workers) -> None:
    workers.turn(0, 1)
    assert workers.accept(0)
    assert not workers.accept(0)
    workers.now += 1
    workers.turn(0)
    assert workers.accept(0)
    workers.turn(1)
    assert not workers.accept(0)
    workers.shares[1].leave()
    assert workers.accept(0)
    workers.turn(1)
    assert not workers.accept(0)
    forget_worker(workers.cells, 1)
    assert workers.accept(0)


def test_a_worker_ends_connections_only_while_another_one_has_far_fewer(workers: Workers) -> None:
    workers.turn(0, 1)
    workers.shares[0].add(10)
    workers.shares[1].add(8)
    assert not workers.shares[0].must_shed()
    workers.shares[1].add(-4)
    assert not workers.shares[0].must_shed(), "the next check has its time"
    workers.now += 0.1
    assert workers.shares[0].must_shed()
    assert not workers.shares[0].must_shed(), "one at a time"
    workers.now += 0.1
    assert not workers.shares[1].must_shed()


def test_a_process_that_serves_alone_accepts_everything() -> None:
    share = ConnectionShare()
    share.record_turn()
    share.add(1000)
    assert share.may_accept()
    assert not share.must_shed()
    share.leave()
