"""What comes out of executing a plan: data, errors, and what it cost."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from docgraph.graphql.errors import Errors, GraphqlError, count_more

__all__ = ["CommandRecord", "Result", "encode_data"]

_SLICE = 200  # elements of a list that are encoded at a time


class CommandRecord(NamedTuple):
    """One command that was sent to the database.

    `started` counts from the beginning of the execution on, as `milliseconds` in milliseconds;
    `parents` are those of the field, which one command or several are for.
    """

    field: str
    kind: str  # find or aggregate
    collection: str
    milliseconds: float
    documents: int
    started: float = 0.0
    parents: int = 1

    def as_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return {
            "field": self.field,
            "kind": self.kind,
            "collection": self.collection,
            "startedMs": round(self.started, 3),
            "ms": round(self.milliseconds, 3),
            "parents": self.parents,
            "documents": self.documents,
        }


class Result(NamedTuple):
    """`data` is ready for JSON; `total_errors` counts those that `errors` has no room for, too."""

    data: dict[str, Any] | None
    errors: tuple[GraphqlError, ...] = ()
    total_errors: int = 0
    commands: tuple[CommandRecord, ...] = ()
    documents: int = 0

    @classmethod
    def build(
        cls,
        data: dict[str, Any] | None,
        errors: Errors | None,
        commands: list[CommandRecord],
        documents: int,
    ) -> Result:
        """A result; errors beyond the bound are counted by one more."""
        if errors is None:
            return cls(data, (), 0, tuple(commands), documents)
        entries = list(errors.first)
        if errors.total > len(entries):
            entries.append(count_more(errors.total - len(entries)))
        return cls(data, tuple(entries), errors.total, tuple(commands), documents)


def encode_data(data: Any, limit: int) -> bytes | None:
    """The JSON of `data`; None when it would be longer than `limit` bytes.

    Long lists are encoded in slices, so that a response which is far too long is never built.
    """
    if not _is_long(data):
        text = orjson.dumps(data)
        return text if len(text) <= limit else None
    parts: list[bytes] = []
    size = 0
    for key, value in data.items():
        encoded = _encode_value(value, limit - size)
        if encoded is None:
            return None
        size += len(encoded)
        parts.append(orjson.dumps(key) + b":" + encoded)
    text = b"{" + b",".join(parts) + b"}"
    return text if len(text) <= limit else None


def _is_long(data: Any) -> bool:
    if not isinstance(data, dict):
        return False
    return any([type(value) is list and len(value) > _SLICE for value in data.values()])


def _encode_value(value: Any, limit: int) -> bytes | None:
    if not isinstance(value, list):
        text = orjson.dumps(value)
        return text if len(text) <= limit else None
    slices: list[bytes] = []
    size = 0
    for start in range(0, len(value), _SLICE):
        text = orjson.dumps(value[start : start + _SLICE])[1:-1]
        size += len(text)
        if size > limit:
            return None
        slices.append(text)
    return b"[" + b",".join(slices) + b"]"
