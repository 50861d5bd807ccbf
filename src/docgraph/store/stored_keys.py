"""Secret keys of the installation: made once, and stored for all instances.

A key is a document of `_cursorKeys`, which no mount, app, aggregation, stream or export shows:
`{_id: <its purpose>, keys: [<the key>, <the previous one>]}`.
"""

from __future__ import annotations

from secrets import token_bytes
from typing import Any, Final

from docgraph.exchange import Deadline, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.data import Consistency
from docgraph.exchange.errors import Conflict
from docgraph.store.names import KEY_STORE
from docgraph.store.store import Store

_MAX_KEYS: Final = 2
_LIMIT_MS: Final = 5_000
PRIMARY: Final = Consistency("primary")


class NoStoredKey(Exception):
    """The stored document has no usable key."""


async def load_keys(store: Store, db: str, purpose: str, size: int) -> list[bytes]:
    """Return the stored keys with so many bytes, a new one if there is none."""
    keys = await _read(store, db, purpose, size)
    if not keys:
        keys = [token_bytes(size)]
        write = Write(WriteKind.INSERT, ({"_id": purpose, "keys": keys},))
        place = Resource(ResourceType.DOCUMENT, db, KEY_STORE, purpose)
        try:
            await store.writes.write(place, write, deadline=Deadline.after_ms(_LIMIT_MS))
        except Conflict:  # another instance was faster
            keys = await _read(store, db, purpose, size)
    if not keys:
        raise NoStoredKey("the stored document has no key of the right length")
    return keys


async def _read(store: Store, db: str, purpose: str, size: int) -> list[bytes]:
    deadline, condition = Deadline.after_ms(_LIMIT_MS), {"_id": purpose}
    stored = await store.reads.find_one(
        db, KEY_STORE, condition, deadline=deadline, consistency=PRIMARY
    )
    keys: list[Any] = (stored or {}).get("keys", [])
    fitting = [bytes(key) for key in keys if isinstance(key, bytes) and len(key) == size]
    return fitting[:_MAX_KEYS]
