"""Answers of introspection: kept within a bound of bytes, made once, outside of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

import pytest

from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute.introspection_cache import IntrospectionAnswer, IntrospectionCache

pytestmark = pytest.mark.anyio


class Maker:
    """Makes answers of a size and counts them."""

    def __init__(self, size: int = 2_000) -> None:
        self.made: list[Hashable] = []
        self.size = size

    async def load(self, key: Hashable) -> IntrospectionAnswer:
        self.made.append(key)
        await asyncio.sleep(0)
        return b"x" * self.size


async def test_an_answer_is_made_once_and_kept() -> None:
    answers, maker = IntrospectionCache(10_000), Maker()

    first = await asyncio.gather(*(answers.get("a", maker.load) for _ in range(5)))
    again = await answers.get("a", maker.load)

    assert {*first, again} == {b"x" * 2_000}
    assert maker.made == ["a"]
    assert answers.size == 2_000


async def test_the_least_recently_used_answers_make_room() -> None:
    answers, maker = IntrospectionCache(5_000), Maker()
    for key in ("a", "b", "a", "c", "a", "b"):
        await answers.get(key, maker.load)

    assert maker.made == ["a", "b", "c", "b"]
    assert answers.size <= 5_000


async def test_an_answer_that_is_larger_than_the_bound_is_given_and_not_kept() -> None:
    answers, maker = IntrospectionCache(1_500), Maker()

    assert len(str(await answers.get("a", maker.load))) > 1_500
    await answers.get("a", maker.load)

    assert maker.made == ["a", "a"]
    assert answers.size == 0


async def test_small_answers_and_failures_count_too() -> None:
    """Or a million of them would be kept: a caller chooses the names that `__type` is asked for."""
    answers = IntrospectionCache(4_096)
    failure = FieldFailure("no", "introspection-failed")

    async def fail(key: Hashable) -> IntrospectionAnswer:
        return failure

    for number in range(100):
        assert await answers.get(number, fail) is failure

    assert answers.size == 4_096
