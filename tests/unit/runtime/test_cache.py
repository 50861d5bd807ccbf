"""The loading cache and its races."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from docgraph.exchange.errors import Overloaded
from docgraph.runtime import AFTER_READ, LoadingCache, LruDict
from tests.clock import Clock

pytestmark = pytest.mark.anyio


class Source:
    """A loader that counts, and that waits as long as it is closed."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.value = "old"
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()

    async def load(self, key: str) -> str:
        self.calls.append(key)
        value = f"{key}:{self.value}"  # read before the wait, as a database does
        self.waiting.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return value


async def test_a_value_is_loaded_once_and_kept() -> None:
    cache, source = LoadingCache[str, str](10), Source()

    first = await cache.get("a", source.load)
    second = await cache.get("a", source.load)

    assert first == second == "a:old"
    assert source.calls == ["a"]


async def test_all_who_ask_at_once_share_one_load() -> None:
    cache, source = LoadingCache[str, str](10), Source()

    values = await asyncio.gather(*(cache.get("a", source.load) for _ in range(50)))

    assert set(values) == {"a:old"}
    assert source.calls == ["a"]


async def test_none_is_a_value_like_any_other() -> None:
    cache = LoadingCache[str, None](10)
    calls: list[str] = []

    async def load(key: str) -> None:
        calls.append(key)

    await cache.get("a", load)
    await cache.get("a", load)

    assert calls == ["a"]


async def test_a_failing_load_fails_all_who_wait_and_keeps_nothing() -> None:
    cache, source = LoadingCache[str, str](10), Source()
    source.error = ValueError("no")

    outcomes = await asyncio.gather(
        *(cache.get("a", source.load) for _ in range(3)), return_exceptions=True
    )
    source.error = None
    recovered = await cache.get("a", source.load)

    assert [str(outcome) for outcome in outcomes] == ["no"] * 3
    assert recovered == "a:old"
    assert source.calls == ["a", "a"]


async def test_cancelling_one_who_waits_leaves_the_load_to_the_others() -> None:
    cache, source = LoadingCache[str, str](10), Source()
    source.gate.clear()
    first = asyncio.create_task(cache.get("a", source.load))
    second = asyncio.create_task(cache.get("a", source.load))
    await source.waiting.wait()

    first.cancel()
    await asyncio.wait([first])
    source.gate.set()

    assert first.cancelled()
    assert await second == "a:old"
    assert source.calls == ["a"]


async def test_a_load_that_everybody_left_is_kept_all_the_same() -> None:
    cache, source = LoadingCache[str, str](10), Source()
    source.gate.clear()
    waiter = asyncio.create_task(cache.get("a", source.load))
    await source.waiting.wait()

    waiter.cancel()
    await asyncio.wait([waiter])
    source.gate.set()

    assert await cache.get("a", source.load) == "a:old"
    assert source.calls == ["a"]


async def test_what_was_read_before_an_invalidation_is_not_kept() -> None:
    cache, source = LoadingCache[str, str](10), Source()
    source.gate.clear()
    early = asyncio.create_task(cache.get("a", source.load))
    await source.waiting.wait()

    source.value = "new"
    cache.invalidate("a")
    late = asyncio.create_task(cache.get("a", source.load))
    source.gate.set()

    assert await early == "a:old"
    assert await late == "a:new"
    assert await cache.get("a", source.load) == "a:new"
    assert source.calls == ["a", "a"]


async def test_an_old_load_that_ends_last_does_not_replace_the_new_value() -> None:
    cache, source = LoadingCache[str, str](10), Source()
    source.gate.clear()
    early = asyncio.create_task(cache.get("a", source.load))
    await source.waiting.wait()

    async def load_now(key: str) -> str:
        return "new"

    cache.clear()
    await cache.get("a", load_now)
    source.gate.set()
    await early

    assert cache.peek("a") == "new"


async def test_a_value_put_during_a_load_wins() -> None:
    cache, source = LoadingCache[str, str](10), Source()
    source.gate.clear()
    early = asyncio.create_task(cache.get("a", source.load))
    await source.waiting.wait()

    cache.put("a", "put")
    source.gate.set()
    await early

    assert cache.peek("a") == "put"


async def test_the_least_recently_used_value_makes_room() -> None:
    cache, source = LoadingCache[str, str](2), Source()

    for key in ("a", "b", "a", "c"):
        await cache.get(key, source.load)

    assert cache.peek("a") is not None
    assert cache.peek("b") is None
    assert cache.peek("c") is not None


