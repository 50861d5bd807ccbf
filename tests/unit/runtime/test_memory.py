"""Memory is given back in quiet times, and only when there is some to give."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from docgraph.runtime import Blocking
from docgraph.runtime.memory import MemoryKeeper, find_trim, read_resident

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
    keeper = MemoryKeeper(lambda: 0, blocking.lane("memory", 1))

    await keeper.run()  # returns
    await blocking.close()


def test_where_memory_can_be_given_back_the_size_of_the_process_is_known() -> None:
    trim = find_trim()
    if trim is not None:  # with glibc, which is Linux
        trim()
        assert 10 * MIB < read_resident() < 1 << 40
