"""The cursors of this process: each is opened for its first client and closed after the last."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from docgraph.events.client import Client
from docgraph.events.cursor import Cursor, ResumeToken
from docgraph.events.identity import identify
from docgraph.events.sections import Events
from docgraph.exchange import Subscription
from docgraph.exchange.errors import Overloaded
from docgraph.observe import emit
from docgraph.observe.events import StreamCursors
from docgraph.store import Store

__all__ = ["Hub"]

_MOST_PAST: Final = 8  # clients for which the past is read at the same time


class Hub:
    """Who may see the same shares a cursor; `most_cursors` is the share of this process."""

    def __init__(self, store: Store, options: Events, *, most_cursors: int) -> None:
        self._store = store
        self._options = options
        self._most_cursors = most_cursors
        self._past = asyncio.Semaphore(_MOST_PAST)
        self._cursors: dict[bytes, Cursor] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def join(self, subscription: Subscription, token: ResumeToken | None) -> Client:
        """A client of the subscription from now on, or from the token on; `leave` afterwards."""
        key = identify(replace(subscription, notify_when=None))
        cursor = self._cursors.get(key)
        if cursor is None or cursor.is_over:
            cursor = self._open(key, subscription)
        cursor.users += 1
        try:
            await asyncio.shield(cursor.opened)  # others may wait for it, too
            client = Client(cursor, subscription.notify_when, token, self._past)
            await client.begin()
        except BaseException:
            self._release(key, cursor)
            raise
        client.on_leave = lambda: self._release(key, cursor)
        return client

    async def close(self) -> None:
        """Close all cursors."""
        for key, cursor in list(self._cursors.items()):
            self._forget(key, cursor)
        if self._closing:
            await asyncio.wait(self._closing)

    def _open(self, key: bytes, subscription: Subscription) -> Cursor:
        if len(self._cursors) >= self._most_cursors:
            raise Overloaded(
                "too many different change streams are open, events.max-cursors bounds them"
            )
        cursor = self._cursors[key] = Cursor(self._store, subscription, self._options)
        emit(StreamCursors(len(self._cursors)))
        return cursor

    def _release(self, key: bytes, cursor: Cursor) -> None:
        cursor.users -= 1
        if not cursor.users:
            self._forget(key, cursor)

    def _forget(self, key: bytes, cursor: Cursor) -> None:
        if self._cursors.get(key) is cursor:
            del self._cursors[key]
            emit(StreamCursors(len(self._cursors)))
        closing = asyncio.create_task(cursor.close(), name="close change stream")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
