"""What each kind of resource does by each method: the sentences and statuses of the description.

Names of parameters, bodies and responses are those of `components.py`. A test holds this
table against the table of handlers, and another one against what the server answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from docgraph.exchange import ResourceType

__all__ = ["OPERATIONS", "Operation"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one kind of resource; `answers` by status, beside those that all have."""

    summary: str
    answers: Mapping[int, str]
    parameters: tuple[str, ...] = ()
    body: str | None = None
    errors: tuple[int, ...] = field(default=())
    is_missing_possible: bool = True

    @property
    def statuses(self) -> dict[int, str]:
        """Every status with the name of its response."""
        errors = {*_ALWAYS, *self.errors, *((404,) if self.is_missing_possible else ())}
        if self.body is not None:
            errors |= {*_OF_BODIES}
        return dict(sorted({**{one: f"Error{one}" for one in errors}, **self.answers}.items()))


_ALWAYS: Final = (400, 401, 403, 405, 408, 414, 429, 431, 500, 501, 503)
_OF_BODIES: Final = (413, 415)
_CONDITIONAL: Final = (409, 412)

_PAGING = ("page", "pagesize")
_CONSISTENCY = ("readPreference", "readConcern")
_READING = ("filter", "keys", "hint", "shardkey", "jsonMode", *_CONSISTENCY)
_LIST = (*_PAGING, "after", "sort", *_READING, "count", "nocache")
_OF_ONE = ("id_type", "filter", "shardkey")
_WRITING = ("If-Match", "If-None-Match", "checkEtag", "writeConcern")
_WRITE_ONE = (*_OF_ONE, "wm", *_WRITING, "Prefer")

_MADE = {200: "Written", 201: "Created"}
_GONE = {204: "Removed"}

