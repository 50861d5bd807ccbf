"""Answers of the REST API that are large: complete, in order, and no larger than documented."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.codec import encode
from docgraph.rest import call as rest_call
from docgraph.rest import streamed_lists
from docgraph.store.driver import portions
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.json]


@module_application
async def api(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as one:
        yield one


@pytest.fixture(autouse=True)
def things(api: Api) -> None:
    """Some documents of 60 KB, of which one has what JSON has no number for."""
    api.things.delete_many({})
    api.things.insert_many({"_id": f"d{n}", "n": n % 7, "text": "x" * 60_000} for n in range(25))
    api.things.update_one({"_id": "d12"}, {"$set": {"odd": float("nan")}})


@pytest.mark.parametrize("parameters", [{}, {"after": ""}, {"after": "", "sort": "n"}])
async def test_page_in_portions_is_the_page_at_once(
    api: Api, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any]
) -> None:
    monkeypatch.setattr(portions, "PORTION", 100_000)
    in_portions = await api.get("/things", pagesize="20", **parameters)
    monkeypatch.setattr(portions, "PORTION", 1 << 30)
    at_once = await api.get("/things", pagesize="20", **parameters)

    assert in_portions.status == 200
    assert len(in_portions.json) == 20
    assert in_portions.text == at_once.text
    assert in_portions.headers.get("link") == at_once.headers.get("link")


async def test_answer_beyond_the_bound_is_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_call, "MAX_BYTES", 1 << 20)

    reply = await api.get("/things", pagesize="20")
    less = await api.get("/things", pagesize="10")

    assert (reply.status, reply.json["code"]) == (400, "answer-too-large")
    assert less.status == 200


async def test_document_beyond_the_bound_is_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_call, "MAX_BYTES", 4000)

    assert (await api.get("/things/d5")).json["code"] == "answer-too-large"
    assert (await api.get("/things/d5", keys='{"n": 1}')).status == 200


async def test_what_a_write_has_done_is_told_in_any_size(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_call, "MAX_BYTES", 4000)

    reply = await api.send("PATCH", "/things/d5", {"n": 6}, {"prefer": "return=representation"})

    assert (reply.status, reply.json["n"]) == (200, 6)


@pytest.mark.parametrize("mode", ["STANDARD", "EXTENDED"])
async def test_a_very_large_document_is_encoded_in_a_thread(
    api: Api, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    api.things.insert_one({"_id": "large", "a": {f"k{n}": n for n in range(150_000)}})
    threads = []

    def watch(*args: Any) -> bytes:
        threads.append(threading.current_thread().name)
        return encode(*args)

    monkeypatch.setattr(streamed_lists, "encode", watch)
    monkeypatch.setattr(streamed_lists, "find_program", lambda mode: None)

    one = await api.get("/things/large", jsonMode=mode)
    listed = await api.get("/things", jsonMode=mode, filter={"_id": "large"})
    small = await api.get("/things/d1", jsonMode=mode)

    assert [one.status, listed.status, small.status] == [200] * 3
    assert listed.json == [one.json]
    assert len(one.json["a"]) == 150_000
    assert [name.startswith("docgraph-blocking") for name in threads] == [True, True, False]
