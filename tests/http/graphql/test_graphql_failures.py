"""When the database is slow, broken or away: statuses, shapes, recovery, nothing left running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from docgraph.observe.engine_events import QueryFailed
from docgraph.observe.events import RequestFailed
from tests.http.harness import (
    MEDIA_TYPE,
    UNREACHABLE,
    Document,
    Mongo,
    Service,
    eventually,
    failing,
    listening,
    operations,
    running,
    until,
)
from tests.http.hosts import module_application
from tests.http.proxy import Proxy, proxying

pytestmark = [pytest.mark.anyio, pytest.mark.json]

SCHEMA = "type Query { items: [Item] others: [Item] } type Item { name: String }"
ASK = "{ items { name } }"
ENDLESS = [
    {"$project": {"n": {"$range": [0, 100_000]}}},
    {"$unwind": "$n"},
    {"$project": {"m": {"$range": [0, 100_000]}}},
    {"$unwind": "$m"},
    {"$match": {"m": -1}},
]
# Rules of access are read by the same command that these tests make fail.
NO_RULES = {"dbAclAuthorizer": {"enabled": False}}
# Nothing but what takes longer, on any machine, is asked of applications with this limit.
HURRIED = {"graphql": {"query-time-limit": 100}, **NO_RULES}
LONGER = {"blockConnection": True, "blockTimeMS": 500}


async def prepare_app(service: Service) -> None:
    service.insert("items", {"name": "one"})
    await service.define(
        "items",
        SCHEMA,
        {
            "Query": {
                "items": service.find("items", {}),
                "others": service.stages("items", *ENDLESS),
            }
        },
    )


@module_application
async def hurried(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, HURRIED) as service:
        await prepare_app(service)
        yield service


@module_application
async def patient(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, NO_RULES) as service:
        await prepare_app(service)
        yield service


# --- too slow -------------------------------------------------------------------------------------


async def test_a_slow_command_is_408_and_leaves_nothing_running(
    hurried: Service, mongo_client: Mongo
) -> None:
    """Decision 25, drill F12."""
    with failing(mongo_client, "find", namespace=f"{hurried.db}.items", **LONGER):
        reply = await hurried.query("items", ASK)

    assert (reply.status, reply.headers["content-type"]) == (408, MEDIA_TYPE)
    assert reply.json == {
        "data": None,
        "errors": [
            {
                "message": "maximum query time limit of 100ms exceeded",
                "extensions": {
                    "classification": "ExecutionAborted",
                    "code": "time-limit-exceeded",
                },
            }
        ],
    }
    await eventually(lambda: not operations(mongo_client, hurried.db))


async def test_a_query_that_works_too_long_is_stopped_by_the_database(
    hurried: Service, mongo_client: Mongo
) -> None:
    """Decision 25: the limit is handed to every command."""
    reply = await hurried.query("items", "{ others { name } items { name } }")

    assert (reply.status, reply.json["data"]) == (408, None)
    await eventually(lambda: not operations(mongo_client, hurried.db))


async def test_the_limit_covers_loading_the_app(mongo_client: Mongo, mongo_uri: str) -> None:
    """Decision 25: the whole request."""
    lazy = {"graphAppsInitializer": {"enabled": False}, "graphAppsUpdater": {"enabled": False}}
    async with running(mongo_client, mongo_uri, HURRIED, lazy) as service:
        service.definitions.insert_one(
            {"_id": "a", "schema": "type Query { a: Int }", "mappings": {}}
        )
        with failing(mongo_client, "find", namespace=f"{service.db}.gql-apps", **LONGER):
            reply = await service.query("a", "{ a }")

        assert reply.status == 408


SLOW = """
import asyncio
from typing import ClassVar
from docgraph import Exchange, Interceptor, Point

class Slow(Interceptor):
    name: ClassVar[str] = "slow"
    point: ClassVar[Point] = Point.BEFORE_AUTH

    async def handle(self, exchange: Exchange) -> None:
        if exchange.request.method == "POST":
            await asyncio.sleep(0.15)
