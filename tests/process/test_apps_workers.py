"""Definitions over several workers and instances, and clients that leave."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.process.harness import Server, Wire, eventually, request, run_server

Mongo = MongoClient[dict[str, Any]]

# REST would do; a plugin that writes by the store shows that it is the store that tells.
WRITER = """
import os
from typing import ClassVar
from docgraph import Answer, Body, Exchange, PluginConfig, Resource, Service, Write
from docgraph.exchange import Deadline, ResourceType, WriteKind

class Writer(Service):
    name: ClassVar[str] = "writer"
    uri: ClassVar[str] = "/writer"
    methods: ClassVar[tuple[str, ...]] = ("GET", "PUT", "DELETE")

    def __init__(self, config: PluginConfig, store, configuration) -> None:
        self.store = store
        self.db = configuration["graphql"].db

    async def handle(self, exchange: Exchange) -> Answer:
        request = exchange.request
        if request.method == "PUT":
            document = await request.get_content()
            write = Write(WriteKind.REPLACE, (document,), upsert=True)
        elif request.method == "DELETE":
            write = Write(WriteKind.DELETE, filter={"_id": request.segments[1]})
        else:
            return Body(200, str(os.getpid()).encode(), "text/plain")
        place = Resource(ResourceType.COLLECTION, self.db, "gql-apps")
        await self.store.write(place, write, deadline=Deadline.after_ms(10_000), exchange=exchange)
        return Body(204)
