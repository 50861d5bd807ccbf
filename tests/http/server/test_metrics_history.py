"""`GET /metrics?history=true`: for callers who may read the metrics, and no one else."""

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
        assert set(reply.json) == {"instance", "host", "interval", "now", "points"}
        assert reply.json["points"]
        await allow(service, "path('/metrics')", "user")
        allowed = await service.request("GET", path, headers=ADA)
        assert (allowed.status, allowed.json["instance"]) == (200, reply.json["instance"])
