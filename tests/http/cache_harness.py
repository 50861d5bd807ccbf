"""Cached answers: a test is *query, what the cache did, answer*.

The callers have the root role unless a test says otherwise: they see `Cache-Status`. The lag
is so long that the cache is never bypassed because a machine is slow; what a test waits for is that
the answers are the ones of the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from docgraph.graphql.http.service import GraphqlService
from tests.http.harness import Document, Reply, Service

PATIENT: Document = {"graphql": {"cache": {"max-lag-ms": 60_000}}}
CACHE: Document = {"cache": {"enabled": True}}
HIT, MISS, STORED = "docgraph; hit", "docgraph; fwd=miss", "docgraph; fwd=miss; stored"
FIRST = "docgraph; fwd=miss; detail=first"
COLLAPSED = "docgraph; fwd=miss; collapsed"


def find_graphql(service: Service) -> GraphqlService:
    """The GraphQL service of the application."""
    found = service.app.plugins.find("graphql")
    assert isinstance(found, GraphqlService)
    return found


def status_of(reply: Reply) -> str:
    """What the cache did."""
    assert reply.status == 200, reply.text
    return reply.headers["cache-status"]


async def ask_until_hit(
    service: Service,
    app: str,
    query: str,
    variables: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Ask until the answer comes from the cache; at first the collections are not followed yet."""
    async with asyncio.timeout(60):
        while True:
            reply = await service.query(app, query, variables, headers=headers)
            if status_of(reply) == HIT:
                return reply
            await asyncio.sleep(0.01)


async def ask_until(
    service: Service, app: str, query: str, data: Any, variables: Any = None
) -> Reply:
    """Ask until the answer has these data."""
    async with asyncio.timeout(60):
        while True:
            reply = await service.query(app, query, variables)
            if reply.data == data:
                return reply
            await asyncio.sleep(0.01)