"""
ENDLESS = [
    {"$project": {"n": {"$range": [0, 100_000]}}},
    {"$unwind": "$n"},
    {"$project": {"m": {"$range": [0, 100_000]}}},
    {"$unwind": "$m"},
    {"$match": {"m": -1}},
]


@pytest.fixture
def settings(mongo_uri: str, database: str, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "writer.py").write_text(WRITER)
    return {
        "mclient": {"connection-string": mongo_uri},
        "core": {"plugins-directory": str(tmp_path)},
        "graphql": {"db": database},
        "fullAuthorizer": {"enabled": True, "authentication-required": False},
    }


def definition(field: str, **descriptor: Any) -> dict[str, Any]:
    schema = f"type Query {{ {field}: Int }}"
    nothing = {"db": "nothing", "collection": "nothing", "find": {"_id": {"$in": []}}}
    mappings = {"Query": {field: nothing}}
    return {"_id": "app", "schema": schema, "mappings": mappings, "descriptor": descriptor}


def send(wire: Wire, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    content = None if body is None else json.dumps(body).encode()
    wire.send(request(method, path, content, content_type="application/json"))
    response = wire.read(method)
    return response.status, response.body


def ask(wire: Wire, field: str, app: str = "app") -> int:
    status, _ = send(wire, "POST", f"/graphql/{app}", {"query": f"{{ {field} }}"})
    return status


def reach_workers(stack: ExitStack, server: Server, count: int) -> list[Wire]:
    """A connection to each worker."""
    wires: dict[bytes, Wire] = {}

    def connect() -> bool:
        wire = stack.enter_context(server.connect())
        wires.setdefault(send(wire, "GET", "/writer")[1], wire)
        return len(wires) == count

    eventually(connect)
    return list(wires.values())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_write_is_served_by_every_worker_at_its_next_request(
    settings: dict[str, Any], workers: int
) -> None:
    """Decisions 2 and 44."""
    with run_server(settings, workers=workers) as server, ExitStack() as stack:
        wires = reach_workers(stack, server, workers)
        for round in range(3):
            writer = wires[round % workers]
            field = f"field{round}"
            steps: list[tuple[str, str, Any, list[tuple[str, str, int]]]] = [
                ("PUT", "/writer", definition(field), [("app", field, 200)]),
                (
                    "PUT",
                    "/writer",
                    definition("other"),
                    [("app", field, 400), ("app", "other", 200)],
                ),
                ("PUT", "/writer", definition("a", uri="x"), [("app", "a", 404), ("x", "a", 200)]),
                ("PUT", "/writer", definition("a", enabled=False), [("app", "a", 404)]),
                ("PUT", "/writer", definition("a"), [("app", "a", 200)]),
                ("DELETE", "/writer/app", None, [("app", "a", 404)]),
            ]
            for method, path, body, expected in steps:
                assert send(writer, method, path, body)[0] == 204
                for wire in wires:
                    for app, name, status in expected:
                        assert ask(wire, name, app) == status, (round, method, body)


def test_another_instance_follows(settings: dict[str, Any]) -> None:
    """Decision 44: by change stream."""
    with (
        run_server(settings) as first,
        run_server(settings) as second,
        first.connect() as here,
        second.connect() as there,
    ):
        assert ask(there, "a") == 404
        changes: list[tuple[str, str, Any, int]] = [
            ("PUT", "/writer", definition("a"), 200),
            ("PUT", "/writer", definition("b"), 400),
            ("PUT", "/writer", definition("a"), 200),
            ("PUT", "/writer", definition("a", enabled=False), 404),
            ("PUT", "/writer", definition("a"), 200),
            ("DELETE", "/writer/app", None, 404),
        ]
        for method, path, body, status in changes:
            assert send(here, method, path, body)[0] == 204
            assert ask(here, "a") == status
            eventually(lambda expected=status: ask(there, "a") == expected)  # type: ignore[misc]


def test_what_was_written_past_all_instances_is_noticed(
    settings: dict[str, Any], mongo_client: Mongo, database: str
) -> None:
    """Decision 44."""
    settings["graphql"]["app-cache-ttr"] = 300
    with run_server(settings) as server, server.connect() as wire:
        assert ask(wire, "a") == 404
        mongo_client[database]["gql-apps"].insert_one(definition("a"))
        eventually(lambda: ask(wire, "a") == 200)
        mongo_client[database]["gql-apps"].drop()
        eventually(lambda: ask(wire, "a") == 404)


@pytest.fixture
def endless(settings: dict[str, Any], mongo_client: Mongo, database: str) -> dict[str, Any]:
    """An app with a field that never ends by itself."""
    mongo_client[database]["rows"].insert_one({})
    mapping = {"db": database, "collection": "rows", "stages": ENDLESS}
    mongo_client[database]["gql-apps"].insert_one(
        {"_id": "app", "schema": "type Query { a: [Int] }", "mappings": {"Query": {"a": mapping}}}
    )
    return settings


def running_operations(mongo: Mongo, db: str) -> list[dict[str, Any]]:
    match = {"ns": f"{db}.rows", "active": True}
    return list(mongo.admin.aggregate([{"$currentOp": {}}, {"$match": match}]))


def test_a_client_that_leaves_stops_its_database_work(
    endless: dict[str, Any], mongo_client: Mongo, database: str
) -> None:
    """The operations of mongod are gone soon after, as in drill F14."""
    body = json.dumps({"query": "{ a }"}).encode()
    with run_server(endless) as server:
        wires = [server.connect() for _ in range(5)]
        for wire in wires:
            wire.send(request("POST", "/graphql/app", body, content_type="application/json"))
        eventually(lambda: len(running_operations(mongo_client, database)) == 5)

        for wire in wires:
            wire.socket.close()

        eventually(lambda: not running_operations(mongo_client, database))
        with server.connect() as wire:
            assert send(wire, "POST", "/graphql/app", {"query": "{ __typename }"})[0] == 200


def test_the_time_limit_holds_over_the_wire(
    endless: dict[str, Any], mongo_client: Mongo, database: str
) -> None:
    """Decision 25."""
    endless["graphql"]["query-time-limit"] = 400
    with run_server(endless) as server, server.connect() as wire:
        status, content = send(wire, "POST", "/graphql/app", {"query": "{ a }"})

        assert status == 408
        assert json.loads(content)["errors"][0]["extensions"]["code"] == "time-limit-exceeded"
        eventually(lambda: not running_operations(mongo_client, database))
