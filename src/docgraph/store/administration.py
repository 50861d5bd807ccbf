"""Indexes, which must not reveal hidden data, and dropping a database.

Creating and dropping a collection is a `Write`, so that interceptors see it; see `write.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from docgraph.exchange import Permission
from docgraph.exchange.data import Document, WriteConcern
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import NotFound
from docgraph.exchange.exchange import Exchange
from docgraph.store.collection_stats import Index
from docgraph.store.driver.collection_uuid import pinned
from docgraph.store.driver.command import Commands
from docgraph.store.driver.concerns import choose_concern
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.driver.timed_commands import Observed
from docgraph.store.guard.shield import check_filter_paths, check_path, reject
from docgraph.store.guard.shown import Paths, asks_for_hidden, is_shown
from docgraph.store.guard.stage_checks import check_filter
from docgraph.store.names import check_database, check_namespace
from docgraph.store.store import Store

_CEILING_MS = 3_600_000  # building an index on a large collection takes long
_MAX_INDEXES = 1000
_EVERY = "*"  # to the database this means all indexes


class Administration:
    """Operations on collections and databases as a whole."""

    def __init__(self, store: Store, concern: WriteConcern | None = None) -> None:
        self._store = store
        self._concern = concern
        self._commands = Commands(store.client, ceiling_ms=_CEILING_MS, waits=store.waits)

    async def list_indexes(self, db: str, collection: str, deadline: Deadline) -> list[Document]:
        """Return the indexes as the database describes them."""
        check_namespace(db, collection)
        command = {"listIndexes": collection, "cursor": {"batchSize": _MAX_INDEXES}}
        indexes = await self._commands.fetch(db, command, deadline)
        with reading_reply():
            for index in indexes:
                Index.read(index)
                index["name"].encode()
        return indexes

    async def create_index(  # noqa: PLR0913 - the parts of an index
        self,
        db: str,
        collection: str,
        name: str,
        keys: Mapping[str, Any],
        options: Document,
        *,
        exchange: Exchange,
        collection_id: bytes | None = None,
    ) -> bool:
        """Create an index in the collection with this id; return False if the same index exists."""
        namespace = check_namespace(db, collection)
        check_filter(options, policy=self._store.policy, origin="index")
        hidden = self._store.guard.unnamed(db, collection, exchange.account)
        if hidden:
            check_index(keys, options, hidden)
        if exchange.permission is not None:
            check_index_under(exchange.permission, namespace, keys, options)
        index = {**options, "key": dict(keys), "name": name}
        command = {"createIndexes": collection, "indexes": [index]}
        reply = await self._run(db, command, collection_id)
        before = reply.get("numIndexesBefore")  # mongos does not return it
        return before is None or before != reply.get("numIndexesAfter")

    async def drop_index(self, db: str, collection: str, name: str) -> None:
        """Drop an index; raise `NotFound` if it does not exist."""
        check_namespace(db, collection)
        if name == _EVERY:
            raise NotFound("the index does not exist")
        await self._run(db, {"dropIndexes": collection, "index": name})

    async def drop_database(self, db: str) -> None:
        check_database(db)
        try:
            await self._run(db, {"dropDatabase": 1})
        finally:
            self._store.writes.on_written((db,))

    async def _run(
        self, db: str, command: Document, collection_id: bytes | None = None
    ) -> Document:
        client = self._store.client
        if self._concern is not None:
            concern = choose_concern(self._concern, client.topology_description)
            if not concern.is_server_default:
                command["writeConcern"] = concern.document
        database = client.get_database(db)
        seconds = self._commands.budget(Deadline.never())

        async def run() -> Document:
            async with pinned(client, collection_id) as session:
                return await database.command(dict(command), session=session)

        with Observed(db, command):
            reply = await self._commands.within(seconds, run, writing=True)
        self._store.stats.forget()
        return reply


_WHAT: Final = "the index"
_WHOLE: Final = "$**"
_LANGUAGE: Final = "language"  # of each document, which a text index uses


def check_index(keys: Mapping[str, Any], options: Mapping[str, Any], hidden: Paths) -> None:
    """Reject an index that contains something hidden, or selects documents by it.

    Whether a unique index on passwords can be created depends on the stored hashes; with a
    condition, on those that match it. So callers cannot create an index on data that they cannot
    see: hidden properties, those that `projectResponse` leaves out, and, under a `readFilter`,
    values of other rows.
    """
    for path in _find_paths(keys, options):
        check_path(path, hidden, _WHAT)
    condition = options.get("partialFilterExpression")
    if condition is not None:
        check_filter_paths(condition, hidden, _WHAT)


def check_index_under(
    permission: Permission, namespace: str, keys: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Reject an index that reveals more than the permission of its author shows.

    Under a row filter, that is an index that could fail because of rows that the author cannot see:
    unique indexes fail on equal values, geo and text indexes on values of another type, and any
    index on two arrays, for which a condition could select the rows.
    """
    condition, shown = options.get("partialFilterExpression"), permission.project_response
    if permission.namespace == namespace and shown:
        is_hidden = condition is not None and asks_for_hidden(condition, shown)
        if is_hidden or not all(is_shown(path, shown) for path in _find_paths(keys, options)):
            raise reject(_WHAT)
    if permission.read_filters.get(namespace):
        is_plain = all(isinstance(kind, int | float) for kind in keys.values())
        if not is_plain or options.get("unique") or "partialFilterExpression" in options:
            raise reject(_WHAT)


def _find_paths(keys: Mapping[str, Any], options: Mapping[str, Any]) -> Iterable[str]:
    """Return every path in an index; reject an index of everything."""
    projection = options.get("wildcardProjection")
    paths = [*_names(options.get("weights")), *_names(projection)]
    if "text" in keys.values() or "language_override" in options:
        paths.append(options.get("language_override", _LANGUAGE))
    for path in keys:
        if path != _WHOLE or not _names_all(projection):
            paths.append(path)
    for path in paths:
        if not isinstance(path, str) or path == _WHOLE:
            raise reject(_WHAT)
    return [path.removesuffix(f".{_WHOLE}") for path in paths]


def _names(value: Any) -> Iterable[str]:
    return value.keys() if isinstance(value, Mapping) else ()


def _names_all(projection: Any) -> bool:
    """Check if a projection lists the properties of an index, and not the excluded ones."""
    if not isinstance(projection, Mapping) or not projection:
        return False
    # `_id` can be excluded or included in either kind of projection.
    deciding = [flag for key, flag in projection.items() if key != "_id" or len(projection) == 1]
    return all(isinstance(flag, int | float) and flag for flag in deciding)
