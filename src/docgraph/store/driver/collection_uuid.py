"""Collection UUID: writes name the collection they were checked for (`collectionUUID`).

Between the check that a collection exists and the write into it, another client can drop it. An
insert, an upsert or an index would create it again, without its schema. From 6.0 on MongoDB
compares the UUID and rejects the write (361, `CollectionGone`). Older servers, and connections with
`apiStrict`, whose commands must not have the field, use the name alone.

The driver's methods have no parameter for it. They let the session add fields to each command, on
every attempt, and that is where it is added: transaction numbers for retryable writes and the
splitting of long arrays stay with the driver. With a version of the driver that is not tested, the
name alone is used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from bson.binary import UUID_SUBTYPE, Binary
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.mongo_client import AsyncMongoClient

from docgraph.exchange.data import Document
from docgraph.store.driver.driver_internals import can_extend_commands, extend_commands
from docgraph.store.driver.malformed import reading_reply

_COLLECTION_ID: Final = "collectionUUID"
_SINCE_WIRE_VERSION: Final = 17  # MongoDB 6.0


@dataclass(frozen=True, slots=True)
class FoundCollection:
    """An existing collection; `id` distinguishes it from others of its name (a view has none)."""

    id: bytes | None


async def find_collection(
    client: AsyncMongoClient[Document], db: str, name: str, comment: Document | None = None
) -> FoundCollection | None:
    """Return the collection or view with this name; None if it does not exist."""
    cursor = await client.get_database(db).list_collections(filter={"name": name}, comment=comment)
    collections = await cursor.to_list()
    with reading_reply():
        return FoundCollection(collections[0].get("info", {}).get("uuid")) if collections else None


@asynccontextmanager
async def pinned(
    client: AsyncMongoClient[Document], collection_id: bytes | None
) -> AsyncIterator[AsyncClientSession | None]:
    """Return a session whose commands apply to that collection only; None if that is impossible."""
    if collection_id is None or not _is_possible(client):
        yield None
        return
    async with client.start_session(causal_consistency=False) as session:
        with Pin(client, session).to(collection_id):
            yield session


class Pin:
    """Adds the UUID of a collection to the commands of a session."""

    def __init__(self, client: AsyncMongoClient[Document], session: AsyncClientSession) -> None:
        self._identity: Binary | None = None
        if _is_possible(client):
            extend_commands(session, self._add)

    def _add(self, command: Document, wire_version: int) -> None:
        if self._identity is not None and wire_version >= _SINCE_WIRE_VERSION:
            command[_COLLECTION_ID] = self._identity

    @contextmanager
    def to(self, collection_id: bytes | None) -> Iterator[None]:
        """Bind the enclosed commands to that collection; None: to any."""
        self._identity = None if collection_id is None else Binary(collection_id, UUID_SUBTYPE)
        try:
            yield
        finally:
            self._identity = None


def _is_possible(client: AsyncMongoClient[Document]) -> bool:
    api = client.options.pool_options.server_api
    # Unacknowledged writes cannot have a session.
    is_confirmed = client.write_concern.acknowledged
    return is_confirmed and not (api and api.strict) and can_extend_commands()
