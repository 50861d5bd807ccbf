"""Tries of a write that others may overtake."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docgraph.exchange.errors import Overloaded
from docgraph.rest.writes.etags import attempts

pytestmark = pytest.mark.anyio


async def test_tries_end_with_503_and_pauses_stay_short(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float, *_: Any) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)

    with pytest.raises(Overloaded, match="too many concurrent updates of the document") as caught:
        async for _ in attempts("the document"):
            pass

    assert caught.value.status == 503
    assert ("Retry-After", "1") in caught.value.headers
    assert len(pauses) == 39
    assert max(pauses) <= 0.25
