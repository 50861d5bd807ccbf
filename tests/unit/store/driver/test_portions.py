"""Large answers are taken apart without being decoded, and handed over portion by portion."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions

from docgraph.store.driver.portions import PORTION, Batch, hand_over, take_apart
from docgraph.store.driver.salvage import ResultReader

pytestmark = pytest.mark.anyio

OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True)


class Tracked(dict[str, Any]):
    """A document that can be watched."""


def build_batch(documents: list[dict[str, Any]], options: Any = OPTIONS) -> Batch:
    raw = [memoryview(bson.encode(document)) for document in documents]
    return Batch(raw, ResultReader(options, "db", {"find": "c"}), asyncio.Lock())


@pytest.mark.parametrize("place", ["firstBatch", "nextBatch"])
@pytest.mark.parametrize("count", [0, 1, 11])
def test_answer_is_taken_apart_into_its_documents_and_the_rest(place: str, count: int) -> None:
    documents = [{"_id": n, "text": "x" * n, "list": [{"a": n}]} for n in range(count)]
    answer = {
        "$clusterTime": {"clusterTime": bson.Timestamp(1, 2), "note": bson.Regex("a", "i")},
        "cursor": {"id": bson.Int64(5), place: documents, "ns": "db.c"},
        "ok": 1.0,
    }
    rest, found = take_apart(memoryview(bson.encode(answer)))

    assert bson.decode(rest, OPTIONS) == {**answer, "cursor": {**answer["cursor"], place: []}}
    assert [bson.decode(one, OPTIONS) for one in found] == documents


@pytest.mark.parametrize("answer", [{"ok": 0.0, "errmsg": "x"}, {"cursor": 5}, {"cursor": {}}])
def test_answer_without_a_batch_is_left_as_it_is(answer: dict[str, Any]) -> None:
    data = memoryview(bson.encode(answer))

    assert take_apart(data) == (data, [])


async def test_documents_are_handed_over_in_portions_in_their_order() -> None:
    batch = build_batch([{"_id": n, "text": "x" * (PORTION // 4)} for n in range(10)])
    portions: list[list[int]] = []

    async def take(taken: list[Any]) -> None:
        portions.append([one["_id"] for one in taken])

    rest = await hand_over(batch, take)

    assert portions == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert rest == []


async def test_documents_of_a_portion_are_gone_before_the_next_one_is_made() -> None:
    batch = build_batch(
        [{"_id": n, "text": "x" * PORTION} for n in range(3)],
        CodecOptions(document_class=Tracked),
    )
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    async def take(portion: list[Any]) -> None:
        alive.append(sum(one() is not None for one in made))
        made.extend(weakref.ref(one) for one in portion)

    gc.disable()
    try:
        await hand_over(batch, take)
    finally:
        gc.enable()

    assert alive == [0, 0, 0]
