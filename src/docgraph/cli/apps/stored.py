"""Definitions collection for commands: read and written through the interceptors."""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from docgraph.cli.options import prepare_sources
from docgraph.cli.terminal import notice
from docgraph.config import ConfigSources
from docgraph.exchange import (
    Deadline,
    Document,
    Read,
    Resource,
    ResourceType,
    StartupError,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.errors import TimeLimitExceeded
from docgraph.graphql.sections import Graphql

if TYPE_CHECKING:
    from docgraph.graphql.definition.definition_diff import Change
    from docgraph.server.app import Docgraph

_T = TypeVar("_T")
_LIMIT_MS = 30_000
_WRITE_MS = 120_000  # for all definitions of `apps apply`
_MAX_APPS = 100_000


class Definitions:
    """The definitions collection, read and written through the interceptors."""

    def __init__(self, app: Docgraph, settings: Graphql) -> None:
        self.app = app
        self.settings = settings
        self._resource = Resource(ResourceType.COLLECTION, settings.db, settings.collection)

    async def read(self, read: Read) -> list[Document]:
        return await self.app.store.reads.read(
            self._resource, read, deadline=Deadline.after_ms(_LIMIT_MS)
        )

    async def write(self, write: Write) -> WriteResult:
        """Write with the user at the terminal as the author."""
        from docgraph.graphql.apps.history import AUTHOR

        AUTHOR.set(_name_author())
        try:
            result = await self.app.store.writes.write(
                self._resource, write, deadline=Deadline.after_ms(_WRITE_MS), majority=True
            )
        except TimeLimitExceeded as error:
            raise StartupError(
                error.message,
                hint=f"checking and storing took more than {_WRITE_MS // 1000} s: name fewer "
                "definitions at a time, or run it where the database is near",
            ) from error
        if result.failures:
            raise StartupError(
                result.failures[0].message, hint="another process wrote at the same time: try again"
            )
        return result

    def reuse(self, examined: dict[str, Any]) -> None:
        """Let writes use what this command has compiled; the database has answered it already."""
        answered = {
            version: replace(parts, report=replace(parts.report, questions=()))
            for version, parts in examined.items()
        }
        self.app.plugins.find("graphAppDefinitionChecker").drafts.examined.update(answered)

    async def print_served(self) -> None:
        """Wait until the running instances serve what is stored now, or print which do not."""
        from docgraph.cli.application import print_served
        from docgraph.store.versions import Versions

        settings = self.settings
        await print_served("apps", Versions(self.app.store, settings.db, settings.collection))

    async def read_all(self) -> list[Document]:
        return await self.read(Read(sort=[("_id", 1)], limit=_MAX_APPS))

    async def compare(self, wanted: Sequence[Document], *, prune: bool) -> list[Change]:
        """Return what storing these definitions would change."""
        from docgraph.cli.apps.definitions import find_changes

        stored = [without_etag(document) for document in await self.read_all()]
        return find_changes(stored, wanted, json_mode=self.settings.json_mode, prune=prune)

    async def store(self, documents: tuple[Document, ...], gone: Sequence[Document]) -> None:
        """Store definitions in place of others; delete those that conflict with a new one first."""
        from docgraph.cli.apps.definitions import claims_of
        from docgraph.graphql.apps.app_index import ensure_index

        await ensure_index(self.app.store, self.settings)
        claims = set[str]().union(*map(claims_of, documents))
        await self.delete(definition for definition in gone if claims & claims_of(definition))
        await self.write(Write(WriteKind.REPLACE, documents, upsert=True))
        for document in documents:
            notice(f"stored {document['_id']!s}")
        await self.delete(definition for definition in gone if not claims & claims_of(definition))

    async def delete(self, documents: Iterable[Document]) -> None:
        """Delete stored definitions, and report it."""
        for document in documents:
            await self.write(Write(WriteKind.DELETE, filter={"_id": document["_id"]}))
            notice(f"deleted {document['_id']!s}")

    async def find(self, id: Any) -> Document | None:
        documents = await self.read(Read(filter={"_id": {"$eq": id}}, limit=1))
        return documents[0] if documents else None

    async def find_served(self, app: str) -> Document | None:
        """Return the definition with that `_id`, or else with that URI."""
        from docgraph.graphql.definition.definition import spell_uri

        filter = {"$or": [{"_id": app}, {"descriptor.uri": {"$in": spell_uri(app)}}]}
        documents = await self.read(Read(filter=filter, limit=1))
        return documents[0] if documents else None

    async def require(self, app: str) -> Document:
        """Return the definition with that `_id` or URI; raise `StartupError` if there is none."""
        document = await self.find_served(app)
        if document is None:
            raise StartupError(
                f"there is no app {app!r}", hint="`docgraph apps list` lists the stored ones"
            )
        return document


def _name_author() -> str:
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # a container may have no name for its user
        return "(command line)"


def run_on(sources: ConfigSources, work: Callable[[Definitions], Awaitable[_T]]) -> _T:
    from docgraph.cli.application import work_on

    prepared = prepare_sources(sources)
    return work_on(prepared, lambda app: work(Definitions(app, prepared.config.get(Graphql))))


def without_etag(document: Document) -> Document:
    """Return the definition as authors write it; storing it creates the ETag."""
    return {key: value for key, value in document.items() if key != "_etag"}
