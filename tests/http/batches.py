"""Batches: a test is *entries, status, what is stored*."""

from __future__ import annotations

from typing import Any

from docgraph.codec import decode
from tests.http.harness import Document, Reply

__all__ = ["answers_of", "entry", "failed_entry"]


def entry(method: str, path: str, body: Any = None, **headers: str) -> Document:
    """An entry; names of headers are written with `_`."""
    made: Document = {"method": method, "path": path}
    if body is not None:
        made["body"] = body
    if headers:
        made["headers"] = {name.replace("_", "-"): value for name, value in headers.items()}
    return made


def answers_of(reply: Reply) -> list[Document]:
    """The answers of a batch that was carried out."""
    assert reply.status == 200, reply.text
    answers: list[Document] = decode(reply.text)
    return answers


def failed_entry(reply: Reply) -> int:
    """Which entry a batch failed at."""
    found: int = reply.json["entry"]["index"]
    assert reply.json["http status code"] == reply.status
    return found
