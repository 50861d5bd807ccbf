"""The fast path of reads: its answers and errors are those of the driver's normal path."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, DocumentTooLarge, ExecutionTimeout, OperationFailure
from pymongo.read_preferences import Primary, SecondaryPreferred

from docgraph.exchange.data import Document
from docgraph.store.driver.client import DriverClient, build_client
from docgraph.store.driver.fast_path import FastPath
from docgraph.store.sections import MClient
from tests.http.harness import failing

pytestmark = pytest.mark.anyio

PRIMARY = Primary()


@pytest.fixture
async def client(mongo_uri: str) -> AsyncIterator[DriverClient]:
    async with build_client(MClient(), mongo_uri) as client:
        yield client


@pytest.fixture
def fast_path(client: DriverClient) -> FastPath:
    fast_path = FastPath.find(client)
    assert fast_path is not None
    return fast_path


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
async def test_options_that_only_the_driver_honours_close_the_fast_path(option: str) -> None:
    async with build_client(MClient(), f"mongodb://127.0.0.1:1/?{option}") as client:
        assert FastPath.find(client) is None


@pytest.mark.parametrize(
    "command",
    [
        {"find": "letters", "filter": {}, "sort": {"_id": -1}},
        {"aggregate": "letters", "pipeline": [{"$count": "n"}], "cursor": {}},
        {"find": "nowhere", "filter": {}},
    ],
)
async def test_answer_is_the_one_of_the_driver(
    fast_path: FastPath, client: DriverClient, letters: str, command: Document
) -> None:
    ours, _ = await fast_path.read(letters, command, PRIMARY)
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
    fast_path: FastPath,
    client: DriverClient,
    letters: str,
    command: Document,
    kind: type[Exception],
) -> None:
    with pytest.raises(kind) as ours:
        await fast_path.read(letters, command, PRIMARY)
    with pytest.raises(kind) as theirs:
        await client[letters].command(dict(command))

    assert getattr(ours.value, "code", None) == getattr(theirs.value, "code", None)


async def test_connection_that_is_cut_is_an_error_of_the_connection(
    fast_path: FastPath, letters: str, mongo_client: MongoClient[Document]
) -> None:
    await fast_path.read(letters, {"find": "letters", "filter": {}}, PRIMARY)
    once: Document = {
        "mode": {"times": 1},
        "namespace": f"{letters}.letters",
        "closeConnection": True,
    }

    with failing(mongo_client, "find", **once), pytest.raises(AutoReconnect):
        await fast_path.read(letters, {"find": "letters", "filter": {}}, PRIMARY)
    again, _ = await fast_path.read(letters, {"find": "letters", "filter": {}}, PRIMARY)

    assert len(again["cursor"]["firstBatch"]) == 3


async def test_preference_for_others_than_the_primary_is_sent(
    fast_path: FastPath, letters: str
) -> None:
    command: Document = {"find": "letters", "filter": {}}
    answer, _ = await fast_path.read(letters, command, SecondaryPreferred())

    assert len(answer["cursor"]["firstBatch"]) == 3
