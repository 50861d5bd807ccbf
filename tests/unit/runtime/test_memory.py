"""Memory: given back in quiet times, and divided among large answers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from docgraph.exchange.errors import Overloaded
from docgraph.runtime import Blocking, memory
from docgraph.runtime.memory import AnswerBudget, MemoryKeeper, find_trim, read_resident

pytestmark = pytest.mark.anyio

MIB = 1 << 20


@dataclass
class Process:
    """A process whose free memory is all that it has beyond `used`."""

    size: int = 80 * MIB
    used: int = 80 * MIB
    requests: int = 0
    trims: list[int] = field(default_factory=list)

    def trim(self) -> None:
        self.trims.append(self.size)
        self.size = self.used


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
async def keeper(process: Process) -> AsyncIterator[MemoryKeeper]:
    blocking = Blocking(1, 1)
    yield MemoryKeeper(
        lambda: process.requests,
        blocking.lane("memory", 1),
        trim=process.trim,
        measure=lambda: process.size,
    )
    await blocking.close()


async def test_what_was_taken_is_given_back_when_it_is_quiet(
    keeper: MemoryKeeper, process: Process
) -> None:
    await keeper.release()
    process.size = 300 * MIB

    await keeper.release()
    await keeper.release()

    assert process.trims == [300 * MIB]


async def test_nothing_is_done_while_many_requests_come(
    keeper: MemoryKeeper, process: Process
) -> None:
    await keeper.release()
    process.size, process.requests = 300 * MIB, 1000

    await keeper.release()
    assert process.trims == []

    await keeper.release()
    assert process.trims == [300 * MIB]


async def test_a_probe_now_and_then_does_not_keep_memory(
    keeper: MemoryKeeper, process: Process
) -> None:
    await keeper.release()
    process.size, process.requests = 300 * MIB, 5

    await keeper.release()

    assert process.trims == [300 * MIB]


async def test_little_is_not_worth_it_until_it_adds_up(
    keeper: MemoryKeeper, process: Process
) -> None:
    for growth in range(4):
        process.size = (80 + 3 * growth) * MIB
        await keeper.release()

    assert process.trims == [89 * MIB]


async def test_what_is_in_use_is_not_asked_for_again_and_again(
    keeper: MemoryKeeper, process: Process
) -> None:
    await keeper.release()
    process.size = process.used = 300 * MIB

    for _ in range(3):
        await keeper.release()

    assert process.trims == [300 * MIB]


async def test_without_glibc_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.confstr", lambda name: None)
    blocking = Blocking(1, 1)
    keeper = MemoryKeeper(lambda: 0, blocking.lane("memory", 1), measure=lambda: 1 // 0)

    await keeper.release()
    await blocking.close()


async def test_a_full_collection_is_not_made_for_what_open_connections_explain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 10 000 listeners it would block the event loop for a second."""
    objects, collected = [0] * 400_000, list[int]()
    monkeypatch.setattr("gc.get_objects", lambda generation: objects)
    monkeypatch.setattr("gc.collect", lambda: collected.append(len(objects)))
    connections = 2_000
    blocking = Blocking(1, 1)
    keeper = MemoryKeeper(
        lambda: 0,
        blocking.lane("memory", 1),
        count_connections=lambda: connections,
        trim=lambda: None,
    )
    keeper.collect_excess()
    assert collected == []
    connections = 0
    keeper.collect_excess()
    assert collected == [400_000]
    await blocking.close()


def test_where_memory_can_be_given_back_the_size_of_the_process_is_known() -> None:
    trim = find_trim()
    if trim is not None:  # with glibc, which is Linux
        trim()
        assert 10 * MIB < read_resident() < 1 << 40


@pytest.mark.parametrize(
    ("groups", "limits", "room"),
    [
        ("0::/system.slice/docgraph.service\n", {"": "max"}, None),
        ("0::/a/b\n", {"a/b": "max", "a": "1000", "": "max"}, 500),
        ("0::/a/b\n", {"a/b": "600", "a": "1000"}, 300),
        ("0::/../b\n", {"": "800"}, 400),  # a container sees its own group as the root
        ("4:cpu:/x\n3:memory,pids:/x\n", {"memory/x": "2000"}, 1000),
    ],
)
def test_room_in_a_cgroup_is_shared_by_the_workers(
    groups: str,
    limits: dict[str, str],
    room: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "groups").write_text(groups)
    is_first = "memory" in groups
    for place, limit in limits.items():
        (tmp_path / "root" / place).mkdir(parents=True, exist_ok=True)
        name = "memory.limit_in_bytes" if is_first else "memory.max"
        (tmp_path / "root" / place / name).write_text(limit + "\n")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path / "groups")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path / "root")
    monkeypatch.setattr(memory, "read_resident", lambda: 0)
    memory._find_cgroup_files.cache_clear()
    try:
        assert memory.read_room(2) == room
    finally:
        memory._find_cgroup_files.cache_clear()


def test_room_below_a_limit_of_the_address_space() -> None:
    script = (
        "import resource; from docgraph.runtime.memory import read_room\n"
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)); print(read_room(1))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert 6 << 30 < int(done.stdout) < 8 << 30


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_request_waits_until_there_is_memory() -> None:
    budget = AnswerBudget(10)
    first, second = budget.open(), budget.open()
    await first.acquire(8, None)
    waiting = asyncio.create_task(second.acquire(8, None))
    await _settle()
    assert not waiting.done()

    first.shrink(0)

    await waiting
    assert (budget.held, second.size) == (8, 8)


