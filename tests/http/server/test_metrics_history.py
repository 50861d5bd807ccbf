"""The history of metrics and the operations: for callers with the permission, and no one else."""

from __future__ import annotations

import pytest

from tests.http.access_harness import ADA, ADMIN, allow, guarded
from tests.http.harness import Mongo

pytestmark = [pytest.mark.anyio, pytest.mark.json]


async def test_the_history_needs_the_permission_of_the_metrics(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with guarded(mongo_client, mongo_uri) as service:
        path = "/metrics?history=true"
        assert (await service.request("GET", path)).status == 401
        assert (await service.request("GET", path, headers=ADA)).status == 403
        reply = await service.request("GET", path, headers=ADMIN)
        assert (reply.status, reply.headers["cache-control"]) == (200, "no-store")
        members = {"instance", "host", "interval", "now", "operations", "points"}
        assert set(reply.json) == members
        assert reply.json["operations"] is True
        assert reply.json["points"]
        await allow(service, "path('/metrics')", "user")
        allowed = await service.request("GET", path, headers=ADA)
        assert (allowed.status, allowed.json["instance"]) == (200, reply.json["instance"])
        assert allowed.json["operations"] is False


async def test_operations_are_for_the_root_role_only(mongo_client: Mongo, mongo_uri: str) -> None:
    async with guarded(mongo_client, mongo_uri) as service:
        schema = "type Thing { _id: Int } type Query { things(name: String): [Thing] }"
        mappings = {"Query": {"things": {"db": service.db, "collection": "things", "find": {}}}}
        await service.define("watched", schema, mappings)
        body = {"query": '{ things(name: "s3cret") { _id } }'}
        reply = await service.request("POST", "/graphql/watched", json=body, headers=ADMIN)
        assert reply.status == 200
        wrong = {"query": '{ nothing(x: "s3cret") }'}
        await service.request("POST", "/graphql/watched", json=wrong, headers=ADMIN)

        path = "/metrics?operations=true"
        await allow(service, "path('/metrics')", "user")
        assert (await service.request("GET", path)).status == 401
        assert (await service.request("GET", path, headers=ADA)).status == 403
        reply = await service.request("GET", path, headers=ADMIN)
        assert "s3cret" not in reply.text
        (one,) = reply.json["operations"]
        assert (one["app"], one["operation"], one["count"]) == ("watched", "", 1)
        assert one["text"] == "{ things(name: …) { _id } }"
        assert len(one["times"]) == len(reply.json["bounds"]) + 1
