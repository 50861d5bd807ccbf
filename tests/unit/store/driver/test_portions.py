"""Large answers are taken apart without being decoded, and handed over portion by portion."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence
from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions

from docgraph.exchange.deadline import Deadline
from docgraph.store.driver import piecewise
from docgraph.store.driver.lenient_decode import ResultReader
from docgraph.store.driver.portions import (
    LARGE,
    PORTION,
    LargePortion,
    RawBatch,
    build_batch,
    hand_over,
    split_batch,
)
from tests.expect import keep

pytestmark = pytest.mark.anyio

OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True)


class Tracked(dict[str, Any]):
    """A document that can be watched."""


def build(documents: list[dict[str, Any]], options: Any = OPTIONS) -> RawBatch:
    """Build the batch of a large answer, as the lane in use takes it apart."""
    answer = bson.encode({"cursor": {"id": 0, "firstBatch": documents, "ns": "db.c"}, "ok": 1})
    assert len(answer) > LARGE
    _, found = split_batch(memoryview(answer))
    reader = ResultReader(options, "db", {"find": "c"})
    return build_batch(found, reader, asyncio.Lock(), Deadline())


@pytest.mark.parametrize("place", ["firstBatch", "nextBatch"])
@pytest.mark.parametrize("count", [0, 1, 11])
def test_answer_is_taken_apart_into_its_documents_and_the_rest(place: str, count: int) -> None:
    documents = [{"_id": n, "text": "x" * n, "list": [{"a": n}]} for n in range(count)]
    times = {"$clusterTime": {"clusterTime": bson.Timestamp(1, 2), "note": bson.Regex("a", "i")}}
    answer: dict[str, Any] = {
        "cursor": {"id": bson.Int64(5), place: documents, "ns": "db.c"},
        "ok": 1.0,
    }
    rest, found = split_batch(memoryview(bson.encode({**times, **answer})))
    left = bson.decode(rest, OPTIONS)
    left.pop("$clusterTime", None)  # it is not needed, and the native lane leaves it out
    assert isinstance(found, Sequence)

    assert left == {**answer, "cursor": {**answer["cursor"], place: []}}
    assert [bson.decode(one, OPTIONS) for one in found] == documents


@pytest.mark.parametrize("answer", [{"ok": 0.0, "errmsg": "x"}, {"cursor": 5}, {"cursor": {}}])
def test_answer_without_a_batch_is_left_as_it_is(answer: dict[str, Any]) -> None:
    data = memoryview(bson.encode(answer))

    assert split_batch(data) == (data, [])


async def test_documents_are_handed_over_in_portions_in_their_order() -> None:
    batch = build([{"_id": n, "text": "x" * (PORTION // 4)} for n in range(10)])
    portions: list[list[int]] = []

    async def take(taken: list[Any]) -> None:
        portions.append([one["_id"] for one in taken])

    rest = await hand_over(batch, take)

    assert portions == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert rest == []


async def test_documents_of_a_portion_are_gone_before_the_next_one_is_made() -> None:
    batch = build(
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


def _nest(depth: int, value: Any) -> Any:
    return value if depth == 0 else {"a": _nest(depth - 1, value), "b": [depth]}


NUMBERS = {f"k{n}": n for n in range(20_000)}
LARGE_DOCUMENTS: dict[str, dict[str, Any]] = {
    "keys": {"_id": 1, **NUMBERS},
    "array": {"_id": 1, "a": list(range(40_000)), "b": None},
    "arrays in arrays": {"a": [[[]] * 20_000, [{}] * 20_000, 5, [list(range(20_000))]]},
    "documents": {"a": {"b": {"c": NUMBERS, "é": [NUMBERS, 1]}, "": NUMBERS}, "z": True},
    "levels": _nest(80, NUMBERS),
    "long values": {"a": "x" * 300_000, "b": b"y" * 300_000, "c": [bson.Binary(b"z" * 90_000, 5)]},
    "kinds": {
        "a": [bson.ObjectId(), bson.Regex("a", "i"), bson.Int64(1), bson.MinKey(), None, 1.5]
        * 9_000
    },
    "empty": {},
}


@pytest.mark.parametrize("case", LARGE_DOCUMENTS)
async def test_a_large_document_is_decoded_in_pieces(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, sizes, decode = LARGE_DOCUMENTS[case], [0], bson.decode
    data, reader = bson.encode(document), ResultReader(OPTIONS, "db", {"find": "c"})
    monkeypatch.setattr(
        bson,
        "decode",
        lambda raw, options: keep(sizes, len(raw)) and decode(raw, options),
    )

    read = await piecewise.read_piecewise(reader, memoryview(data))

    assert read == decode(data, OPTIONS)
    assert list(read) == list(document)
    # A group is complete with the element that makes it long enough.
    longest = 300_000 if case == "long values" else 0
    assert max(sizes) < 2 * piecewise.PIECE + longest
    assert len(data) < piecewise.PIECE or len(sizes) > 2


async def test_a_large_document_that_cannot_be_read_is_read_as_far_as_it_can() -> None:
    data = bson.encode({"_id": 1, **NUMBERS, "x": "text!"}).replace(b"text!", b"te\xfft!")

    read = await piecewise.read_piecewise(ResultReader(OPTIONS, "db", {"find": "c"}), data)

    assert read == {"_id": 1, **NUMBERS, "x": b"te\xfft!"}


@pytest.mark.parametrize("is_taken", [True, False])
async def test_others_are_served_while_a_large_document_is_decoded(is_taken: bool) -> None:
    batch = build([{"a": 1}, {"_id": 1, **{f"k{n}": n for n in range(100_000)}}])
    turns, taken = 0, list[list[Any]]()

    async def serve_others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def take(portion: list[Any]) -> None:
        taken.append(portion)

    others = asyncio.create_task(serve_others())
    found = await hand_over(batch, take if is_taken else None)
    others.cancel()

    (portion,) = taken if is_taken else [found]
    assert isinstance(portion, LargePortion)
    assert [len(one) for one in portion] == [1, 100_001]
    assert turns > 10
