"""Indexes and their uses are read from responses of any form."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from docgraph import Deadline
from docgraph.exchange.errors import StoreError
from docgraph.tools.data import Store
from docgraph_workbench.advise import index_uses
from docgraph_workbench.advise.index_uses import IndexUse, NamedIndex, find_uses

EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
WRONG: list[Any] = [None, True, -1, 2.5, "x", b"x", [], [[1]], {}, {"x": {"y": []}}]


async def read(monkeypatch: pytest.MonkeyPatch, replies: Sequence[Any] | None) -> Any:
    async def answer(*_: object) -> Any:
        return replies

    monkeypatch.setattr(index_uses, "read_index_stats", answer)
    return await find_uses(cast("Store", None), ("db", "letters"), Deadline.after_ms(1_000))


@pytest.mark.anyio
async def test_uses_are_summed_over_all_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [
        {"name": "a_1", "accesses": {"ops": 2, "since": LATE}},
        {"name": "a_1", "accesses": {"ops": 3, "since": EARLY}},
        {"name": "b_1", "accesses": {"ops": 0, "since": LATE}},
    ]

    uses = await read(monkeypatch, replies)

    assert uses == {"a_1": IndexUse(5, EARLY), "b_1": IndexUse(0, LATE)}


@pytest.mark.anyio
async def test_without_the_privilege_uses_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await read(monkeypatch, None) is None


@pytest.mark.anyio
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
async def test_a_response_of_another_form_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, wrong: Any
) -> None:
    whole = {"name": "a_1", "accesses": {"ops": 1, "since": EARLY}}
    counted = [{"ops": wrong}, {"since": wrong}, wrong]
    replies = [wrong, *({"name": "a_1", "accesses": one} for one in counted)]

    for reply in replies:
        with suppress(StoreError):
            assert await read(monkeypatch, [whole, reply]) is not None


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("key", ["key", "name", "sparse", "unique"])
def test_an_index_of_another_form_is_an_error_of_ours(key: str, wrong: Any) -> None:
    document = {"key": {"a": 1}, "name": "a_1", key: wrong}

    with suppress(StoreError):
        assert isinstance(NamedIndex.read(document).name, str)


def test_an_index_tells_what_keeps_the_database_from_using_it() -> None:
    index = NamedIndex.read({"key": {"a": 1}, "name": "a_1", "sparse": True, "unique": True})

    assert (index.name, index.constrains, index.special) == ("a_1", True, "sparse")
