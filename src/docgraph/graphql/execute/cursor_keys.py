"""The key of cursors: configured, or made once and stored for all instances.

The stored key is a document of `_cursorKeys`, next to the definitions collection, which no mount,
app, aggregation or stream shows:

    {_id: "cursors", keys: [<the key>, <the previous one>]}

Of several instances that make one at the same time, the first to insert it wins.

A draft can be made to read a cursor of the app that it resembles, and so compare a hidden sort key
with values of its own. Cursors of drafts have a key of the instance, which is not stored.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from docgraph.exchange import Deadline, Document, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.data import Consistency
from docgraph.exchange.errors import Conflict
from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute.cursors import KEY_BYTES, CursorKeys
from docgraph.graphql.sections import Graphql
from docgraph.store import Store
from docgraph.store.driver.errors import StoreDenied
from docgraph.store.names import KEY_STORE

_ID: Final = "cursors"
_MAX_KEYS: Final = 2
_FRESH_SECONDS: Final = 300.0
_LIMIT_MS: Final = 5_000


class _NoKey(ValueError):
    """The stored document has no usable key."""


class KeyRing:
    """Loads the keys of cursors, and makes the first one."""

    def __init__(self, store: Store, settings: Graphql, secret: bytes) -> None:
        self._store = store
        self.of_drafts: Final = CursorKeys.derive([secret.hex()])
        self._db = settings.db
        self.definitions: Final = (settings.db, settings.collection)  # the apps with these keys
        texts = [text for text in (settings.cursor_key, settings.previous_cursor_key) if text]
        self._configured = CursorKeys.derive(texts) if settings.cursor_key else None
        self._stored: CursorKeys | None = None
        self._loaded = 0.0
        self._lock = asyncio.Lock()

    async def find(self, fresh_seconds: float = _FRESH_SECONDS) -> CursorKeys:
        """Return the keys, loaded no longer ago than that; raise `FieldFailure` without any."""
        if self._configured is not None:
            return self._configured
        if self._is_stale(fresh_seconds):
            async with self._lock:  # of many requests that need it, one loads it
                if self._is_stale(fresh_seconds):
                    await self._load()
        assert self._stored is not None  # noqa: S101 - it is loaded, or an error was raised
        return self._stored

    def _is_stale(self, fresh_seconds: float) -> bool:
        return self._stored is None or time.monotonic() - self._loaded > fresh_seconds

    async def _load(self) -> None:
        try:
            self._stored = CursorKeys(await self._read() or await self._create())
        except (StoreDenied, _NoKey) as error:
            if self._stored is None:
                raise FieldFailure(
                    "cursors have no key: set the option graphql.cursor-key, or let docgraph read "
                    f"and write the collection {KEY_STORE}, whose keys have {KEY_BYTES} bytes",
                    "no-cursor-key",
                    cause=error,
                ) from None
        self._loaded = time.monotonic()

    async def _read(self) -> list[bytes]:
        stored = await self._store.reads.find_one(
            self._db,
            KEY_STORE,
            {"_id": _ID},
            deadline=Deadline.after_ms(_LIMIT_MS),
            consistency=Consistency("primary"),
        )
        keys: list[Any] = (stored or {}).get("keys", [])
        fitting = [bytes(key) for key in keys if isinstance(key, bytes) and len(key) == KEY_BYTES]
        return fitting[:_MAX_KEYS]

    async def _create(self) -> list[bytes]:
        keys = [CursorKeys.generate()]
        document: Document = {"_id": _ID, "keys": keys}
        try:
            await self._store.writes.write(
                Resource(ResourceType.DOCUMENT, self._db, KEY_STORE, _ID),
                Write(WriteKind.INSERT, documents=(document,)),
                deadline=Deadline.after_ms(_LIMIT_MS),
            )
        except Conflict:
            keys = await self._read()
        if not keys:
            raise _NoKey("the stored document has no key of the right length")
        return keys
