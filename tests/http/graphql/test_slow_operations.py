"""`logging.slow-operation-ms`: what took long, with its commands by field and without any value."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest

from docgraph.observe.engine_events import SlowOperation
from tests.http.harness import Document, Mongo, Service, failing, identity, listening, running

pytestmark = pytest.mark.anyio

# Rules of access are read by the same command that these tests make slow.
NO_RULES: Document = {"dbAclAuthorizer": {"enabled": False}}
OUT_OF_TIME = 50  # MaxTimeMSExpired
SCHEMA = """
type Query { books(title: String): [Book] }
type Book { title: String author: Author }
type Author { name: String }
"""
ASK = 'query Shelf { books(title: "secret title") { title author { name } } }'


def slow_after(milliseconds: int) -> Document:
    return {**NO_RULES, "logging": {"slow-operation-ms": milliseconds}}


async def prepare_app(service: Service) -> None:
    title = "secret title"
    service.insert("books", {"title": title, "by": 1}, {"title": title, "by": 2})
    service.insert("authors", {"_id": 1, "name": "Ada"}, {"_id": 2, "name": "Bob"})
    await service.define(
        "library",
        SCHEMA,
        {
            "Query": {"books": service.find("books", {"title": {"$arg": "title"}})},
            "Book": {"author": service.find("authors", {"_id": {"$fk": "by"}})},
        },
    )


def slowed(service: Service, milliseconds: int, **failure: Any) -> AbstractContextManager[None]:
    """Every read of the authors takes so long, and may fail then."""
    options = {"blockConnection": True, "blockTimeMS": milliseconds, **failure}
    return failing(service.mongo, "find", namespace=f"{service.db}.authors", **options)


async def test_a_slow_operation_is_told_with_its_commands_the_slowest_first(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with running(mongo_client, mongo_uri, slow_after(20), identity("reader")) as service:
        await prepare_app(service)
        with listening(SlowOperation) as told, slowed(service, 500):
            reply = await service.query("library", ASK)

    assert reply.status == 200
    (slow,) = told
    assert (slow.app, slow.operation, slow.account) == ("library", "Shelf", "ada")
    assert (slow.commands, slow.documents, slow.error) == (2, 4, "")
    assert slow.duration >= 0.02
    steps = dict(line.rsplit(", ", 1) for line in slow.plan)
    assert set(steps) == {
        f"Book.author: find {service.db}.authors, 1 command for 2 parents, 2 documents",
        f"Query.books: find {service.db}.books, 1 command for 1 parent, 2 documents",
    }
    times = [float(time.removesuffix(" ms")) for time in steps.values()]
    assert times == sorted(times, reverse=True)
    assert "secret" not in repr(slow)


async def test_an_operation_that_runs_out_of_time_is_told_with_what_it_waited_for(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with running(mongo_client, mongo_uri, slow_after(20)) as service:
        await prepare_app(service)
        with listening(SlowOperation) as told, slowed(service, 50, errorCode=OUT_OF_TIME):
            assert (await service.query("library", ASK)).status == 408

    (slow,) = told
    assert slow.error == "time-limit-exceeded"
    waited_for = f"Book.author: find {service.db}.authors, 1 command for 2 parents"
    assert [line for line in slow.plan if line.startswith(waited_for)]


async def test_below_the_threshold_nothing_is_told(mongo_client: Mongo, mongo_uri: str) -> None:
    for threshold in (0, 86_400_000):
        async with running(mongo_client, mongo_uri, slow_after(threshold)) as service:
            await prepare_app(service)
            with listening(SlowOperation) as told, slowed(service, 50):
                assert (await service.query("library", ASK)).status == 200

        assert told == []
