"""A list of documents that is written down in portions."""

from __future__ import annotations

import asyncio
from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions

from docgraph.codec import JsonMode, encode
from docgraph.exchange.errors import AnswerTooLarge
from docgraph.rest.streamed_lists import JsonList

pytestmark = pytest.mark.anyio

OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions()
DOCUMENTS: list[dict[str, Any]] = [{"_id": n, "x": float("inf") if n == 3 else n} for n in range(7)]


async def _decode(documents: list[bytes]) -> list[dict[str, Any]]:
    return [bson.decode(one, OPTIONS) for one in documents]


@pytest.mark.parametrize("is_raw", [False, True], ids=["decoded", "raw"])
@pytest.mark.parametrize("sizes", [[], [0], [7], [0, 3, 4], [1] * 7], ids=str)
@pytest.mark.parametrize("mode", JsonMode)
async def test_portions_give_the_same_as_all_at_once(
    mode: JsonMode, sizes: list[int], is_raw: bool
) -> None:
    written, begun = JsonList(mode, 10_000, asyncio.to_thread, _decode), 0
    for size in sizes:
        some = DOCUMENTS[begun : begun + size]
        await written.add([bson.encode(one) for one in some] if is_raw else some)
        begun += size

    assert written.count == begun
    assert await written.find_last() == (DOCUMENTS[begun - 1] if begun else {})
    assert written.render() == encode(DOCUMENTS[:begun], mode)


async def test_bound_is_that_of_the_whole_text() -> None:
    exact = len(encode(DOCUMENTS))
    fits, exceeds = (
        JsonList(JsonMode.STANDARD, size, asyncio.to_thread, _decode) for size in (exact, exact - 1)
    )

    for document in DOCUMENTS:
        await fits.add([document])
    assert len(fits.render()) == exact

    await exceeds.add(DOCUMENTS[:-1])
    with pytest.raises(AnswerTooLarge):
        await exceeds.add(DOCUMENTS[-1:])
