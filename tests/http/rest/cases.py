"""What a case of the REST API is: requests, and what is expected of their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bson import ObjectId

ADA = "5f0000000000000000000001"
TAG = "5f00000000000000000000aa"
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": ObjectId(ADA), "name": "ada", "n": 1, "tags": ["x", "y"], "_etag": ObjectId(TAG)},
    {"_id": "two", "name": "bob", "n": 2, "sub": {"deep": 5}, "_etag": ObjectId(TAG)},
    {"_id": 3, "name": "cy", "n": 3, "_etag": ObjectId(TAG)},
    {"_id": "bare", "name": "dee", "n": 4},
]
ANY = "*"


@dataclass(frozen=True)
class Ask:
    """One request and what is expected of its answer.

    `message` is how the message of the error begins; `text` the whole body; `equals` the JSON;
    `has` some of its properties; `headers` some headers, `*` for any value, None for none.
    """

    method: str
    path: str
    status: int
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    send: Mapping[str, str] = field(default_factory=dict)
    message: str | None = None
    text: str | None = None
    equals: Any = ...
    has: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str | None] = field(default_factory=dict)


def get(path: str, status: int = 200, **others: Any) -> Ask:
    return Ask("GET", path, status, **others)


def post(path: str, body: Any, status: int = 201, **others: Any) -> Ask:
    return Ask("POST", path, status, body, **others)


def put(path: str, body: Any = None, status: int = 200, **others: Any) -> Ask:
    return Ask("PUT", path, status, body, **others)


def patch(path: str, body: Any, status: int = 200, **others: Any) -> Ask:
    return Ask("PATCH", path, status, body, **others)


def delete(path: str, status: int = 204, **others: Any) -> Ask:
    return Ask("DELETE", path, status, **others)


def refused(parameter: str, value: str, message: str) -> list[Ask]:
    """A bad parameter of a collection, and its message."""
    return [get("/things", 400, query={parameter: value}, message=message)]
