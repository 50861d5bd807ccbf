"""Change events as clients receive them: their parts, ids, conditions, and their age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from docgraph.codec import JsonMode
from docgraph.events.encoded_event import EncodedEvent, Rendering, build_error, build_notice
from docgraph.exchange import Document, NotifyWhen

TOKEN = {"_data": "82AB"}
EVENT: Document = {
    "_id": TOKEN,
    "operationType": "update",
    "clusterTime": 7,
    "ns": {"db": "d", "coll": "c"},
    "documentKey": {"_id": 1},
    "fullDocument": {"_id": 1, "a": 2},
    "fullDocumentBeforeChange": {"_id": 1, "a": 1},
    "updateDescription": {"updatedFields": {"a": 2}, "removedFields": [], "truncatedArrays": []},
}
PLAIN = Rendering(JsonMode.STANDARD)


def read(notice: EncodedEvent) -> Any:
    return orjson.loads(notice.message.contents[0])


def test_a_client_gets_the_change_and_nothing_of_the_database() -> None:
    assert read(build_notice(EVENT, PLAIN, TOKEN)) == {
        "fullDocument": {"_id": 1, "a": 2},
        "documentKey": {"_id": 1},
        "updateDescription": {"updatedFields": {"a": 2}, "removedFields": []},
        "operationType": "update",
    }


def test_arrays_that_were_cut_are_named() -> None:
    cut = {"truncatedArrays": [{"field": "l", "newSize": 1}]}
    told = read(build_notice({**EVENT, "updateDescription": cut}, PLAIN, TOKEN))
    assert told["updateDescription"] == cut


def test_the_document_before_the_change_is_for_those_who_asked() -> None:
    told = read(build_notice(EVENT, Rendering(JsonMode.STANDARD, before=True), TOKEN))
    assert told["fullDocumentBeforeChange"] == {"_id": 1, "a": 1}
    without = {key: one for key, one in EVENT.items() if key != "fullDocumentBeforeChange"}
    told = read(build_notice(without, Rendering(JsonMode.STANDARD, before=True), TOKEN))
    assert "fullDocumentBeforeChange" not in told


def test_ids_and_times_are_in_the_message_for_those_who_asked() -> None:
    """Where ids of documents are hidden, those of events are, too: they contain them."""
    shown = build_notice(EVENT, Rendering(JsonMode.STANDARD, with_ids=True), TOKEN)
    assert (read(shown)["_id"], read(shown)["clusterTime"]) == ({"_data": "82AB"}, 7)
    hidden = build_notice(EVENT, Rendering(JsonMode.STANDARD, with_ids=True, hides_ids=True), TOKEN)
    assert ("_id" in read(hidden), read(hidden)["clusterTime"]) == (False, 7)
    assert (hidden.id, hidden.chunk[:6]) == (b"", b"event:")
    untimed = {key: one for key, one in EVENT.items() if key != "clusterTime"}
    told = read(build_notice(untimed, Rendering(JsonMode.STANDARD, with_ids=True), TOKEN))
    assert "clusterTime" not in told


def test_a_server_sent_event_has_an_id_a_name_and_its_data() -> None:
    notice = build_notice(EVENT, PLAIN, {"_data": "82AB", "_typeBits": b"\x0a"})
    id, name, data, *rest = notice.chunk.split(b"\n")
    assert (orjson.loads(id[3:]), name) == ({"_data": "82AB.0A"}, b"event:change")
    assert (data, rest) == (b"data:" + notice.message.contents[0], [b"", b""])


def test_a_stage_that_failed_is_reported_whatever_the_client_waits_for() -> None:
    condition = NotifyWhen(("fullDocument", "a"), "never")
    assert not build_notice(EVENT, PLAIN, TOKEN).concerns(condition)
    failed = build_error(EVENT, PLAIN, TOKEN)
    assert failed.concerns(condition)
    assert (failed.name, read(failed)["error"]["code"]) == (b"error", "stage-failed")
    assert read(failed).keys() == {"error"}


@pytest.mark.parametrize("zone", [None, UTC])
def test_the_age_of_an_event_is_by_the_clock_of_the_database(zone: Any) -> None:
    """A time without a zone is UTC, and clocks that differ make no negative age."""
    past = datetime.now(UTC) - timedelta(hours=1)
    future = past + timedelta(hours=2)
    ages = [
        build_notice({**EVENT, "wallTime": at.replace(tzinfo=zone)}, PLAIN, TOKEN).find_lag()
        for at in (past, future)
    ]
    assert ages[0] is not None
    assert 3600 <= ages[0] < 7200
    assert ages[1] == 0


@pytest.mark.parametrize("more", [{}, {"wallTime": 5}])
def test_an_event_without_a_time_has_no_age(more: Document) -> None:
    assert build_notice({**EVENT, **more}, PLAIN, TOKEN).find_lag() is None
