"""Every reader of a response of the database, with responses of another form than it expects.

Each response is a real one with one part removed or replaced by a value of another type. A reader
may work without it; it may fail only with an error of ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime
from functools import partial
from typing import Any

import bson
import pytest
from bson import Int64, ObjectId, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.database import AsyncDatabase

from docgraph.events.change_record import ChangeRecord
from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import DocgraphError, StoreError
from docgraph.exchange.exchange import RowFilters
from docgraph.store import Store
from docgraph.store.administration import Administration
from docgraph.store.catalog import Inventory, Measure
from docgraph.store.driver.command import Commands
from docgraph.store.driver.lenient_decode import check_reply
from docgraph.tools.data import plan_query, run_query

pytestmark = pytest.mark.anyio

WRONG: list[Any] = [None, True, -1, 2.5, "x", b"x", [], [[1]], {}, {"x": {"y": []}}]
SOON = partial(Deadline.after_ms, 60_000)
PLACE = ("db", "letters")
INDEX = {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True, "collation": {"locale": "de"}}
LISTED = {
    "name": "letters",
    "type": "view",
    "options": {
        "viewOn": "a",
        "pipeline": [{"$lookup": {"from": "b", "pipeline": [], "as": "c"}}],
        "collation": {"locale": "de"},
        "validator": {"$jsonSchema": {"required": ["a"]}},
        "timeseries": {"timeField": "t", "metaField": "m"},
        "changeStreamPreAndPostImages": {"enabled": True},
    },
    "info": {"readOnly": True, "uuid": b"1234567890123456"},
}
STAGE = {"stage": "IXSCAN", "indexName": "a_1", "indexBounds": {"a": ["[MinKey, MaxKey]"]}}
PLAN = {
    "queryPlanner": {"winningPlan": {"stage": "FETCH", "inputStage": STAGE}},
    "executionStats": {"totalDocsExamined": 1, "totalKeysExamined": 1, "nReturned": 1},
    "stages": [{"$cursor": {"nReturned": 1, "executionTimeMillisEstimate": 1}}],
}
TIME = Timestamp(1, 1)
HELLO = {
    "setName": "rs",
    "electionId": ObjectId(),
    "lastWrite": {"opTime": {"ts": TIME}, "majorityOpTime": {"ts": TIME}},
    "maxWireVersion": 17,
    "localTime": datetime(2026, 1, 1, tzinfo=UTC),
    "$clusterTime": {"clusterTime": TIME},
    "version": "7.0.1",
    "versionArray": [7, 0, 1, 0],
    "authInfo": {"authenticatedUsers": [{"user": "u", "db": "admin"}]},
}
TOKEN = {"_data": "82" + 16 * "0"}
Reader = Callable[[Store], Awaitable[object]]


def of_cursor(*documents: Document) -> Document:
    cursor = {"firstBatch": [*documents], "id": Int64(0), "ns": "db.letters"}
    return {"ok": 1.0, "cursor": {**cursor, "atClusterTime": TIME}}


async def take(_: list[Document]) -> None:
    return None


READERS: dict[str, tuple[Document, Reader]] = {
    "count": (of_cursor({"n": 1}), lambda s: s.count(*PLACE, {}, limit=5, deadline=SOON())),
    "count of stats": (of_cursor({"count": 1}), lambda s: s.stats.count(*PLACE)),
    "indexes of stats": (of_cursor(INDEX), lambda s: s.stats.indexes(*PLACE)),
    "collation": (of_cursor(LISTED), lambda s: s.stats.collation(*PLACE, SOON())),
    "order": (
        PLAN,
        lambda s: s.stats.sorting_indexes(PLACE, {"find": "a", "filter": {}, "sort": {"a": 1}}),
    ),
    "explain": (PLAN, lambda s: s.reads.explain(*PLACE, {}, deadline=SOON(), sort={"a": 1})),
    "snapshot": (of_cursor(), lambda s: s.reads.find_snapshot(*PLACE, SOON())),
    "views": (
        of_cursor(LISTED),
        lambda s: s.find(*PLACE, {}, limit=5, deadline=SOON(), rows=RowFilters({"db.x": {"a": 1}})),
    ),
    "inventory": (of_cursor(LISTED), lambda s: Inventory(s).list_collections("db", SOON())),
    "description": (of_cursor(LISTED), lambda s: Inventory(s).describe(*PLACE, SOON())),
    "measure": (
        of_cursor({"storageStats": {"count": 1, "size": 5}}),
        lambda s: Inventory(s).measure(*PLACE, SOON()),
    ),
    "sample": (
        of_cursor({"a": 1}),
        lambda s: Inventory(s).sample(*PLACE, 5, Measure(), deadline=SOON(), take=take),
    ),
    "list of indexes": (of_cursor(INDEX), lambda s: Administration(s).list_indexes(*PLACE, SOON())),
    "plan": (PLAN, lambda s: plan_query(s, PLACE, {}, {}, SOON())),
    "execution": (PLAN, lambda s: run_query(s, PLACE, {}, {}, limit=1, deadline=SOON())),
    "primary": (HELLO, lambda s: s.streams.read_primary()),
    "committed": (HELLO, lambda s: s.streams.read_committed_time()),
    "clock": (HELLO, lambda s: s.set_clock(60)),
    "happened": (HELLO, lambda s: s.streams.has_happened(TOKEN)),
}


def distort(value: Any) -> Iterator[Any]:
    """The value with one part missing, or replaced."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key != "ok":
                yield {name: one for name, one in value.items() if name != key}
                yield from ({**value, key: one} for one in (*WRONG, *distort(inner)))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for one in (*WRONG, *distort(inner)):
                yield [*value[:place], one, *value[place + 1 :]]


@pytest.fixture
def answer(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[[Document], None]:
    """Let every command of the store have this response; the driver is not part of it."""
    given: list[Document] = []

    def build_reply(command: Document) -> Document:
        reply = deepcopy(given[-1])
        check_reply(reply, command)
        return reply

    async def send(_: Any, database: Any, command: Document, *__: Any) -> Any:
        return build_reply(command), None

    async def send_by_driver(_: Any, command: Any, *__: Any, **___: Any) -> Any:
        return build_reply(command if isinstance(command, dict) else {command: 1})

    monkeypatch.setattr(Commands, "_send", send)
    monkeypatch.setattr(AsyncDatabase, "command", send_by_driver)

    def answer_with(reply: Document) -> None:
        given.append({"ok": 1.0, **reply})
        store.stats.forget()
        store.reads.views._recent.clear()

    return answer_with


@pytest.mark.parametrize("name", READERS)
async def test_no_reader_fails_by_the_form_of_a_response(
    store: Store, answer: Callable[[Document], None], name: str
) -> None:
    reply, read = READERS[name]
    answer(reply)
    await read(store)
    for one in distort(reply):
        answer(one)
        with suppress(DocgraphError):
            await read(store)


@pytest.mark.parametrize("event", [{}, {"_id": 1}, {"_id": {}}, {"_id": TOKEN}])
def test_an_event_without_its_parts_is_an_error_of_the_database(event: Document) -> None:
    with pytest.raises(StoreError):
        ChangeRecord(RawBSONDocument(bson.encode(event)), lambda _: {})
