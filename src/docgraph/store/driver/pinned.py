"""Writes that name the collection they were checked for, not only its name (`collectionUUID`).

Between the check that a collection exists and the write into it, another client can drop it; an
insert, an upsert or an index would make it anew, without its schema. From 6.0 on MongoDB compares
the identity and refuses (361, `CollectionGone`). Older ones, and connections with `apiStrict`,
whose commands may not have it, go by the name alone.

The driver's methods have no parameter for it. They ask the session what to add to each command, on
every try of it, and that is where it is added: numbers for retryable writes and the splitting of
long arrays stay the driver's. What is used of the driver has no promise of stability; a version
without it goes by the name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from bson.binary import UUID_SUBTYPE, Binary
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.mongo_client import AsyncMongoClient

from docgraph.exchange.data import Document

__all__ = ["FoundCollection", "Pin", "find_collection", "pinned"]

_COLLECTION_ID: Final = "collectionUUID"
_SINCE_WIRE_VERSION: Final = 17  # MongoDB 6.0
_HOOK: Final = "_apply_to"


@dataclass(frozen=True, slots=True)
class FoundCollection:
    """A collection that is there; `id` tells it from others of its name, and a view has none."""

    id: bytes | None


async def find_collection(
    client: AsyncMongoClient[Document], db: str, name: str, comment: Document | None = None
) -> FoundCollection | None:
    """The collection, or the view, of that name; None when there is none."""
    cursor = await client.get_database(db).list_collections(filter={"name": name}, comment=comment)
    found = await cursor.to_list()
    return FoundCollection(found[0].get("info", {}).get("uuid")) if found else None


@asynccontextmanager
async def pinned(
    client: AsyncMongoClient[Document], collection_id: bytes | None
) -> AsyncIterator[AsyncClientSession | None]:
    """A session whose commands are for that collection only; None where they cannot be."""
    if collection_id is None or not _is_possible(client):
        yield None
        return
    async with client.start_session(causal_consistency=False) as session:
        with Pin(client, session).to(collection_id):
            yield session


class Pin:
    """Makes the commands of a session name a collection, for as long as they are about one."""

    def __init__(self, client: AsyncMongoClient[Document], session: AsyncClientSession) -> None:
        self._identity: Binary | None = None
        if not _is_possible(client):
            return
        apply = getattr(session, _HOOK)

        def apply_identity(
            command: Document, is_retryable: bool, preference: Any, connection: Any
        ) -> None:
            apply(command, is_retryable, preference, connection)
            if self._identity is not None and connection.max_wire_version >= _SINCE_WIRE_VERSION:
                command[_COLLECTION_ID] = self._identity

        setattr(session, _HOOK, apply_identity)

    @contextmanager
    def to(self, collection_id: bytes | None) -> Iterator[None]:
        """Around the commands that are for that collection only; None: for any."""
        self._identity = None if collection_id is None else Binary(collection_id, UUID_SUBTYPE)
        try:
            yield
        finally:
            self._identity = None


def _is_possible(client: AsyncMongoClient[Document]) -> bool:
    api = client.options.pool_options.server_api
    # A session cannot be given to writes that nobody confirms.
    is_confirmed = client.write_concern.acknowledged
    return is_confirmed and not (api and api.strict) and hasattr(AsyncClientSession, _HOOK)
