"""A sample of the index's decisions is compared with the database, which replaces a wrong index."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from docgraph.events.row_index import DecisionSample, RowIndex
from docgraph.observe import Event
from docgraph.observe.engine_events import CommandFinished, StreamIndexWrong, StreamSampled
from docgraph.store import Store
from tests.http.harness import UNREACHABLE, failing

pytestmark = pytest.mark.anyio

FILTERS: Mapping[Hashable, Mapping[str, Any]] = {n: {"to": n} for n in range(2000)}
DOCUMENT = {"_id": 1, "to": [7, 8]}
IMAGE = RawBSONDocument(bson.encode(DOCUMENT))


@pytest.fixture
def sample(store: Store, database: str) -> DecisionSample:
    match = partial(store.streams.pipelines.match_documents, database)
    return DecisionSample(database, "things", match)


def outcomes(events: list[Event]) -> list[str]:
    return [one.outcome for one in events if isinstance(one, StreamSampled)]


async def test_a_right_decision_is_counted(sample: DecisionSample, events: list[Event]) -> None:
    index = RowIndex()
    for key, filter in FILTERS.items():
        index.add(key, filter)

    assert await sample.compare(IMAGE, FILTERS, index.match(DOCUMENT))

    assert outcomes(events) == ["same"]
    assert not any(isinstance(one, StreamIndexWrong) for one in events)
    assert sum(isinstance(one, CommandFinished) for one in events) == 1  # however many filters


@pytest.mark.parametrize("matched", [{7, 8, 9}, {7}, set()])
async def test_a_wrong_decision_ends_the_trust_in_the_index(
    sample: DecisionSample, events: list[Event], database: str, matched: set[Hashable]
) -> None:
    some = {key: FILTERS[key] for key in range(100)}

    assert not await sample.compare(IMAGE, some, matched)
    assert not await sample.compare(IMAGE, some, {7, 8})

    assert not sample.is_trusted
    assert outcomes(events) == ["different", "same"]
    reports = [one for one in events if isinstance(one, StreamIndexWrong)]
    assert reports == [StreamIndexWrong(database, "things")]


async def test_a_database_that_does_not_answer_shows_nothing(
    sample: DecisionSample, events: list[Event], mongo_client: MongoClient[dict[str, Any]]
) -> None:
    with failing(mongo_client, "aggregate", errorCode=UNREACHABLE):
        assert await sample.compare(IMAGE, FILTERS, {1})

    assert outcomes(events) == ["failed"]


@pytest.mark.parametrize("matched", [{7}, {7, "failing"}])
async def test_a_filter_that_fails_shows_nothing(
    sample: DecisionSample, events: list[Event], matched: set[Hashable]
) -> None:
    failing = {"$expr": {"$divide": [1, {"$subtract": ["$_id", "$_id"]}]}}
    filters: dict[Hashable, Any] = {7: {"to": 7}, "failing": failing, 9: {"to": 9}}

    assert await sample.compare(IMAGE, filters, matched)

    assert outcomes(events) == ["same"]


@pytest.mark.parametrize("batch", [1, 7, 100, 101])
async def test_one_of_many_images_is_chosen(sample: DecisionSample, batch: int) -> None:
    sample = DecisionSample("db", "things", sample._match, every=100)

    chosen = [at for at in (sample.choose(batch) for _ in range(10_000 // batch)) if at is not None]

    assert all(0 <= at < batch for at in chosen)
    assert 10_000 / (100 + batch) - 2 < len(chosen) <= 10_000 / 100
