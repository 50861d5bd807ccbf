"""Nonces without memory, and counts that are accepted once (decision 36)."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from docgraph.auth.mechanisms import digest_nonces
from docgraph.auth.mechanisms.digest_nonces import (
    LIFETIME,
    Nonce,
    Nonces,
    SharedCounts,
    create_shared_counts,
)
from docgraph.exchange import Deadline
from tests.clock import Clock
from tests.expect import present
from tests.programs import require_semaphores

KEY = b"k" * 32
SOON = Deadline.never()


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000.0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    create_shared_counts(tmp_path / "counts")
    return tmp_path / "counts"


def test_nonce_is_read_by_everybody_who_has_the_key(clock: Clock) -> None:
    """Decision 36: workers and instances share the key."""
    text = Nonces(KEY, clock=clock).make()
    other = Nonces(KEY, clock=clock)
    nonce = other.read(text)
    assert nonce is not None
    assert nonce.made == clock.now
    assert other.is_fresh(nonce)


def test_nonce_of_another_key_is_not_ours(clock: Clock) -> None:
    assert Nonces(b"other", clock=clock).read(Nonces(KEY, clock=clock).make()) is None


def test_every_nonce_is_another_one(clock: Clock) -> None:
    nonces = Nonces(KEY, clock=clock)
    assert len({nonces.make() for _ in range(1000)}) == 1000


def test_a_change_of_any_character_breaks_the_seal(clock: Clock) -> None:
    nonces = Nonces(KEY, clock=clock)
    text = nonces.make()
    for place, character in enumerate(text):
        changed = text[:place] + ("A" if character != "A" else "B") + text[place + 1 :]
        assert nonces.read(changed) is None


@pytest.mark.parametrize("text", ["", "abc", "=" * 52, "ä" * 52, "!" * 52, "A" * 51 + "\n"])
def test_what_was_never_a_nonce_is_not_ours(text: str) -> None:
    assert Nonces(KEY).read(text) is None


@pytest.mark.parametrize(
    ("passed", "fresh"),
    [(0, True), (LIFETIME, True), (LIFETIME + 0.001, False), (-30, True), (-61, False)],
)
def test_nonce_lives_for_a_minute(clock: Clock, passed: float, fresh: bool) -> None:
    """Reliability 4: 60 s; the clock of another instance may be ahead."""
    nonces = Nonces(KEY, clock=clock)
    nonce = present(nonces.read(nonces.make()))
    clock.now += passed
    assert nonces.is_fresh(nonce) is fresh


def test_nonce_ages_after_half_of_its_life(clock: Clock) -> None:
    nonces = Nonces(KEY, clock=clock)
    nonce = present(nonces.read(nonces.make()))
    assert not nonces.is_ageing(nonce)
    clock.now += LIFETIME / 2 + 1
    assert nonces.is_ageing(nonce)


@pytest.mark.anyio
async def test_count_is_accepted_once_and_never_below_the_highest(
    table: Path, clock: Clock
) -> None:
    """A04: replays and lower counts 0 times, a jump once."""
    shared, nonce = SharedCounts(table, clock), Nonce(b"n", clock.now)
    accepted = [await shared.accept(nonce, count, SOON) for count in (1, 1, 2, 9, 9, 3, 10)]
    assert accepted == [True, False, True, True, False, False, True]
    await shared.close()


@pytest.mark.anyio
async def test_nonces_are_counted_apart(table: Path, clock: Clock) -> None:
    shared = SharedCounts(table, clock)
    assert await shared.accept(Nonce(b"a", clock.now), 5, SOON)
    assert await shared.accept(Nonce(b"b", clock.now), 1, SOON)
    await shared.close()


@pytest.mark.anyio
async def test_workers_see_each_others_counts(table: Path, clock: Clock) -> None:
    """Decision 36: once over all workers."""
    nonce = Nonce(b"n", clock.now)
    first, second = SharedCounts(table, clock), SharedCounts(table, clock)
    assert await first.accept(nonce, 1, SOON)
    assert not await second.accept(nonce, 1, SOON)
    await first.close()
    await second.close()


@pytest.mark.anyio
async def test_full_row_refuses_rather_than_forgets(
    table: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for a new nonce must not come from one that is alive: that would be a replay."""
    monkeypatch.setattr(digest_nonces, "ROWS", 1)
    shared = SharedCounts(table, clock)
    live = [Nonce(bytes([number]), clock.now) for number in range(digest_nonces.ROW_SLOTS)]
    assert all([await shared.accept(nonce, 1, SOON) for nonce in live])
    assert not await shared.accept(Nonce(b"new", clock.now), 1, SOON)
    assert not any([await shared.accept(nonce, 1, SOON) for nonce in live])
    clock.now += digest_nonces.KEPT + 2
    assert await shared.accept(Nonce(b"new", clock.now), 1, SOON)
    await shared.close()


def test_workers_that_start_together_make_one_table(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create_shared_counts, [path] * 16))
    assert [one.name for one in tmp_path.iterdir()] == ["counts"]


def test_one_of_many_processes_wins_a_count(table: Path) -> None:
    """Decision 36, with real processes."""
    require_semaphores()
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(2) as pool:
        won = pool.map(count_up, [str(table)] * 4, chunksize=1)
    accepted = [count for one in won for count in one]
    assert len(accepted) == len(set(accepted))
    assert 200 in accepted


def count_up(path: Any) -> Any:
    """In a process: claim each count in turn; those that were ours."""
    from pathlib import Path

    async def claim() -> Any:
        shared, nonce = SharedCounts(Path(path), lambda: 1e6), Nonce(b"n", 1e6)
        return [count for count in range(1, 201) if await shared.accept(nonce, count, SOON)]

    return anyio.run(claim)
