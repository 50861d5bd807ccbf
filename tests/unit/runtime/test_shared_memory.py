"""Shared memory: hits within a sliding window, and generations by which workers notice changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from docgraph.runtime.shared_memory import (
    NAMES,
    ROW_SLOTS,
    ROWS,
    Generations,
    WindowCounters,
    create_counters,
    create_generations,
    find_write_slot,
)
from tests.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counters(tmp_path: Path, clock: Clock) -> Iterator[WindowCounters]:
    create_counters(tmp_path / "counters")
    opened = WindowCounters(tmp_path / "counters", 10.0, b"k" * 32, clock)
    yield opened
    opened.close()


def test_hits_are_counted_by_key(counters: WindowCounters) -> None:
    assert [counters.hit("a") for _ in range(3)] == [1, 2, 3]
    assert counters.hit("b") == 1
    assert counters.read("a") == 3
    assert counters.read("c") == 0


def test_hits_leave_the_window_as_it_slides(counters: WindowCounters, clock: Clock) -> None:
    for _ in range(10):
        counters.hit("a")

    seen = []
    for _ in range(5):
        seen.append(counters.read("a"))
        clock.now += 5

    assert seen == [10, 10, 10, 5, 0]


def test_an_old_key_begins_anew(counters: WindowCounters, clock: Clock) -> None:
    for _ in range(10):
        counters.hit("a")

    clock.now += 1000

    assert counters.hit("a") == 1


def test_a_key_can_be_reset(counters: WindowCounters) -> None:
    counters.hit("a")
    counters.hit("b")

    counters.reset("a")
    counters.reset("never seen")

    assert counters.read("a") == 0
    assert counters.read("b") == 1


def test_a_flood_of_new_keys_does_not_push_out_those_with_many_hits(
    counters: WindowCounters,
) -> None:
    """Decision 37: a guard that forgets under a flood would be none."""
    for _ in range(20):
        counters.hit("attacker")

    for number in range(ROWS * ROW_SLOTS):
        counters.hit(f"address-{number}")

    assert counters.read("attacker") == 20


def test_what_is_too_old_makes_room(counters: WindowCounters, clock: Clock) -> None:
    for number in range(ROWS * ROW_SLOTS):
        counters.hit(f"old-{number}")
        counters.hit(f"old-{number}")
    clock.now += 100

    for number in range(100):
        counters.hit(f"new-{number}")

    assert all(counters.read(f"new-{number}") == 1 for number in range(100))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_generations(tmp_path / "generations")
    return tmp_path / "generations"


@pytest.fixture
def generations(path: Path) -> Iterator[Generations]:
    opened = Generations(path)
    yield opened
    opened.close()


def test_all_counters_begin_at_nothing(generations: Generations) -> None:
    """Decision 44."""
    assert {name: generations.read(name) for name in NAMES} == dict.fromkeys(NAMES, 0)
    assert len(NAMES) == len(set(NAMES))
    assert {"apps", "users", "rules", "tokens", "logins", "collections"} <= set(NAMES)
    assert {"disk", "ready", "stopping"} <= set(NAMES)


def test_a_bump_moves_one_counter_for_everybody(path: Path, generations: Generations) -> None:
    other = Generations(path)

    assert generations.bump("apps") == 1
    assert other.bump("apps") == 2

    assert generations.read("apps") == other.read("apps") == 2
    assert other.read("users") == 0
    other.close()


def test_threads_lose_no_bump(generations: Generations) -> None:
    threads = [
        threading.Thread(target=lambda: [generations.bump("rules") for _ in range(500)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert generations.read("rules") == 2000


def test_an_unknown_name_is_an_error(generations: Generations) -> None:
    with pytest.raises(KeyError):
        generations.read("nonsense")  # type: ignore[arg-type]


def test_the_file_is_private_and_made_once(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        create_generations(path)


def test_writes_are_counted_by_collection_for_everybody(
    path: Path, generations: Generations
) -> None:
    other = Generations(path)
    slot, untouched = find_write_slot("shop.orders"), find_write_slot("shop.items")
    before = generations.copy_writes()

    other.record_writes(["shop.orders", "shop"])

    assert slot != untouched
    assert generations.copy_writes()[slot] == before[slot] + 1
    assert generations.copy_writes()[find_write_slot("shop")] == 1
    assert generations.copy_writes()[untouched] == before[untouched] == 0
    assert generations.has_no_writes_since([(untouched, 0)])
    assert not generations.has_no_writes_since([(untouched, 0), (slot, before[slot])])
    assert {name for name in NAMES if generations.read(name)} == {"writes"}
    assert generations.read("writes") == 1
    other.close()
