"""What follows many writes is done once; keyed locks; tasks that finish although nobody waits."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection, Iterator
from contextvars import ContextVar, copy_context

import pytest

from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import UnattendedFailed
from docgraph.runtime import KeyedLock
from docgraph.runtime.after_commit import AfterCommit, ShieldedTasks, gather

pytestmark = pytest.mark.anyio

LONG = 60.0
said: ContextVar[str] = ContextVar("said", default="")


class Work:
    """Waits until it is let go, then returns or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.began, self.may_end = asyncio.Event(), asyncio.Event()
        self.is_done = False

    async def __call__(self) -> str:
        self.began.set()
        await self.may_end.wait()
        self.is_done = True
        if self.error is not None:
            raise self.error
        return said.get()


@pytest.fixture
def failures() -> Iterator[list[UnattendedFailed]]:
    events: list[UnattendedFailed] = []

    def hear(event: Event) -> None:
        if isinstance(event, UnattendedFailed):
            events.append(event)

    subscribe(hear)
    yield events
    unsubscribe(hear)


async def leave(units: ShieldedTasks, work: Work) -> None:
    """Begin the work and go away in the middle of it."""
    caller = asyncio.create_task(units.run("work", work))
    await work.began.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_who_waits_gets_the_result_with_the_context_of_the_caller() -> None:
    work = Work()
    work.may_end.set()
    said.set("hello")

    assert await ShieldedTasks().run("work", work) == "hello"


async def test_who_waits_gets_the_error_and_the_log_does_not(
    failures: list[UnattendedFailed],
) -> None:
    work = Work(ValueError("no"))
    work.may_end.set()

    with pytest.raises(ValueError, match="no"):
        await ShieldedTasks().run("work", work)

    assert failures == []


async def test_work_goes_on_when_its_caller_is_cancelled() -> None:
    units, work = ShieldedTasks(), Work()
    await leave(units, work)

    assert (len(units), work.is_done) == (1, False)
    work.may_end.set()
    await units.drain(LONG)
    assert (len(units), work.is_done) == (0, True)


async def test_an_error_that_nobody_waits_for_is_emitted(
    failures: list[UnattendedFailed],
) -> None:
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    units, work = ShieldedTasks(), Work(ValueError("no"))
    await leave(units, work)
    work.may_end.set()
    await units.drain(LONG)
    gc.collect()
    await asyncio.sleep(0)

    assert [(one.work, str(one.error)) for one in failures] == [("work", "no")]
    assert unseen == []
    asyncio.get_running_loop().set_exception_handler(None)


async def test_settling_waits_for_what_was_begun() -> None:
    units, work = ShieldedTasks(), Work()
    await leave(units, work)
    settling = asyncio.create_task(units.drain(LONG))
    asyncio.get_running_loop().call_soon(work.may_end.set)
    await settling

    assert work.is_done


async def test_settling_has_an_end_and_says_what_it_cut_off(
    failures: list[UnattendedFailed],
) -> None:
    units, work = ShieldedTasks(), Work()
    await leave(units, work)
    await units.drain(0)
    await asyncio.sleep(0)

    assert (len(units), work.is_done) == (0, False)
    assert [one.work for one in failures] == ["work"]


async def test_a_unit_in_a_unit_is_a_part_of_it() -> None:
    units = ShieldedTasks(most=1)

    async def outer() -> int:
        return await units.run("inner", inner)

    async def inner() -> int:
        return len(units)

    assert await units.run("outer", outer) == 1


async def test_units_are_bounded_and_who_waits_for_room_may_leave() -> None:
    units, first, second = ShieldedTasks(most=1), Work(), Work()
    await leave(units, first)
    waiting = asyncio.create_task(units.run("second", second))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not second.began.is_set()

    first.may_end.set()
    second.may_end.set()
    await units.run("second", second)
    assert second.is_done


async def test_holders_of_one_key_take_turns_in_order_and_others_do_not_wait() -> None:
    turns, seen, first = KeyedLock(), [], asyncio.Event()

    async def hold(name: str, key: str, until: asyncio.Event | None = None) -> None:
        async with turns.hold(key):
            seen.append(name)
            if until is not None:
                await until.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(hold("a", "x", first))
        group.create_task(hold("b", "x"))
        group.create_task(hold("c", "x"))
        await group.create_task(hold("d", "y"))
        assert seen == ["a", "d"]
        first.set()

    assert seen == ["a", "d", "b", "c"]
    assert len(turns) == 0


async def test_who_leaves_while_waiting_or_fails_leaves_nothing_behind() -> None:
    turns = KeyedLock()

    async def wait() -> None:
        async with turns.hold("x"):
            raise LookupError

    async with turns.hold("x"):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(turns) == 1
    with pytest.raises(LookupError):
        await wait()
    assert len(turns) == 0


async def test_alone_it_is_done_at_once() -> None:
    done: list[Collection[str]] = []

    async def work(items: Collection[str]) -> None:
        done.append(items)

    await gather("key", ("a",), work)
    await gather("key", ("b",), work)

    assert done == [("a",), ("b",)]


async def test_gathered_it_is_done_once_for_all_of_a_key() -> None:
    done: list[tuple[str, Collection[str]]] = []
    gathering = AfterCommit()

    async def ask(key: str, *items: str) -> None:
        async def work(all: Collection[str]) -> None:
            done.append((key, all))

        await gather(key, items, work)

    for key, items in (("x", "ab"), ("y", ""), ("x", "bc")):
        context = copy_context()
        gathering.enter(context)
        await asyncio.create_task(ask(key, *items), context=context)

    assert done == []
    await gathering.finish()
    assert done == [("x", ("a", "b", "c")), ("y", ())]
    await ask("x", "d")
    assert done[2:] == [("x", ("d",))]  # nobody else's context has changed


async def test_what_fails_keeps_nothing_else_from_being_done() -> None:
    done: list[str] = []
    gathering = AfterCommit()

    async def fail(_: Collection[str]) -> None:
        raise ValueError("first")

    async def work(_: Collection[str]) -> None:
        done.append("second")

    gathering.defer("x", (), fail)
    gathering.defer("y", (), work)

    with pytest.raises(ValueError, match="first"):
        await gathering.finish()
    assert done == ["second"]
