"""Background tasks: started again when they fail, gone when the server stops."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator

import pytest

from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import BackgroundFailed, BackgroundLeft, LoopLagged
from docgraph.runtime import Tasks, cancel_until_over, watch_loop
from docgraph.runtime.tasks import concurrently

pytestmark = pytest.mark.anyio


@pytest.fixture
def heard() -> Iterator[list[Event]]:
    events: list[Event] = []
    subscribe(events.append)
    yield events
    unsubscribe(events.append)


async def test_a_task_that_raises_is_told_and_started_again(heard: list[Event]) -> None:
    attempts = 0
    done = asyncio.Event()

    async def work() -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise ValueError(f"attempt {attempts}")
        done.set()

    async with Tasks(first_pause=0.001) as tasks:
        tasks.start("watch", work)
        await asyncio.wait_for(done.wait(), 30)

    failures = [event for event in heard if isinstance(event, BackgroundFailed)]
    assert [(e.task, e.failures, str(e.error)) for e in failures] == [
        ("watch", 1, "attempt 1"),
        ("watch", 2, "attempt 2"),
    ]


async def test_a_cancellation_from_inside_does_not_end_it(heard: list[Event]) -> None:
    attempts = 0
    done = asyncio.Event()

    async def work() -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise asyncio.CancelledError
        done.set()

    async with Tasks(first_pause=0.001) as tasks:
        tasks.start("watch", work)
        await asyncio.wait_for(done.wait(), 30)

    assert any(isinstance(event, BackgroundFailed) for event in heard)


async def test_a_task_that_returns_is_over() -> None:
    async def work() -> None:
        return

    async with Tasks() as tasks:
        tasks.start("once", work)
        async with asyncio.timeout(30):
            while tasks.is_running("once"):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
        tasks.start("once", work)


async def test_a_name_can_run_only_once() -> None:
    async with Tasks() as tasks:
        tasks.start("watch", asyncio.Event().wait)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="'watch' is running already"):
            tasks.start("watch", asyncio.Event().wait)  # type: ignore[arg-type]


async def test_closing_cancels_all() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("clean")

    tasks = Tasks()
    tasks.start("a", work)
    await begun.wait()
    await tasks.close()

    assert ended == ["clean"]
    assert not tasks.is_running("a")


async def test_one_task_can_be_stopped() -> None:
    async with Tasks() as tasks:
        tasks.start("a", asyncio.Event().wait)  # type: ignore[arg-type]
        tasks.start("b", asyncio.Event().wait)  # type: ignore[arg-type]

        await tasks.stop("a")

        assert not tasks.is_running("a")
        assert tasks.is_running("b")
        await tasks.stop("unknown")


async def test_a_task_that_does_not_listen_is_left_behind_and_told(heard: list[Event]) -> None:
    release = asyncio.Event()
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    tasks = Tasks()
    tasks.start("stubborn", work)
    await begun.wait()
    await asyncio.wait_for(tasks.close(grace=0.05), 30)

    left = [event for event in heard if isinstance(event, BackgroundLeft)]
    assert [(event.task, event.seconds) for event in left] == [("stubborn", 0.05)]
    release.set()


async def test_a_lost_cancellation_is_asked_for_again(heard: list[Event]) -> None:
    """As `asyncio.wait_for` loses one before Python 3.12."""
    begun = asyncio.Event()
    lost = 0

    async def work() -> None:
        nonlocal lost
        begun.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    tasks = Tasks()
    tasks.start("forgetful", work)
    await begun.wait()
    await asyncio.wait_for(tasks.close(grace=30), 30)

    assert lost == 3
    assert heard == []


async def test_one_task_that_loses_a_cancellation_can_be_stopped() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    async with Tasks() as tasks:
        tasks.start("forgetful", work)
        await begun.wait()
        task = next(one for one in asyncio.all_tasks() if one.get_name() == "forgetful")
        await asyncio.wait_for(tasks.stop("forgetful"), 30)

        assert task.done()


async def test_an_error_while_it_is_stopped_ends_a_task(heard: list[Event]) -> None:
    attempts = 0
    begun = asyncio.Event()

    async def work() -> None:
        nonlocal attempts
        attempts += 1
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            if attempts == 1:
                raise ValueError("the connection is closed")

    tasks = Tasks(first_pause=0)
    tasks.start("watch", work)
    await begun.wait()
    await tasks.close()

    assert attempts == 1
    assert [(e.task, e.retry_seconds) for e in heard if isinstance(e, BackgroundFailed)] == [
        ("watch", 0.0)
    ]
    assert not [event for event in heard if isinstance(event, BackgroundLeft)]


async def test_nothing_starts_after_the_end() -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("late")

    tasks = Tasks()
    await tasks.close()
    tasks.start("late", work)
    await asyncio.sleep(0)

    assert not tasks.is_running("late")
    assert begun == []


async def test_a_task_that_is_stopped_cannot_start_another() -> None:
    begun = asyncio.Event()
    tasks = Tasks()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            tasks.start("child", asyncio.Event().wait)  # type: ignore[arg-type]

    tasks.start("parent", work)
    await begun.wait()
    await tasks.close()

    assert not tasks.is_running("child")


async def test_what_a_cancelled_task_raises_is_not_complained_about() -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("too late")

    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    task = asyncio.create_task(work())
    await asyncio.sleep(0)

    assert await cancel_until_over([task]) == set()

    del task
    gc.collect()
    asyncio.get_running_loop().set_exception_handler(None)
    assert complaints == []


async def test_a_loop_that_is_held_up_is_noticed(heard: list[Event]) -> None:
    async with Tasks() as tasks:
        tasks.start("lag", lambda: watch_loop(threshold=0.05, interval=0.01))
        async with asyncio.timeout(30):
            while not heard:
                await asyncio.sleep(0.02)
                time.sleep(0.1)  # noqa: ASYNC251 - holds the loop up

    assert isinstance(heard[0], LoopLagged)
    assert heard[0].seconds > 0.05


class Away:
    """An outage that explains errors of the operating system."""

    def __init__(self) -> None:
        self.asked: list[BaseException] = []

    async def explains(self, error: BaseException) -> bool:
        self.asked.append(error)
        return isinstance(error, OSError)

    async def over(self) -> None:
        """It is over at once."""


async def test_what_an_outage_explains_is_tried_again_and_not_told(heard: list[Event]) -> None:
    errors: list[Exception] = [OSError("away"), ValueError("a fault of its own"), OSError("away")]
    done = asyncio.Event()

    async def work() -> None:
        if errors:
            raise errors.pop(0)
        done.set()

    away = Away()
    async with Tasks(first_pause=0.001, outage=away) as tasks:
        tasks.start("watch", work)
        await asyncio.wait_for(done.wait(), 30)

    failures = [event for event in heard if isinstance(event, BackgroundFailed)]
    assert [(one.task, str(one.error)) for one in failures] == [("watch", "a fault of its own")]
    assert len(away.asked) == 3


async def test_results_come_in_the_order_of_the_calls() -> None:
    async def say(number: int) -> int:
        await asyncio.sleep(0)
        return number

    assert await concurrently(say(number) for number in range(3)) == [0, 1, 2]
    assert await concurrently([say(7)]) == [7]


async def test_the_first_error_comes_out_as_itself_after_the_others_have_ended() -> None:
    ended = asyncio.Event()

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(ValueError, match="no"):
        await concurrently([wait(), fail()])

    assert ended.is_set()
