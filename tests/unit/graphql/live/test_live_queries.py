"""Live queries: shared executions, merged changes, the newest answer, fair turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from docgraph.exchange.close_reason import FAILED, GONE, LEFT, NOT_ALLOWED, NOT_KNOWN, StreamClosed
from docgraph.exchange.errors import (
    Forbidden,
    NotFound,
    SecurityViolation,
    StoreUnavailable,
    TooManyRequests,
    Unauthenticated,
)
from docgraph.graphql.live.live_query import LiveQuery, Worked, find_retry_after
from docgraph.graphql.live.run_schedule import SHARED_COST, RunSchedule
from docgraph.graphql.live.shared_answers import LiveAnswer, OnChange, SharedAnswer, SharedAnswers
from tests.clock import Clock

pytestmark = pytest.mark.anyio


class Run:
    """A due run that ends when the test lets it."""

    def __init__(self, user: str, started: list[str], cost: float = 1.0) -> None:
        self.user = user
        self.started = started
        self.cost = cost

    async def run(self) -> float:
        self.started.append(self.user)
        return self.cost


async def turn(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_users_take_turns_when_there_is_more_to_run_than_allowed() -> None:
    clock, started = Clock(), list[str]()
    schedule = RunSchedule(4, clock=clock)  # one at a moment
    for user in "aaaab":
        schedule.add(Run(user, started))
    schedule.add(Run("c", started))
    for _ in range(5):
        await turn()
        clock.now += 0.25
        schedule.start_due()
    await turn()
    assert started == ["a", "a", "b", "c", "a", "a"]
    await schedule.close()


async def test_no_more_is_run_than_the_rate_allows() -> None:
    clock, started = Clock(), list[str]()
    schedule = RunSchedule(8, clock=clock)
    for _ in range(10):
        schedule.add(Run("a", started))
    await turn()
    assert (len(started), schedule.waiting) == (2, 8)
    clock.now += 100  # what was not used is not saved up
    schedule.start_due()
    await turn()
    assert (len(started), schedule.waiting) == (4, 6)
    await schedule.close()


async def test_a_run_that_shares_an_execution_costs_less() -> None:
    clock, started = Clock(), list[str]()
    schedule = RunSchedule(4, clock=clock)
    for _ in range(3):
        schedule.add(Run("a", started, cost=0.0))
    await turn(20)
    assert len(started) == 3
    schedule.add(Run("a", started))
    schedule.add(Run("a", started))
    await turn()
    assert (len(started), schedule.waiting) == (4, 1)
    await schedule.close()


async def test_a_run_that_was_removed_is_not_started() -> None:
    schedule, started = RunSchedule(4, clock=Clock()), list[str]()
    first, second, third = (Run(user, started) for user in "abc")
    for one in (first, second, third):
        schedule.add(one)
    schedule.remove(second)
    schedule.remove(second)
    assert schedule.waiting == 1
    await schedule.close()


class Listener:
    """Counts how often it was notified."""

    def __init__(self) -> None:
        self.shared: SharedAnswer | None = None
        self.changes = 0

    def mark_changed(self) -> None:
        self.changes += 1


class Executions:
    """Executions whose answers the test gives."""

    def __init__(self) -> None:
        self.count = self.released = 0
        self.expire: list[OnChange] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, on_change: OnChange) -> tuple[LiveAnswer, Callable[[], None]]:
        self.count += 1
        number = self.count
        self.expire.append(on_change)
        await self.gate.wait()
        return LiveAnswer.build(b"%d" % number), self.release

    def release(self) -> None:
        self.released += 1


async def test_equal_queries_have_one_execution_until_the_answer_is_outdated() -> None:
    answers, executions = SharedAnswers(), Executions()
    one, two, other = Listener(), Listener(), Listener()
    executions.gate.clear()
    reads = [
        asyncio.create_task(answers.read(key, listener, executions))
        for key, listener in (("a", one), ("a", two), ("b", other))
    ]
    await turn()
    executions.gate.set()
    results = [(answer.content, is_own) for answer, is_own in await asyncio.gather(*reads)]
    assert results == [(b"1", True), (b"1", False), (b"2", True)]

    executions.expire[0]()
    executions.expire[0]()
    assert (one.changes, two.changes, other.changes) == (1, 1, 0)
    assert executions.released == 1
    assert (await answers.read("a", two, executions))[0].content == b"3"
    assert (await answers.read("a", one, executions))[0].content == b"3"
    for listener in (one, two, other):
        answers.leave(listener)
    assert (executions.released, len(answers)) == (3, 0)


async def test_a_change_during_the_execution_is_not_lost() -> None:
    answers, executions, listener = SharedAnswers(), Executions(), Listener()
    executions.gate.clear()
    reading = asyncio.create_task(answers.read("a", listener, executions))
    await turn()
    executions.expire[0]()
    executions.gate.set()
    assert (await reading)[0].content == b"1"
    assert (listener.changes, executions.released, len(answers)) == (1, 1, 0)


async def test_who_leaves_does_not_end_the_execution_of_others() -> None:
    answers, executions = SharedAnswers(), Executions()
    one, two = Listener(), Listener()
    executions.gate.clear()
    first = asyncio.create_task(answers.read("a", one, executions))
    second = asyncio.create_task(answers.read("a", two, executions))
    await turn()
    first.cancel()
    await turn()
    answers.leave(one)
    executions.gate.set()
    assert (await second)[0].content == b"1"
    answers.leave(two)
    assert len(answers) == 0


async def test_an_execution_that_nobody_waits_for_is_cancelled() -> None:
    answers, executions, listener = SharedAnswers(), Executions(), Listener()
    executions.gate.clear()
    reading = asyncio.create_task(answers.read("a", listener, executions))
    await turn()
    reading.cancel()
    await turn()
    answers.leave(listener)
    await turn()
    assert (executions.released, len(answers)) == (0, 0)
    executions.gate.set()
    assert (await answers.read("a", listener, executions))[0].content == b"2"
    answers.leave(listener)


async def test_answers_that_are_retained_have_a_maximum_size() -> None:
    answers, executions = SharedAnswers(max_bytes=2), Executions()
    listeners = {key: Listener() for key in "abc"}
    for key, listener in listeners.items():
        await answers.read(key, listener, executions)
    assert len(answers) == 2  # each has one byte
    executions.expire[0]()  # changes of the others are still reported
    assert [one.changes for one in listeners.values()] == [1, 0, 0]
    late = Listener()
    assert (await answers.read("c", late, executions))[1] is False
    assert (await answers.read("a", late, executions))[1] is True
    for listener in (*listeners.values(), late):
        answers.leave(listener)
    assert (len(answers), answers._bytes) == (0, 0)
    assert executions.released == executions.count


async def test_a_failed_execution_fails_all_and_is_not_kept() -> None:
    answers, executions, listener = SharedAnswers(), Executions(), Listener()

    async def fail(on_change: OnChange) -> tuple[LiveAnswer, Callable[[], None]]:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        await answers.read("a", listener, fail)
    assert (await answers.read("a", listener, executions))[0].content == b"1"
    answers.leave(listener)


class Work:
    """Runs of one query; their results are given by the test."""

    def __init__(self) -> None:
        self.outcome: bytes | Exception = b"1"
        self.has_errors = False
        self.count = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, query: LiveQuery) -> Worked:
        self.count += 1
        await self.gate.wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return Worked(LiveAnswer.build(self.outcome, has_errors=self.has_errors))


def build(work: Work, interval: float = 0.0, clock: Clock | None = None) -> LiveQuery:
    schedule = RunSchedule(1e6)
    return LiveQuery("a", work, schedule, interval, clock=clock or Clock())


async def test_only_an_answer_that_differs_is_sent() -> None:
    work = Work()
    query = build(work)
    query.begin(LiveAnswer.build(b"1"))
    assert await query.read() == b"1"
    for _ in range(3):
        query.mark_changed()
        await turn()
    assert (work.count, query.pop()) == (3, None)
    work.outcome = b"2"
    query.mark_changed()
    assert await query.read() == b"2"


async def test_changes_during_a_run_are_merged_into_one_more() -> None:
    work = Work()
    query = build(work)
    query.begin(LiveAnswer.build(b"0"))
    work.gate.clear()
    for _ in range(5):
        query.mark_changed()
        await turn()
    assert work.count == 1
    work.gate.set()
    await turn(20)
    assert work.count == 2


async def test_two_runs_have_an_interval_between_them() -> None:
    work, clock = Work(), Clock()
    query = build(work, interval=3600.0, clock=clock)
    query.begin(LiveAnswer.build(b"0"))
    query.mark_changed()
    await turn(20)
    assert work.count == 0
    query.end(LEFT)
    late = build(work, interval=3600.0, clock=clock)
    late.begin(LiveAnswer.build(b"0"))
    clock.now += 3600.0
    late.mark_changed()
    await turn(20)
    assert work.count == 1


async def test_a_client_that_reads_late_gets_the_newest_answer_alone() -> None:
    work = Work()
    query = build(work)
    query.begin(LiveAnswer.build(b"0"))
    for number in range(1, 4):
        work.outcome = b"%d" % number
        query.mark_changed()
        await turn()
    assert await query.read() == b"3"
    assert query.pop() is None


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (Unauthenticated("no"), NOT_KNOWN),
        (Forbidden("no"), NOT_ALLOWED),
        (NotFound("no"), GONE),
        (SecurityViolation("no"), FAILED),
        (RuntimeError("a fault"), FAILED),
    ],
)
async def test_a_query_that_is_rejected_now_ends(error: Exception, ending: object) -> None:
    work = Work()
    query = build(work)
    query.begin(LiveAnswer.build(b"0"))
    assert await query.read() == b"0"
    work.outcome = error
    query.mark_changed()
    with pytest.raises(StreamClosed) as ended:
        await query.read()
    assert ended.value.ending == ending
    query.mark_changed()
    await turn()
    assert work.count == 1


@pytest.mark.parametrize(
    "error", [StoreUnavailable("away"), TooManyRequests("slow", headers=[("Retry-After", "7")])]
)
async def test_a_failure_that_passes_is_tried_again_later(error: Exception) -> None:
    work, clock = Work(), Clock()
    query = build(work, clock=clock)
    query.begin(LiveAnswer.build(b"0"))
    work.outcome = error
    query.mark_changed()
    await turn(20)
    assert (work.count, query.ending) == (1, None)
    assert query._timer is not None  # another attempt is planned
    query.end(LEFT)


async def test_a_rate_limit_says_when_to_come_back() -> None:
    assert find_retry_after(TooManyRequests("slow", headers=[("Retry-After", "7")])) == 7.0
    assert find_retry_after(TooManyRequests("slow")) == 0.0


async def test_an_answer_with_errors_is_sent_and_tried_again() -> None:
    work = Work()
    query = build(work)
    query.begin(LiveAnswer.build(b"0", has_errors=True))
    assert await query.read() == b"0"
    assert query._retry is not None
    query.mark_changed()  # a change does not wait for that
    assert await query.read() == b"1"
    assert query._retry is None


def test_shared_runs_are_cheaper_but_not_free() -> None:
    assert 0 < SHARED_COST < 1


async def test_a_new_listener_shares_no_answer_from_before_a_write() -> None:
    """The watch may not know a write yet that the caller has made."""
    writes = [1]
    answers, executions = SharedAnswers(count_writes=lambda: tuple(writes)), Executions()
    one, two, three = Listener(), Listener(), Listener()
    await answers.read("a", one, executions)
    assert (await answers.read("a", two, executions))[1] is False
    writes[0] = 2

    assert (await answers.read("a", three, executions))[1] is True
    assert (await answers.read("a", one, executions))[1] is False
    assert len(answers) == 1
