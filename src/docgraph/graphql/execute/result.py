"""Result of an execution: data, errors, and cost."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from docgraph.graphql.errors import Errors, GraphqlError, count_more

_SLICE = 200  # elements of a list that are encoded together


class CommandRecord(NamedTuple):
    """One command that was sent to the database.

    `started` counts from the beginning of the execution, in milliseconds like `milliseconds`.
    `parents` is the number of parents of the field, which one or several commands serve.
    """

    field: str
    kind: str  # find or aggregate
    collection: str
    milliseconds: float
    documents: int
    started: float = 0.0
    parents: int = 1

    def as_dict(self) -> dict[str, Any]:
        """Return the record, ready for JSON."""
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
    """`data` is ready for JSON; `total_errors` includes those that `errors` has no space for."""

    data: dict[str, Any] | None
    errors: tuple[GraphqlError, ...] = ()
    total_errors: int = 0
    commands: tuple[CommandRecord, ...] = ()
    documents: int = 0
    limits: tuple[dict[str, Any], ...] = ()  # the lists that were cut

    @classmethod
    def build(
        cls,
        data: dict[str, Any] | None,
        errors: Errors | None,
        commands: list[CommandRecord],
        documents: int,
    ) -> Result:
        """Build a result; one more entry counts the errors beyond the bound."""
        if errors is None:
            return cls(data, (), 0, tuple(commands), documents)
        entries = list(errors.first)
        if errors.total > len(entries):
            entries.append(count_more(errors.total - len(entries)))
        return cls(data, tuple(entries), errors.total, tuple(commands), documents)


def encode_data(data: Any, limit: int) -> bytes | None:
    """Return the JSON of `data`; None if it would be longer than `limit` bytes.

    Long lists are encoded in slices, so that a response that is far too long is never built.
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
