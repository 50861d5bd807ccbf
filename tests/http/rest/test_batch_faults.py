"""Faults of the database in the middle of a batch: what is told is what has happened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from docgraph.exchange import Exchange, Resource, Write, WriteResult
from docgraph.exchange.errors import MethodNotAllowed, StoreUnavailable
from docgraph.plugins.kinds import DataInterceptor
from docgraph.server.services.batch_entries import EntryLocation, at
from docgraph.store import writes
from tests.http.batches import entry, failed_entry
from tests.http.harness import Mongo, failing, until
from tests.http.hosts import module_application
from tests.http.rest_harness import BY_HOST, Api, own_database, serving

pytestmark = pytest.mark.anyio

ENTRIES = [entry("POST", "/things", {"_id": 1}), entry("POST", "/things", {"_id": 2})]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri, mounts=BY_HOST) as one:
        yield one


@pytest.fixture
async def api(server: Api, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    """A database of its own; a server that a test has made look lost is found again behind it."""
    monkeypatch.setattr(writes, "_FIRST_PAUSE", 0.0)
    with own_database(server) as one:
        yield one

        async def write() -> int:
            return (await one.post("/things", {})).status

        await until(write, 201)


def ids(api: Api) -> list[Any]:
    return [one["_id"] for one in api.things.find(sort=[("_id", 1)])]


class Listener(DataInterceptor):
    """Notes the writes of which nobody knows whether they were done."""

    name: ClassVar[str] = "listener"
    hears_uncertain: ClassVar[bool] = True

    def __init__(self) -> None:
        self.heard: list[bool] = []

    def resolve(self, resource: Resource) -> bool:
        return resource.collection == "things"

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        self.heard.append(result.uncertain)
        return result


@contextmanager
def listened(api: Api) -> Iterator[Listener]:
    interceptors = api.service.app.store.interceptors
    listener = Listener()
    interceptors.install([listener])
    try:
        yield listener
    finally:
        interceptors._installed.remove(listener)
        interceptors.install([])


UNCONFIRMED = {
    "no such servers": {"writeConcernError": {"code": 100, "errmsg": "x"}},
    "no such mode": {"writeConcernError": {"code": 79, "errmsg": "x"}},
    "not in time": {"writeConcernError": {"code": 64, "errmsg": "x"}},
    "stepping down": {"writeConcernError": {"code": 11602, "errmsg": "x"}},
}


@pytest.mark.parametrize("case", list(UNCONFIRMED))
async def test_a_commit_that_is_done_and_not_confirmed_is_never_told_as_undone(
    api: Api, case: str
) -> None:
    """What follows writes, such as the end of tokens, follows it as well."""
    with listened(api) as listener, failing(api.mongo, "commitTransaction", **UNCONFIRMED[case]):
        reply = await api.post("/_batch", ENTRIES)

    assert (reply.status, reply.json["code"]) == (500, "outcome-unknown"), reply.text
    assert listener.heard == [True, True]
    assert ids(api) == [1, 2]


async def test_a_database_that_stays_away_is_no_conflict(api: Api) -> None:
    with failing(api.mongo, "insert", errorCode=10107):
        reply = await api.post("/_batch", ENTRIES)

    assert (reply.status, reply.json["code"]) == (500, "database-unavailable"), reply.text
    assert ids(api) == []


async def test_a_capped_collection_is_not_read_in_a_transaction(api: Api) -> None:
    api.mongo[api.db].create_collection("ring", capped=True, size=4096)
    api.mongo[api.db]["ring"].insert_one({"_id": "a"})

    reply = await api.post("/_batch", [entry("GET", "/ring/a")])

    assert (reply.status, failed_entry(reply)) == (400, 0), reply.text
    assert reply.json["code"] == "rejected-by-database"


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), MethodNotAllowed("PUT", ["GET"])])
def test_the_place_of_an_entry_is_told_to_its_own_caller_only(
    error: StoreUnavailable | MethodNotAllowed,
) -> None:
    """The same error may be on its way to others who waited for the same thing."""
    message = error.message

    placed = at(error, EntryLocation(3, "GET", "/secret/1"))

    assert type(placed) is type(error)
    assert placed.message == f"entry 3 (GET /secret/1): {message}"
    assert placed.headers == error.headers
    assert (error.message, error.fields) == (message, {})
