"""`POST /_batch`: requests for documents in one transaction, each as if it came alone."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec import decode
from tests.http.harness import Reply
from tests.http.rest_harness import Api

pytestmark = pytest.mark.anyio


def entry(method: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
    """An entry; names of headers are written with `_`."""
    made: dict[str, Any] = {"method": method, "path": path}
    if body is not None:
        made["body"] = body
    if headers:
        made["headers"] = {name.replace("_", "-"): value for name, value in headers.items()}
    return made


async def send(api: Api, *entries: dict[str, Any], **others: Any) -> Reply:
    return await api.post("/_batch", list(entries), **others)


async def test_entries_are_answered_in_order_and_see_what_those_before_have_written(
    api: Api,
) -> None:
    reply = await send(
        api,
        entry("PUT", "/things/a?wm=upsert", {"n": 1}),
        entry("PATCH", "/things/a", {"$inc": {"n": 4}}),
        entry("GET", "/things/a"),
        entry("POST", "/things", {"_id": "b", "n": 2}),
        entry("DELETE", "/things/a"),
    )
    assert reply.status == 200, reply.text
    answers = decode(reply.text)
    assert [one["status"] for one in answers] == [201, 200, 200, 201, 204]
    assert answers[2]["body"]["n"] == 5
    assert answers[2]["headers"]["ETag"] == answers[1]["headers"]["ETag"]
    assert [one["_id"] for one in api.things.find()] == ["b"]
