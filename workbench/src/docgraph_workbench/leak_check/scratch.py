"""Scratch databases: created for one purpose and dropped afterwards.

Nothing here passes guards or interceptors, so it writes only to database names that are unused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

from pymongo.errors import CollectionInvalid, OperationFailure, PyMongoError

from docgraph import Document, StartupError
from docgraph.tools.installation import LoadedConfiguration, open_client

_FORBIDDEN: Final = frozenset({13, 8000})  # codes of MongoDB and of Atlas


class Scratch:
    """Reads existing data, and writes to databases whose names begin with `prefix`."""

    def __init__(self, client: Any, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._used: set[str] = set()

    async def read(
        self, db: str, collection: str, filter: Mapping[str, Any], limit: int
    ) -> list[Document]:
        """Return documents as they are stored."""
        documents: list[Document] = (
            await self._client[db][collection].find(filter).limit(limit).to_list()
        )
        return documents

    async def fill(self, db: str, collection: str, documents: Sequence[Document]) -> None:
        """Replace the documents of a collection."""
        target = self._enter(db)[collection]
        with _explaining(db):
            await target.delete_many({})
            self._used.add(db)
            if documents:
                await target.insert_many([{**document} for document in documents])

    async def create(
        self, db: str, collection: str, source: str | None = None, stages: Sequence[Any] = ()
    ) -> None:
        """Create a collection, or a view on `source`, unless it exists."""
        options = {} if source is None else {"viewOn": source, "pipeline": list(stages)}
        with _explaining(db):
            await self._enter(db).create_collection(collection, **options)
            self._used.add(db)

    async def match(self, db: str, collection: str, filter: Mapping[str, Any]) -> list[Any]:
        """Return the ids of the documents that match a filter."""
        cursor = self._enter(db)[collection].find(filter, {"_id": 1})
        return [document["_id"] for document in await cursor.to_list()]

    async def insert(self, db: str, collection: str, document: Document) -> None:
        """Insert a document."""
        await self._enter(db)[collection].insert_one({**document})

    async def change(self, db: str, collection: str, id: Any, values: Mapping[str, Any]) -> None:
        """Set values in one document."""
        await self._enter(db)[collection].update_one({"_id": id}, {"$set": dict(values)})

    async def remove(self, db: str, collection: str, id: Any) -> None:
        """Delete one document."""
        await self._enter(db)[collection].delete_one({"_id": id})

    async def drop(self) -> None:
        """Drop every database with the prefix; if none are listed, drop the ones that were used."""
        if not self._used:
            return
        names = set(self._used)
        with suppress(OperationFailure):
            names |= set(await self._client.list_database_names())
        for db in sorted(name for name in names if name.startswith(self._prefix)):
            await self._client.drop_database(db)

    def _enter(self, db: str) -> Any:
        if not db.startswith(self._prefix):
            raise ValueError(f"{db!r} is not a scratch database")
        return self._client[db]


@asynccontextmanager
async def open_scratch(
    prepared: LoadedConfiguration, address: str, prefix: str
) -> AsyncIterator[Scratch]:
    """Open scratch databases on that server, and drop them at the end in any case."""
    async with open_client(prepared, address) as client:
        scratch = Scratch(client, prefix)
        try:
            yield scratch
        except PyMongoError as error:
            name = (getattr(error, "details", None) or {}).get("codeName", type(error).__name__)
            raise StartupError(
                f"the database does not do what a leak check needs: {name}",
                hint="`docgraph doctor` says what is wrong with the connection",
            ) from error
        finally:
            await _drop(scratch, prefix)


async def _drop(scratch: Scratch, prefix: str) -> None:
    try:
        await scratch.drop()
    except PyMongoError as error:
        raise StartupError(
            f"the scratch databases {prefix}… cannot be dropped",
            hint="drop them yourself: they hold nothing but made-up documents",
        ) from error


@contextmanager
def _explaining(db: str) -> Iterator[None]:
    """Explain an error if the database rejects the command."""
    try:
        yield
    except CollectionInvalid:
        return  # it already exists, which is fine
    except OperationFailure as error:
        if error.code not in _FORBIDDEN:
            raise
        raise StartupError(
            f"the user of the connection may not make the scratch database {db}",
            hint="name another connection with --set /mclient/connection-string=…, or give the "
            "user the role readWriteAnyDatabase meanwhile",
        ) from error
