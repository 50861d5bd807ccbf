"""Change facts: the collection, document and paths that a change event concerns."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from docgraph.codec.equality import equality_key
from docgraph.exchange import Document
from docgraph.exchange.data import FieldPath
from docgraph.store.exact import decode_exactly

OTHER: Final = "other"
_ALL: Final = frozenset[FieldPath]({()})  # every path is below the empty one
_OF_COLLECTIONS: Final = frozenset(
    {"drop", "create", "createIndexes", "dropIndexes", "modify", "shardCollection"}
)


class ChangeFacts(NamedTuple):
    """The facts of one change event.

    `namespace` is empty if everything may have changed. `id` is an equality key. `document` is the
    state after the change. `touched` are the paths that an update changed, without positions in
    arrays. An update without a document has none if the document was deleted since; else all paths
    count as touched.
    """

    operation: str  # `insert`, `update`, `replace`, `delete`, or `other`: the whole collection
    namespace: str
    id: Hashable = None
    document: Document | None = None
    touched: frozenset[FieldPath] = frozenset()

    @classmethod
    def read(cls, event: Mapping[str, Any]) -> ChangeFacts:
        """Parse a change event, decoded or raw; an unknown kind means that everything changed."""
        operation, place = event.get("operationType"), event.get("ns") or {}
        db, collection = place.get("db"), place.get("coll")
        if not db or not collection:
            return EVERYTHING
        namespace = f"{db}.{collection}"
        if operation in _OF_COLLECTIONS:
            return cls(OTHER, namespace)
        key = event.get("documentKey") or {}
        if operation not in {"insert", "update", "replace", "delete"} or "_id" not in key:
            return EVERYTHING
        decoded_key = _decode(key)
        id_key = equality_key((key if decoded_key is None else decoded_key)["_id"])
        if operation == "delete":
            return cls(operation, namespace, id_key)
        document = event.get("fullDocument")
        decoded = None if document is None else _decode(document)
        if operation != "update":
            return cls(operation, namespace, id_key, decoded)
        is_deleted = document is None and "fullDocument" in event
        description = event.get("updateDescription")
        touched = _ALL
        if description and (decoded is not None or is_deleted):
            touched = frozenset(map(split_path, _list_paths(description)))
        return cls(operation, namespace, id_key, decoded, touched)


EVERYTHING: Final = ChangeFacts(OTHER, "")


def split_path(path: str) -> FieldPath:
    """Return the steps of a path without positions in arrays."""
    return tuple([step for step in path.split(".") if not step.isdigit()])


def is_touched(path: FieldPath, touched: frozenset[FieldPath]) -> bool:
    """Return whether a changed path is equal to this path, above it or below it."""
    return any(path[: len(change)] == change[: len(path)] for change in touched)


def _list_paths(description: Mapping[str, Any]) -> Iterator[str]:
    yield from description.get("updatedFields") or ()
    yield from description.get("removedFields") or ()
    for array in description.get("truncatedArrays") or ():
        yield array["field"]


def _decode(document: Any) -> Document | None:
    """Return the document; None if comparing it in memory could be wrong."""
    raw = getattr(document, "raw", None)
    return document if raw is None else decode_exactly(raw)
