"""`readPreference`, `readConcern` and `writeConcern`: what the server of the database is asked.

The profiler of the server tells which commands came to it, and with what. Several servers have
`test_several_servers.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.http.harness import Mongo, profiled
from tests.http.hosts import module_application
from tests.http.reads import AGGREGATION, READS, with_parameter
from tests.http.rest_harness import BY_HOST, COLLECTION, Api, own_database, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(api: Api) -> Api:
    api.things.insert_one({"_id": "a", "n": 1})
    assert (await api.put("/things", AGGREGATION)).status == 200
    return api


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["local", "available", "majority", "linearizable", "snapshot"])
async def test_read_concern_reaches_the_database(api: Api, level: str) -> None:
    parameter = f"readConcern={level.upper()}"

    with profiled(api.mongo, api.db, COLLECTION) as seen:
        replies = [await api.get(with_parameter(path, parameter)) for path in READS]

    assert [reply.status for reply in replies] == [200] * len(READS)
    levels = [one["command"]["readConcern"]["level"] for one in seen]
    assert levels == [level] * len(READS)


async def test_without_a_parameter_the_connection_says_how_to_read(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with serving(mongo_client, f"{mongo_uri}&readConcernLevel=majority") as api:
        with profiled(mongo_client, api.db, COLLECTION) as seen:
            await api.get("/things")
            await api.get("/things?readConcern=local")

    assert [one["command"]["readConcern"]["level"] for one in seen] == ["majority", "local"]


async def test_linearizable_reads_are_for_the_primary(api: Api) -> None:
    reply = await api.get("/things?readConcern=linearizable&readPreference=nearest")

    assert reply.status == 400
    assert "primary" in reply.json["message"]
    good = await api.get("/things?readConcern=linearizable&readPreference=primary")
    assert good.status == 200


async def test_what_cannot_be_read_with_a_concern_is_400(api: Api) -> None:
    api.mongo[api.db].create_collection("capped", capped=True, size=4096)

    reply = await api.get("/capped?readConcern=snapshot")

    assert reply.status == 400
    assert "read concern" in reply.json["message"]


async def test_an_estimate_has_no_concern(api: Api) -> None:
    reply = await api.get("/things/_size?count=estimated&readConcern=snapshot")

    assert (reply.status, reply.json) == (200, {"_size": 1})


# --- writing --------------------------------------------------------------------------------------


@module_application
async def asking_two(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    """An application whose connection asks for two servers to confirm."""
    async with serving(mongo_client, f"{mongo_uri}&w=2", mounts=BY_HOST) as server:
        yield server


@pytest.fixture
def short_of_servers(asking_two: Api) -> Iterator[Api]:
    """The connection asks for two servers to confirm, and there is but one."""
    with own_database(asking_two) as api:
        api.things.insert_one({"_id": "a", "n": 1})
        api.mongo[api.db].create_collection("plain")
        yield api


WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/things", {"_id": "b"}),
    ("POST", "/things", [{"_id": "b"}, {"_id": "c"}]),
    ("POST", "/things?wm=upsert", [{"_id": "b"}, {"_id": "c"}]),
    ("PUT", "/things/a", {"n": 2}),
    ("PATCH", "/things/a", {"n": 2}),
    ("PATCH", "/things/*?filter={n:1}", {"n": 2}),
    ("DELETE", "/things/a", None),
    ("PUT", "/things", {"x": 1}),
    ("PUT", "/others", {}),
    ("DELETE", "/plain", None),
    ("PUT", "/", {"x": 1}),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=str)
async def test_write_concern_of_a_request_wins_over_that_of_the_connection(
    short_of_servers: Api, method: str, path: str, body: Any
) -> None:
    reply = await short_of_servers.send(method, with_parameter(path, "writeConcern=1"), body)

    assert reply.status < 300, reply.text


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("majority", {"w": "majority"}),
        ("MAJORITY", {"w": "majority"}),
        ("1", {"w": 1}),
        ("W1", {"w": 1}),
        ("JOURNALED", {"j": True}),
        ("ACKNOWLEDGED", None),
    ],
)
async def test_write_concern_reaches_the_database(api: Api, given: str, sent: Any) -> None:
    with profiled(api.mongo, api.db, COLLECTION) as seen:
        one = await api.post(f"/things?writeConcern={given}", {"_id": "b"})
        many = await api.post(f"/things?writeConcern={given}", [{"_id": "c"}, {"_id": "d"}])

    assert (one.status, many.status) == (201, 200)
    commands = [entry["command"] for entry in seen if entry["op"] == "insert"]
    assert [command.get("writeConcern") for command in commands] == [sent, sent]


@pytest.mark.parametrize("body", [{"_id": "b"}, [{"_id": "b"}, {"_id": "c"}]])
async def test_more_servers_than_there_are_cannot_confirm_and_nothing_is_written(
    api: Api, body: Any
) -> None:
    reply = await api.post("/things?writeConcern=2", body)

    assert reply.status == 400
    assert reply.json["message"] == "2 servers cannot confirm the write: there are 1"
    assert api.things.count_documents({}) == 1


@pytest.mark.parametrize("body", [{"_id": "b"}, [{"_id": "b"}, {"_id": "c"}]])
async def test_a_write_that_was_not_confirmed_says_that_it_is_done(
    short_of_servers: Api, body: Any
) -> None:
    reply = await short_of_servers.post("/things", body)

    assert reply.status == 400
    assert reply.json["message"].startswith("the write is done, but ")


async def test_a_bulk_write_of_which_a_part_failed_warns_that_the_rest_was_not_confirmed(
    short_of_servers: Api,
) -> None:
    reply = await short_of_servers.post("/things", [{"_id": "a"}, {"_id": "b"}])

    assert (reply.status, reply.json["inserted"]) == (207, 1)
    (warning,) = reply.json["_warnings"]
    assert warning.startswith("the write is done, but ")


@pytest.mark.parametrize("given", ["0", "UNACKNOWLEDGED", "unacknowledged"])
async def test_a_write_that_nobody_confirms_is_400(api: Api, given: str) -> None:
    reply = await api.post(f"/things?writeConcern={given}", {"_id": "b"})

    assert reply.status == 400
    assert "unacknowledged" in reply.json["message"]
    assert api.things.count_documents({}) == 1


# --- one server -----------------------------------------------------------------------------------


async def test_a_set_without_secondaries_has_none_to_read_from(
    mongo_uri: str, mongo_client: Mongo
) -> None:
    """Told at once: nobody waits for a server that may never come."""
    name = mongo_client.admin.command("hello")["setName"]
    alone = mongo_uri.replace("directConnection=true", f"replicaSet={name}")
    async with serving(mongo_client, alone) as api:
        api.things.insert_one({"_id": "a"})
        refused = await api.get("/things?readPreference=secondary")
        good = await api.get("/things?readPreference=secondaryPreferred")

    assert (refused.status, refused.json["message"]) == (400, "there is no secondary to read from")
    assert good.status == 200


async def test_a_direct_connection_to_the_primary_has_no_secondary(api: Api) -> None:
    for path in (*READS, "/things/_size?count=estimated"):
        refused = await api.get(with_parameter(path, "readPreference=secondary"))
        assert (refused.status, refused.json["code"]) == (400, "invalid-query")
        for other in ("primary", "primaryPreferred", "secondaryPreferred", "nearest"):
            assert (await api.get(with_parameter(path, f"readPreference={other}"))).status == 200
