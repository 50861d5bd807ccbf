"""The short way of reads through the driver: it says what the driver's own way says."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, DocumentTooLarge, ExecutionTimeout, OperationFailure
from pymongo.read_preferences import Primary, SecondaryPreferred

from docgraph.config.sections import MClient
from docgraph.exchange.data import Document
from docgraph.store.driver.client import Client, build_client
from docgraph.store.driver.express import Express
from tests.http.harness import failing

pytestmark = pytest.mark.anyio

PRIMARY = Primary()


@pytest.fixture
async def client(mongo_uri: str) -> AsyncIterator[Client]:
    async with build_client(MClient(), mongo_uri) as client:
        yield client


@pytest.fixture
def express(client: Client) -> Express:
    express = Express.find(client)
    assert express is not None
    return express


@pytest.fixture
def letters(database: str, mongo_client: MongoClient[Document]) -> str:
    mongo_client[database]["letters"].insert_many([{"_id": one} for one in "abc"])
    return database


@pytest.mark.parametrize(
    "option",
    [
        "compressors=zlib",
        "socketTimeoutMS=5000",
        "timeoutMS=5000",
        "loadBalanced=true",
        "authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:test",
    ],
)
async def test_options_that_only_the_driver_honours_close_the_short_way(option: str) -> None:
    async with build_client(MClient(), f"mongodb://127.0.0.1:1/?{option}") as client:
        assert Express.find(client) is None


@pytest.mark.parametrize(
    "command",
    [
        {"find": "letters", "filter": {}, "sort": {"_id": -1}},
        {"aggregate": "letters", "pipeline": [{"$count": "n"}], "cursor": {}},
        {"find": "nowhere", "filter": {}},
    ],
)
async def test_answer_is_the_one_of_the_driver(
    express: Express, client: Client, letters: str, command: Document
) -> None:
    ours = await express.read(letters, command, PRIMARY)
    theirs = await client[letters].command(dict(command))

    assert ours["cursor"] == theirs["cursor"]


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ({"find": "letters", "filter": {"$nonsense": 1}}, OperationFailure),
        ({"find": "letters", "filter": {"_id": {"$in": ["x" * 1000] * 17_000}}}, DocumentTooLarge),
        (
            {"find": "letters", "filter": {"$where": "sleep(2000) || true"}, "maxTimeMS": 50},
            ExecutionTimeout,
        ),
    ],
)
async def test_error_is_of_the_kind_that_the_driver_raises(
    express: Express, client: Client, letters: str, command: Document, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as ours:
        await express.read(letters, command, PRIMARY)
    with pytest.raises(kind) as theirs:
        await client[letters].command(dict(command))

    assert getattr(ours.value, "code", None) == getattr(theirs.value, "code", None)


async def test_connection_that_is_cut_is_an_error_of_the_connection(
    express: Express, letters: str, mongo_client: MongoClient[Document]
) -> None:
    await express.read(letters, {"find": "letters", "filter": {}}, PRIMARY)
    once: Document = {
        "mode": {"times": 1},
        "namespace": f"{letters}.letters",
        "closeConnection": True,
    }

    with failing(mongo_client, "find", **once), pytest.raises(AutoReconnect):
        await express.read(letters, {"find": "letters", "filter": {}}, PRIMARY)
    again = await express.read(letters, {"find": "letters", "filter": {}}, PRIMARY)

    assert len(again["cursor"]["firstBatch"]) == 3


async def test_preference_for_others_than_the_primary_is_sent(
    express: Express, letters: str
) -> None:
    answer = await express.read(letters, {"find": "letters", "filter": {}}, SecondaryPreferred())

    assert len(answer["cursor"]["firstBatch"]) == 3