async def test_an_answer_larger_than_the_budget_is_built_alone() -> None:
    budget = AnswerBudget(1)
    share = budget.open()

    await share.acquire(100, None)
    await share.acquire(100, None)

    assert share.size == 200


async def test_two_that_need_more_do_not_wait_for_each_other() -> None:
    budget = AnswerBudget(10)
    older, younger = budget.open(), budget.open()
    await older.acquire(5, None)
    await younger.acquire(5, None)
    more = asyncio.create_task(younger.acquire(5, None))
    await _settle()

    await older.acquire(5, None)  # it holds memory for longest, and never waits

    assert not more.done()
    older.shrink(0)
    await more


async def test_the_next_oldest_goes_on_when_the_oldest_is_done() -> None:
    budget = AnswerBudget(10)
    shares = [budget.open() for _ in range(3)]
    await shares[0].acquire(4, None)
    await shares[1].acquire(4, None)
    large = asyncio.create_task(shares[1].acquire(50, None))
    new = asyncio.create_task(shares[2].acquire(1, None))
    await _settle()
    assert (large.done(), new.done()) == (False, False)

    shares[0].shrink(0)

    await large
    await _settle()
    assert not new.done()
    shares[1].shrink(0)
    await new


async def test_newcomers_do_not_overtake_one_that_waits() -> None:
    budget = AnswerBudget(10)
    first = budget.open()
    await first.acquire(6, None)
    large = asyncio.create_task(budget.open().acquire(8, None))
    await _settle()
    small = asyncio.create_task(budget.open().acquire(1, None))
    await _settle()
    assert (large.done(), small.done()) == (False, False)

    first.shrink(0)

    await asyncio.gather(large, small)


async def test_who_waits_too_long_is_rejected_and_holds_nothing() -> None:
    budget = AnswerBudget(10)
    first, second = budget.open(), budget.open()
    await first.acquire(10, None)

    with pytest.raises(Overloaded) as raised:
        await second.acquire(1, 0.0)

    assert (raised.value.bound, raised.value.headers) == ("memory", (("Retry-After", "1"),))
    assert (budget.held, second.size) == (10, 0)
    first.shrink(0)
    await second.acquire(10, 0.0)


async def test_one_that_leaves_the_queue_lets_others_pass() -> None:
    budget = AnswerBudget(10)
    first = budget.open()
    await first.acquire(6, None)
    large = asyncio.create_task(budget.open().acquire(8, None))
    await _settle()
    small = asyncio.create_task(budget.open().acquire(1, None))
    await _settle()

    large.cancel()

    await small


async def test_a_memory_limit_decides_and_may_change() -> None:
    room = 60

    def measure() -> int:
        return room + memory._SPARE

    budget = AnswerBudget(100, measure)
    first, second = budget.open(), budget.open()
    await first.acquire(10, None)
    room = 60 - budget.held
    await second.acquire(10, None)  # a third of 60
    room = 60 - budget.held
    with pytest.raises(Overloaded):
        await budget.open().acquire(1, 0.0)

    room = 90 - budget.held

    await budget.open().acquire(10, 0.0)
    room = 90 - budget.held
    with pytest.raises(Overloaded):
        await budget.open().acquire(1, 0.0)


@pytest.mark.parametrize("is_fixed", [False, True])
async def test_no_request_gets_more_than_the_process_has(*, is_fixed: bool) -> None:
    """Not even the oldest one, and not beyond what is left for small requests."""
    room = memory._SPARE + 50
    budget = AnswerBudget(1000, lambda: room, is_fixed=is_fixed)
    oldest = budget.open()
    await oldest.acquire(50, None)
    room = memory._SPARE + 10

    with pytest.raises(Overloaded):
        await oldest.acquire(11, 0.0)
    await oldest.acquire(10, 0.0)

    room = memory._SPARE - 1
    with pytest.raises(Overloaded):
        await oldest.acquire(1, 0.0)
    waiting = asyncio.create_task(oldest.acquire(1, None))
    await _settle()
    room = memory._SPARE + 1  # memory became free without a release
    await waiting


async def test_no_limit_leaves_the_largest_budget() -> None:
    def measure() -> None:
        return None

    budget = AnswerBudget(20, measure)
    await budget.open().acquire(10, None)
    await budget.open().acquire(10, None)

    with pytest.raises(Overloaded):
        await budget.open().acquire(1, 0.0)


async def test_requests_that_waited_do_not_all_continue_in_one_turn() -> None:
    budget, size = AnswerBudget(100 << 20), 1 << 20
    first, others = budget.open(), [budget.open() for _ in range(20)]
    await first.acquire(100 << 20, None)
    waiting = [asyncio.create_task(one.acquire(size, None)) for one in others]
    await _settle()

    first.shrink(0)

    done = [0]
    while done[-1] < len(others):
        await asyncio.sleep(0)
        done.append(sum(one.done() for one in waiting))
    assert max(after - before for before, after in pairwise(done)) == 1


async def test_a_request_that_holds_memory_now_overtakes_with_all_its_waits() -> None:
    """Two reads of a request wait, and another request between them."""
    budget = AnswerBudget(10)
    first, second, other = budget.open(), budget.open(), budget.open()
    await first.acquire(8, None)
    shares = (second, other, second)
    waiting = [asyncio.create_task(one.acquire(8, None)) for one in shares]
    await _settle()

    first.shrink(0)

    async with asyncio.timeout(60):
        await asyncio.gather(waiting[0], waiting[2])
    assert not waiting[1].done()
    second.shrink(0)
    await waiting[1]