OPERATIONS: Final[dict[tuple[ResourceType, str], Operation]] = {
    (ResourceType.ROOT, "GET"): Operation(
        "The names of the databases", {200: "Names"}, (*_PAGING, "count"), is_missing_possible=False
    ),
    (ResourceType.DATABASE, "GET"): Operation(
        "The names of the collections", {200: "Names"}, (*_PAGING, "count", "nocache")
    ),
    (ResourceType.DATABASE, "PUT"): Operation(
        "Make the database, or replace its metadata", _MADE, _WRITING, "Metadata", _CONDITIONAL
    ),
    (ResourceType.DATABASE, "PATCH"): Operation(
        "Change the metadata of the database",
        {200: "Written"},
        _WRITING,
        "MetadataChanges",
        _CONDITIONAL,
    ),
    (ResourceType.DATABASE, "DELETE"): Operation(
        "Drop the database with all that is in it", _GONE, _WRITING, errors=_CONDITIONAL
    ),
    (ResourceType.COLLECTION, "GET"): Operation("A page of documents", {200: "Page"}, _LIST),
    (ResourceType.COLLECTION, "POST"): Operation(
        "Add a document, or many",
        {200: "Bulk", 201: "Created", 207: "PartialBulk"},
        (*_OF_ONE, "wm", *_WRITING, "Prefer"),
        "Documents",
        _CONDITIONAL,
    ),
    (ResourceType.COLLECTION, "PUT"): Operation(
        "Make the collection, or replace its metadata", _MADE, _WRITING, "Metadata", _CONDITIONAL
    ),
    (ResourceType.COLLECTION, "PATCH"): Operation(
        "Change the metadata of the collection",
        {200: "Written"},
        _WRITING,
        "MetadataChanges",
        _CONDITIONAL,
    ),
    (ResourceType.COLLECTION, "DELETE"): Operation(
        "Drop the collection", _GONE, _WRITING, errors=_CONDITIONAL
    ),
    (ResourceType.DOCUMENT, "GET"): Operation(
        "One document",
        {200: "One", 304: "NotModified"},
        (*_OF_ONE, "keys", "hint", "jsonMode", *_CONSISTENCY, "If-None-Match"),
    ),
    (ResourceType.DOCUMENT, "PUT"): Operation(
        "Replace the document", _MADE, _WRITE_ONE, "Document", _CONDITIONAL
    ),
    (ResourceType.DOCUMENT, "PATCH"): Operation(
        "Change the document", _MADE, _WRITE_ONE, "Changes", _CONDITIONAL
    ),
    (ResourceType.DOCUMENT, "DELETE"): Operation(
        "Remove the document", _GONE, (*_OF_ONE, *_WRITING), errors=_CONDITIONAL
    ),
    (ResourceType.BULK, "PATCH"): Operation(
        "Change all documents that match",
        {200: "Bulk"},
        ("requiredFilter", "shardkey", *_WRITING),
        "BulkChanges",
        _CONDITIONAL,
    ),
    (ResourceType.BULK, "DELETE"): Operation(
        "Remove all documents that match",
        {200: "Bulk"},
        ("requiredFilter", "shardkey", *_WRITING),
        errors=_CONDITIONAL,
    ),
    (ResourceType.SIZE, "GET"): Operation(
        "How many there are",
        {200: "Size"},
        ("filter", "shardkey", "count", "nocache", *_CONSISTENCY),
    ),
    (ResourceType.METADATA, "GET"): Operation(
        "The metadata", {200: "Meta"}, ("jsonMode", "nocache")
    ),
    (ResourceType.INDEXES, "GET"): Operation("The indexes of the collection", {200: "Indexes"}),
    (ResourceType.INDEX, "PUT"): Operation(
        "Make an index; it cannot be changed afterwards",
        {201: "IndexMade"},
        ("If-None-Match", "writeConcern"),
        "Index",
        (412,),
    ),
    (ResourceType.INDEX, "DELETE"): Operation(
        "Drop the index", _GONE, ("If-None-Match", "writeConcern"), errors=(412,)
    ),
    (ResourceType.AGGREGATION, "GET"): Operation(
        "Run the stored aggregation",
        {200: "Results"},
        ("avars", *_PAGING, "jsonMode", "nocache", *_CONSISTENCY),
        errors=(422,),
    ),
    (ResourceType.STREAM, "GET"): Operation(
        "Follow the change stream, by WebSocket or by server-sent events",
        {101: "Switched", 200: "Events"},
        ("avars", "jsonMode", "nocache", "event-ids", "resume-after", "Last-Event-ID"),
    ),
    (ResourceType.SCHEMA_STORE, "GET"): Operation("A page of JSON schemas", {200: "Page"}, _LIST),
    (ResourceType.SCHEMA_STORE, "POST"): Operation(
        "Add a JSON schema, or several",
        {200: "Bulk", 201: "Created", 207: "PartialBulk"},
        ("wm", *_WRITING, "Prefer"),
        "Documents",
        _CONDITIONAL,
    ),
    (ResourceType.SCHEMA_STORE, "PUT"): Operation(
        "Make the schema store, or replace its metadata", _MADE, _WRITING, "Metadata", _CONDITIONAL
    ),
    (ResourceType.SCHEMA_STORE, "PATCH"): Operation(
        "Change the metadata of the schema store",
        {200: "Written"},
        _WRITING,
        "MetadataChanges",
        _CONDITIONAL,
    ),
    (ResourceType.SCHEMA_STORE, "DELETE"): Operation(
        "Drop the schema store", _GONE, _WRITING, errors=_CONDITIONAL
    ),
    (ResourceType.SCHEMA, "GET"): Operation(
        "One JSON schema",
        {200: "One", 304: "NotModified"},
        (*_OF_ONE, "keys", "jsonMode", *_CONSISTENCY, "If-None-Match"),
    ),
    (ResourceType.SCHEMA, "PUT"): Operation(
        "Replace the JSON schema", _MADE, _WRITE_ONE, "Document", _CONDITIONAL
    ),
    (ResourceType.SCHEMA, "DELETE"): Operation(
        "Remove the JSON schema", _GONE, (*_OF_ONE, *_WRITING), errors=_CONDITIONAL
    ),
}