"""


@pytest.mark.parametrize(("limit", "expected"), [(HURRIED, 408), (NO_RULES, 200)])
async def test_time_spent_before_the_query_counts(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path, limit: Document, expected: int
) -> None:
    """Decision 25: the whole request."""
    (tmp_path / "slow.py").write_text(SLOW)
    plugins = {"core": {"plugins-directory": str(tmp_path)}}
    async with running(mongo_client, mongo_uri, limit, plugins) as service:
        await prepare_app(service)
        assert await _status(service) == expected


async def test_without_a_limit_a_slow_command_is_waited_for(
    patient: Service, mongo_client: Mongo
) -> None:
    """Decision 25: 0 means no limit."""
    with failing(mongo_client, "find", namespace=f"{patient.db}.items", **LONGER):
        reply = await patient.query("items", ASK)

    assert reply.data == {"items": [{"name": "one"}]}


async def test_a_cancelled_request_stops_its_database_work(
    patient: Service, mongo_client: Mongo
) -> None:
    """A client that disconnects. What the server does with it is in `tests/process`."""
    request = asyncio.create_task(patient.query("items", "{ others { name } }"))
    await eventually(lambda: operations(mongo_client, patient.db))

    request.cancel()

    await eventually(lambda: not operations(mongo_client, patient.db))
    with pytest.raises(asyncio.CancelledError):
        await request


# --- broken ---------------------------------------------------------------------------------------


async def test_a_read_that_may_be_tried_again_is(patient: Service, mongo_client: Mongo) -> None:
    """Drill F11: once is transparent."""
    once: Document = {
        "mode": {"times": 1},
        "namespace": f"{patient.db}.items",
        "errorCode": UNREACHABLE,
    }
    with failing(mongo_client, "find", **once):
        assert (await patient.query("items", ASK)).status == 200


async def test_an_error_that_stays_is_500_and_says_nothing_of_the_database(
    patient: Service, mongo_client: Mongo
) -> None:
    """Decisions 22 and 25, drill F11."""
    place = f"{patient.db}.items"
    with (
        failing(mongo_client, "find", namespace=place, errorCode=UNREACHABLE),
        listening(QueryFailed) as failures,
    ):
        reply = await patient.query("items", ASK)

    assert (reply.status, reply.json["data"]) == (500, None)
    assert reply.headers["content-type"] == MEDIA_TYPE
    assert reply.code == "database-unavailable"
    (failure,) = failures
    assert reply.error["extensions"]["id"] == failure.id
    assert (failure.app, failure.code) == ("items", "database-unavailable")
    assert "failCommand" in failure.reason
    for part in ("127.0.0.1", "HostUnreachable", "failpoint", "failCommand", "pymongo"):
        assert part not in reply.text


async def test_a_field_that_the_database_refuses_carries_the_id_of_its_reason_in_the_log(
    patient: Service,
) -> None:
    """Decision 22."""
    patient.insert("words", *({"_id": n, "pattern": "("} for n in range(3)))
    await patient.define(
        "words",
        "type Query { words: [Word] bad: Word } type Word { _id: Int same: [Word] }",
        {
            "Query": {
                "words": patient.find("words", {}),
                "bad": patient.stages("words", {"$project": {"_id": {"$toInt": "$pattern"}}}),
            },
            "Word": {"same": patient.find("words", {"pattern": {"$regex": {"$fk": "pattern"}}})},
        },
    )

    with listening(QueryFailed) as failures:
        reply = await patient.query("words", "{ bad { _id } words { same { _id } } }")

    assert reply.status == 200
    told = {failure.id: failure for failure in failures}
    errors = {"/".join(map(str, one["path"])): one["extensions"] for one in reply.errors}
    assert errors.keys() == {"bad", "words/0/same", "words/1/same", "words/2/same"}
    assert {one["id"] for one in errors.values()} == told.keys()
    bad = told[errors["bad"]["id"]]
    assert (bad.app, bad.field, bad.code) == ("words", "bad", errors["bad"]["code"])
    assert "Failed to parse number" in bad.reason
    # parents that asked the same share one query, its failure and the line in the log
    assert len(told) == 2


async def test_an_error_that_hides_nothing_has_no_id(patient: Service) -> None:
    """Decision 22: the message says it all, and the log is left alone."""
    await patient.define(
        "unbound",
        "type Query { one(a: Int): Int }",
        {"Query": {"one": patient.find("items", {"a": {"$arg": "a"}})}},
    )

    with listening(QueryFailed) as failures:
        reply = await patient.query("unbound", "{ one }")

    assert reply.error["extensions"] == {
        "classification": "DataFetchingException",
        "code": "variable-not-bound",
    }
    assert failures == []


async def test_closed_connections_are_opened_again(patient: Service, mongo_client: Mongo) -> None:
    """Drill F09, at small size."""
    once: Document = {
        "mode": {"times": 1},
        "namespace": f"{patient.db}.items",
        "closeConnection": True,
    }
    with failing(mongo_client, "find", **once):
        assert (await patient.query("items", ASK)).status == 200


async def test_a_fault_of_ours_is_500_with_an_id_and_no_more(
    patient: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 22: details go to the log under an id that the error carries."""

    async def fault(*_: object, **__: object) -> None:
        raise RuntimeError("a secret /etc/path")

    monkeypatch.setattr("docgraph.graphql.http.service.execute", fault)
    with listening(RequestFailed) as failures:
        reply = await patient.query("items", ASK)

    (failure,) = failures
    assert reply.status == 500
    assert reply.error == {
        "message": "the request could not be handled",
        "extensions": {
            "classification": "ExecutionAborted",
            "code": "internal-error",
            "id": failure.id,
        },
    }
    assert isinstance(failure.error, RuntimeError)


