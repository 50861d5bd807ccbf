"""Registry of the change stream cursors of this process.

Each cursor is opened for its first client and ends after its last one.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from docgraph.events.cursor import Cursor, ResumeToken
from docgraph.events.sections import Events
from docgraph.events.stream_client import Client
from docgraph.events.subscription_key import identify
from docgraph.exchange import Subscription
from docgraph.exchange.errors import Overloaded
from docgraph.observe import emit
from docgraph.observe.stream_events import StreamCursors
from docgraph.store import Store

__all__ = ["Hub"]

_MAX_PAST: Final = 8  # clients for which past events are read at the same time


class Hub:
    """Shares a cursor among callers that see the same; `most_cursors` bounds this process."""

    def __init__(self, store: Store, options: Events, *, most_cursors: int) -> None:
        self._store = store
        self._options = options
        self._most_cursors = most_cursors
        self._past = asyncio.Semaphore(_MAX_PAST)
        self._cursors: dict[bytes, Cursor] = {}
        self._open_cursors: set[Cursor] = set()  # also the ones that are being closed

    async def join(self, subscription: Subscription, token: ResumeToken | None) -> Client:
        """Return a client that starts now, or after the token; call `leave` after use."""
        cursor = self._find_cursor(subscription)
        try:
            await cursor.wait_open()
            client = Client(cursor, subscription.notify_when, token, self._past)
            await client.begin()
        except BaseException:
            cursor.users -= 1
            raise
        return client

    async def move(self, client: Client, subscription: Subscription) -> bool:
        """Switch the client to this subscription without losing events.

        Return False if that is not possible yet.
        """
        if not client.can_move():
            return False
        cursor = self._find_cursor(subscription)
        try:
            await cursor.wait_open()
        except BaseException:
            cursor.users -= 1
            raise
        if not client.can_move():
            cursor.users -= 1
            return False
        client.move(cursor)
        return True

    async def close(self) -> None:
        """Close all cursors."""
        await asyncio.gather(*(cursor.close() for cursor in self._open_cursors))

    def _find_cursor(self, subscription: Subscription) -> Cursor:
        key = identify(replace(subscription, notify_when=None))
        cursor = self._cursors.get(key)
        if cursor is None or cursor.is_over:
            cursor = self._open(key, subscription)
        cursor.users += 1
        return cursor

    def _open(self, key: bytes, subscription: Subscription) -> Cursor:
        if len(self._open_cursors) >= self._most_cursors:
            raise Overloaded(
                "too many different change streams are open, events.max-cursors bounds them"
            )
        cursor = self._cursors[key] = Cursor(self._store, subscription, self._options)
        self._open_cursors.add(cursor)
        cursor.task.add_done_callback(lambda _: self._forget(key, cursor))
        emit(StreamCursors(len(self._open_cursors)))
        return cursor

    def _forget(self, key: bytes, cursor: Cursor) -> None:
        self._open_cursors.discard(cursor)
        if self._cursors.get(key) is cursor:  # else another cursor has replaced it
            del self._cursors[key]
        emit(StreamCursors(len(self._open_cursors)))
