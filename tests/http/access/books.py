"""The collection that most rules of the tests are about."""

from __future__ import annotations

from typing import Any

from tests.http.access_harness import forget_rules, restore
from tests.http.harness import Service

BOOKS = (
    {"_id": "1", "title": "Blue", "team": "blue", "owner": "ada", "price": 5},
    {"_id": "2", "title": "Red", "team": "red", "owner": "bob", "price": 7},
    {"_id": "3", "title": "Grey", "owner": "eve", "price": 9},
)


def renew(server: Service) -> Service:
    """The server without rules, and with the same data for every test."""
    forget_rules(server)
    restore(server, "books", *BOOKS)
    restore(server, "other", {"_id": 1})
    server.mongo[server.db]["new"].drop()
    return server


async def status(service: Service, method: str, path: str, who: dict[str, str], **more: Any) -> int:
    reply = await service.request(method, path, headers=who, **more)
    return reply.status
