"""The key of cursors: configured, or made once and stored for all instances.

The stored key is next to the definitions collection (`store/stored_keys.py`).

A draft can be made to read a cursor of the app that it resembles, and so compare a hidden sort key
with values of its own. Cursors of drafts have a key of the instance, which is not stored.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute.cursors import KEY_BYTES, CursorKeys
from docgraph.graphql.sections import Graphql
from docgraph.store import Store
from docgraph.store.driver.errors import StoreDenied
from docgraph.store.names import KEY_STORE
from docgraph.store.stored_keys import NoStoredKey, load_keys

_ID: Final = "cursors"
_FRESH_SECONDS: Final = 300.0


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
            self._stored = CursorKeys(await load_keys(self._store, self._db, _ID, KEY_BYTES))
        except (StoreDenied, NoStoredKey) as error:
            if self._stored is None:
                raise FieldFailure(
                    "cursors have no key: set the option graphql.cursor-key, or let docgraph read "
                    f"and write the collection {KEY_STORE}, whose keys have {KEY_BYTES} bytes",
                    "no-cursor-key",
                    cause=error,
                ) from None
        self._loaded = time.monotonic()