@pytest.fixture
def proxy(mongo_uri: str) -> Iterator[Proxy]:
    """A way to the database that only the application of the test takes."""
    with proxying(mongo_uri) as proxy:
        yield proxy


def impatient(proxy: Proxy) -> str:
    """An address at which a server that is missing, or back again, is noticed soon."""
    return f"{proxy.uri}&serverSelectionTimeoutMS=200&heartbeatFrequencyMS=500"


# --- away -----------------------------------------------------------------------------------------


async def _status(service: Service, app: str = "items", query: str = ASK) -> int:
    return (await service.query(app, query)).status


async def test_health_says_that_the_disk_of_the_database_is_full(
    proxy: Proxy, mongo_client: Mongo
) -> None:
    """The parent, which keeps the embedded database, lets all workers know."""
    async with running(mongo_client, impatient(proxy), NO_RULES) as service:
        await service.app.store.available()
        generations = service.app._instance.open_generations()

        async def health() -> tuple[int, str]:
            reply = await service.request("GET", "/health/db")
            return reply.status, reply.json["description"]

        try:
            await proxy.close()
            await until(health, (503, "the database cannot be reached"))
            generations.bump("disk")
            assert await health() == (503, "disk full")
            generations.bump("disk")
            assert await health() == (503, "the database cannot be reached")
        finally:
            generations.close()


async def test_a_database_that_goes_away_is_500_and_comes_back_by_itself(
    proxy: Proxy, mongo_client: Mongo
) -> None:
    """Decision 25, drill F07; introspection needs no database and goes on."""
    async with running(mongo_client, impatient(proxy), NO_RULES) as service:
        await service.app.store.available()
        await prepare_app(service)
        await until(lambda: _status(service), 200)

        await proxy.close()
        reply = await service.query("items", ASK)
        assert (reply.status, reply.json["data"]) == (500, None)
        assert reply.code == "database-unavailable"
        assert "127.0.0.1" not in reply.text
        assert await _status(service, query="{ __typename }") == 200
        assert await _status(service, "unknown") == 404

        await proxy.open()
        await until(lambda: _status(service), 200)


async def test_a_database_that_was_not_there_at_the_start_is_500_and_then_found(
    proxy: Proxy, mongo_client: Mongo, database: str
) -> None:
    """Decisions 25 and 45, drill F06: requests side by side fail at the same time."""
    stored = {"_id": "a", "schema": "type Query { a: Int }", "mappings": {}}
    mongo_client[database]["gql-apps"].insert_one(stored)
    await proxy.close()
    async with running(mongo_client, impatient(proxy), NO_RULES, db=database) as service:
        statuses = await asyncio.gather(*(_status(service, "a") for _ in range(10)))
        assert set(statuses) == {500}

        await proxy.open()
        await until(lambda: _status(service, "a", "{ a }"), 200)