async def test_a_cache_without_room_still_loads_once_for_all() -> None:
    cache, source = LoadingCache[str, str](0), Source()

    await asyncio.gather(cache.get("a", source.load), cache.get("a", source.load))
    await cache.get("a", source.load)

    assert source.calls == ["a", "a"]


@pytest.mark.parametrize(
    ("build", "calls"),
    [
        (lambda clock: LoadingCache[str, str](10, 60, clock=clock), 2),
        (lambda clock: LoadingCache[str, str](10, 60, AFTER_READ, clock=clock), 1),
        (lambda clock: LoadingCache[str, str](10, clock=clock), 1),
    ],
    ids=["after-write", "after-read", "never"],
)
async def test_the_age_of_a_value_counts_from_write_or_read(
    build: Callable[[Clock], LoadingCache[str, str]], calls: int
) -> None:
    clock, source = Clock(), Source()
    cache = build(clock)

    for _ in range(3):
        await cache.get("a", source.load)
        clock.now += 40

    assert len(source.calls) == calls


@pytest.mark.parametrize("policy", ["write", "read"])
async def test_a_value_that_is_too_old_is_gone(policy: str) -> None:
    clock, source = Clock(), Source()
    cache = (
        LoadingCache[str, str](10, 60, AFTER_READ, clock=clock)
        if policy == "read"
        else LoadingCache[str, str](10, 60, clock=clock)
    )
    await cache.get("a", source.load)

    clock.now += 60

    assert cache.peek("a") is None
    await cache.get("a", source.load)
    assert source.calls == ["a", "a"]


# --- the end --------------------------------------------------------------------------------------


async def test_closing_ends_what_is_being_loaded_and_tells_who_waits() -> None:
    cache, ended = LoadingCache[str, str](10), []

    async def load(key: str) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(key)
        return key

    asking = [asyncio.create_task(cache.get(key, load)) for key in ("a", "a", "b")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    await cache.close()

    assert sorted(ended) == ["a", "b"]
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(one) for one in outcomes] == [Overloaded] * 3


async def test_a_load_that_nobody_waits_for_is_over_after_closing() -> None:
    cache, before = LoadingCache[str, str](10), asyncio.all_tasks()

    async def load(_: str) -> str:
        await asyncio.Event().wait()
        return ""

    asking = asyncio.create_task(cache.get("a", load))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    assert len(asyncio.all_tasks() - before) == 1

    await cache.close()

    assert asyncio.all_tasks() == before


async def test_after_closing_nothing_is_loaded_and_what_is_there_stays() -> None:
    cache, source = LoadingCache[str, str](10), Source()
    cache.put("a", "kept")
    await cache.close()

    assert await cache.get("a", source.load) == "kept"
    with pytest.raises(Overloaded):
        await cache.get("b", source.load)


async def test_who_waits_and_is_cancelled_hears_of_that_while_the_cache_closes() -> None:
    cache = LoadingCache[str, str](10)

    async def load(_: str) -> str:
        await asyncio.Event().wait()
        return ""

    asking = asyncio.create_task(cache.get("a", load))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    await cache.close()
    await asyncio.wait([asking])

    assert asking.cancelled()


def test_a_value_is_found_again() -> None:
    kept: LruDict[str, int] = LruDict(2)
    kept.put("a", 1)
    assert kept.get("a") == 1
    assert kept.get("b") is None


def test_what_was_not_used_for_longest_goes_first() -> None:
    kept: LruDict[str, int] = LruDict(2)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.get("a")
    kept.put("c", 3)
    assert len(kept) == 2
    assert kept.get("b") is None
    assert kept.get("a") == 1


def test_a_value_that_is_put_again_is_replaced_and_young() -> None:
    kept: LruDict[str, int] = LruDict(2)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.put("a", 3)
    kept.put("c", 4)
    assert kept.get("a") == 3
    assert kept.get("b") is None


def test_the_entry_that_makes_room_is_returned() -> None:
    kept: LruDict[str, int] = LruDict(1)
    assert kept.put("a", 1) is None
    assert kept.put("a", 2) is None
    assert kept.put("b", 3) == ("a", 2)


def test_peeking_is_no_use() -> None:
    kept: LruDict[str, int] = LruDict(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.peek("a") == 1
    assert kept.pop_oldest() == ("a", 1)


def test_a_size_of_zero_stores_nothing() -> None:
    kept: LruDict[str, int] = LruDict(0)
    assert kept.put("a", 1) == ("a", 1)
    assert len(kept) == 0
