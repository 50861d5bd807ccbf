"""Shared counters within one process; those of several are in tests/process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from docgraph.runtime.shared_memory import (
    NAMES,
    Generations,
    create_generations,
    find_write_slot,
)


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
