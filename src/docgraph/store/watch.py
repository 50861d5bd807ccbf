"""Change streams: what happens to a collection or a database, as it happens.

The driver resumes a stream after a lost connection or an election, without a gap. The guards hold
here as in other reads, by stages in front of the caller's own: hidden properties are taken out of
every part of an event, and events whose document a row filter does not admit are left out. Where
the document is not known any more (a deletion), such an event is left out, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.asynchronous.mongo_client import AsyncMongoClient

from docgraph.exchange.data import Document
from docgraph.exchange.errors import NotSupported
from docgraph.store.driver.errors import translated
from docgraph.store.driver.salvage import decode_event
from docgraph.store.guard.rows import Paths, Shield
from docgraph.store.names import namespace_of

__all__ = ["ChangeEvents", "guard_events"]

_BODIES = ("fullDocument", "fullDocumentBeforeChange")
_AWAIT_MS = 1000  # that the database waits for an event before it says that there is none
_LOGICAL = frozenset({"$and", "$or", "$nor"})


class ChangeEvents:
    """An asynchronous iterator of change events; opened by `open` or by the first event.

    Close it (`async with`, or `aclose`) when done: it holds a cursor of the database.
    """

    def __init__(
        self,
        client: AsyncMongoClient[Document],
        db: str,
        collection: str | None,
        pipeline: Sequence[Mapping[str, Any]],
        **options: Any,
    ) -> None:
        # Raw, so that a value which the driver cannot read does not end the stream.
        raw: CodecOptions[Any] = client.codec_options.with_options(document_class=RawBSONDocument)
        database = client.get_database(db, codec_options=raw)
        self._db = db
        self._decoding: CodecOptions[Document] = client.codec_options
        self._source = database if collection is None else database.get_collection(collection)
        self._pipeline = pipeline
        self._options = {**options, "max_await_time_ms": _AWAIT_MS}
        self._stream: AsyncChangeStream[Any] | None = None

    @property
    def resume_token(self) -> Mapping[str, Any] | None:
        """Where to go on: after the last event, also when later ones did not concern us."""
        token = self._stream.resume_token if self._stream is not None else None
        return bson.decode(token.raw) if isinstance(token, RawBSONDocument) else token

    @property
    def is_over(self) -> bool:
        """Whether the database has ended it: what it watches was dropped or renamed."""
        return self._stream is not None and not self._stream.alive

    async def open(self) -> None:
        """Open the stream, so that nothing that happens after this is missed."""
        if self._stream is None:
            with translated():
                self._stream = await self._source.watch(self._pipeline, **self._options)

    async def try_next(self) -> Document | None:
        """The next event, or None when there was none for about a second."""
        await self.open()
        assert self._stream is not None  # noqa: S101 - it is open
        with translated():
            event = await self._stream.try_next()
            return None if event is None else self._decode(event)

    def __aiter__(self) -> ChangeEvents:
        return self

    async def __anext__(self) -> Document:
        await self.open()
        assert self._stream is not None  # noqa: S101 - it is open
        with translated():
            return self._decode(await self._stream.next())

    def _decode(self, event: RawBSONDocument) -> Document:
        return decode_event(event.raw, self._decoding, self._db)

    async def aclose(self) -> None:
        """Give back the cursor."""
        if self._stream is not None:
            with translated():
                await self._stream.close()

    async def __aenter__(self) -> ChangeEvents:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def guard_events(db: str, collection: str | None, shield: Shield) -> list[Document]:
    """The stages in front of a stream: row filters, then hidden properties."""
    if collection is None:
        return [*_filter_database(db, shield), *_strip_database(db, shield)]
    namespace = namespace_of(db, collection)
    row = shield.rows.get(namespace)
    hidden = shield.hidden.get(namespace)
    rows = [{"$match": _admitted(row)}] if row else []
    return [*rows, *_strip_collection(hidden)] if hidden else rows


def _filter_database(db: str, shield: Shield) -> list[Document]:
    rows = {name: row for name, row in _of_database(db, shield.rows) if row}
    if not rows:
        return []
    admitted = [{"$and": [{"ns.coll": name}, _admitted(row)]} for name, row in rows.items()]
    return [{"$match": {"$or": [{"ns.coll": {"$nin": list(rows)}}, *admitted]}}]


def _strip_database(db: str, shield: Shield) -> list[Document]:
    """Events of a collection with hidden properties come without their documents.

    A stream over a database says what changed; whoever wants the content watches the collection.
    """
    names = [name for name, hidden in _of_database(db, shield.hidden) if hidden]
    if not names:
        return []
    guarded = {"$in": ["$ns.coll", names]}
    parts = (*_BODIES, "updateDescription")
    return [{"$set": {part: {"$cond": [guarded, "$$REMOVE", f"${part}"]} for part in parts}}]


def _of_database(db: str, by_namespace: Mapping[str, Any]) -> list[tuple[str, Any]]:
    prefix = f"{db}."
    return [
        (namespace.removeprefix(prefix), value)
        for namespace, value in by_namespace.items()
        if namespace.startswith(prefix)
    ]


def _strip_collection(hidden: Paths) -> list[Document]:
    paths = [".".join(path) for path in hidden]
    parts = (*_BODIES, "updateDescription.updatedFields")
    unset = [f"{part}.{path}" for part in parts for path in paths]
    return [{"$unset": unset}, {"$set": {"updateDescription": _without_keys(hidden)}}]


def _without_keys(hidden: Paths) -> Document:
    """`updateDescription` without what is written with dots (`"keys.0.secret"`, `"keys.0"`)."""
    fields = "$updateDescription.updatedFields"
    pattern = "|".join(_dotted_keys(path) for path in hidden)
    named = {"$regexMatch": {"input": "$$this.k", "regex": pattern}}
    kept = {"$filter": {"input": {"$objectToArray": fields}, "as": "this", "cond": {"$not": named}}}
    updated = {"updatedFields": {"$arrayToObject": kept}}
    stripped = {"$mergeObjects": ["$updateDescription", updated]}
    return {"$cond": [{"$eq": [{"$type": fields}, "object"]}, stripped, "$updateDescription"]}


def _dotted_keys(path: tuple[str, ...]) -> str:
    """A pattern for keys of updates that hold the path, lie below it, or contain it.

    Positions of arrays may stand behind every name. The first name alone is left out: its value is
    a document, and `$unset` has been there.
    """
    steps = [re.escape(name) + r"(\.\d+)*" for name in path]
    reaching = r"\.".join(steps) + r"(\.|$)"
    containing = [r"\.".join(steps[:length]) + "$" for length in range(2, len(path))]
    position = re.escape(path[0]) + r"(\.\d+)+$"
    return f"^({'|'.join([reaching, position, *containing])})"


def _admitted(row: Mapping[str, Any]) -> Document:
    """The row filter on the document of an event; an event without one is not admitted."""
    return {"$and": [{"fullDocument": {"$type": "object"}}, _below_document(row)]}


def _below_document(filter: Mapping[str, Any]) -> Document:
    moved: Document = {}
    for key, condition in filter.items():
        if key in _LOGICAL:
            moved[key] = [_below_document(branch) for branch in condition]
        elif key.startswith("$"):
            raise NotSupported(f"a row filter with {key} cannot be applied to a change stream")
        else:
            moved[f"fullDocument.{key}"] = condition
    return moved
