"""Memory is given back in quiet times, and only when there is some to give."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from docgraph.runtime import Blocking, memory
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
