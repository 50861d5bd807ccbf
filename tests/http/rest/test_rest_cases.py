"""The REST API from outside: requests and what comes back, written from its described behaviour.

A case is a list of requests; `{etag}` in a later one is the `ETag` of the answer before it. Every
case finds the collection `things` as `DOCUMENTS` says, and makes whatever else it needs itself.
Decision 41.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from urllib.parse import urlencode

import pytest
from bson import Int64, ObjectId

from tests.http.harness import Mongo
from tests.http.hosts import module_application
from tests.http.rest.cases import ANY, DOCUMENTS, Ask
from tests.http.rest.cases_of_reads import READS, RESOURCES
from tests.http.rest.cases_of_writes import MANAGEMENT, WRITES
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio

HEX = re.compile(r"[0-9a-f]{24}")
CASES = {**RESOURCES, **READS, **WRITES, **MANAGEMENT}


@module_application
async def served(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as api:
        yield api


@pytest.fixture
async def api(served: Api) -> Api:
    """The server with the documents of the cases, and no metadata."""
    served.things.delete_many({})
    served.things.insert_many(DOCUMENTS)
    served.mongo[served.db]["_properties"].delete_many({"_id": "_properties.things"})
    served.mongo[served.db]["_properties"].delete_many({"_id": "_properties"})
    for path in ("/things/_meta", "/_meta"):  # what was remembered of them is not true any more
        await served.get(path, nocache="")
    return served


@pytest.mark.parametrize("asks", CASES.values(), ids=CASES.keys())
async def test_the_answer_is_the_described_one(api: Api, asks: Sequence[Ask]) -> None:
    etag = ""
    for ask in asks:
        etag = await check(api, ask, etag) or etag


async def check(api: Api, ask: Ask, etag: str) -> str | None:
    """Send the request, compare the answer, give its etag."""
    headers = {name: value.replace("{etag}", etag) for name, value in ask.send.items()}
    path = f"{ask.path}?{urlencode(ask.query)}" if ask.query else ask.path
    reply = await api.send(ask.method, path, ask.body, headers)
    told = f"{ask.method} {path}: {reply.status} {reply.text}"

    assert reply.status == ask.status, told
    if ask.message is not None:
        assert reply.json["message"].startswith(ask.message), told
    if ask.text is not None:
        assert reply.text == ask.text, told
    if ask.equals is not ...:
        assert reply.json == ask.equals, told
    for name, value in ask.has.items():
        assert reply.json[name] == value, told
    for name, expected in ask.headers.items():
        found = reply.headers.get(name)
        assert found == expected if expected != ANY else found, (name, found, told)
    tag = reply.headers.get("etag")
    assert tag is None or ask.path == "/openapi.json" or HEX.fullmatch(tag), told
    return tag


async def test_what_the_cases_store_is_what_the_database_holds(api: Api) -> None:
    await api.post("/things", b'{"_id":"types","i":1,"l":3000000000,"f":2.0,"d":{"$date":0}}')

    stored = api.things.find_one({"_id": "types"})

    assert (type(stored["i"]), type(stored["l"]), type(stored["f"])) == (int, Int64, float)
    assert stored["d"] == datetime(1970, 1, 1)
    assert isinstance(stored["_etag"], ObjectId)
