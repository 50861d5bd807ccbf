"""Writes to the definitions collection: validate, escape and announce, for every protocol.

An invalid definition is never stored (decision 4). Two apps cannot claim one URI, even when two
instances race for it: `_uris` has a unique index (decision 5). The check before the write only
improves the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from docgraph.codec import as_written, to_stored
from docgraph.codec.bson_types import ObjectId
from docgraph.codec.pieces import check_size
from docgraph.config.locate import CONFIGURATION
from docgraph.exchange import (
    ConfigError,
    Deadline,
    DocgraphError,
    Document,
    Exchange,
    Problem,
    Resource,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.errors import Conflict, DefinitionError, NotSupported
from docgraph.exchange.exchange import Transaction, transaction_of
from docgraph.graphql.apps.drafts import Drafts
from docgraph.graphql.apps.stored_definitions import find_claims
from docgraph.graphql.definition.check import Finding
from docgraph.graphql.definition.definition import decode_definition, spell_uri
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import DataInterceptor
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations
from docgraph.store import RevealKey, Store
from docgraph.store.guard.shield import hide_marker
from docgraph.store.versions import Versions

URIS = "_uris"
_LOOK_MS = 5_000

_MAX_VALUES = 100_000  # of all definitions of one write: some of the work blocks the event loop


class OnDefinitions(DataInterceptor):
    """An interceptor of the definitions collection."""

    def __init__(self, config: Any, graphql: Graphql) -> None:
        self.settings = graphql

    def resolve(self, resource: Resource) -> bool:
        """Return whether this is the definitions collection or one of its documents."""
        return resource.is_in(self.settings.db, self.settings.collection)


class DefinitionChecker(OnDefinitions):
    """Reject invalid definitions; escape the keys of valid ones."""

    name: ClassVar[str] = "graphAppDefinitionChecker"
    description: ClassVar[str] = "validates app definitions before they are written"
    security: ClassVar[bool] = True
    wants_whole_documents: ClassVar[bool] = True

    def __init__(
        self,
        config: Any,
        graphql: Graphql,
        store: Store,
        registry: PluginRegistry,
        blocking: Blocking,
    ) -> None:
        super().__init__(config, graphql)
        self._store = store
        self._key = _hide_ours(store, graphql)
        lane = blocking.lane("definitions", concurrency=1, queue=64)
        self._drafts = Drafts(graphql, store, registry, lane)

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Check all documents; reject updates in place, which cannot be checked in advance."""
        if write.kind is WriteKind.DELETE:
            return write
        if write.kind is WriteKind.UPDATE:
            raise NotSupported(
                "GraphQL App definition cannot be updated with bulk patch requests",
                hint="write the whole definition",
            )
        check_size(write.documents, "the definition", _MAX_VALUES)
        checked: list[Document] = []
        warnings: list[str] = []
        taken: set[str] = set()
        transaction = transaction_of(exchange)
        for index, document in enumerate(write.documents):
            place = f" in document at index position {index}" if len(write.documents) > 1 else ""
            prepared, findings = await self._check({"_id": ObjectId(), **document}, place)
            await self._reject_collision(prepared, taken, place, transaction)
            warnings += map(_show, findings)
            taken.update(prepared[URIS])
            checked.append(prepared)
        if write.kind is WriteKind.INSERT:
            await self._reject_existing([one["_id"] for one in checked], transaction)
        return replace(write, documents=tuple(checked), warnings=(*write.warnings, *warnings))

    async def _check(self, document: Document, place: str) -> tuple[Document, Sequence[Finding]]:
        written = {key: value for key, value in document.items() if key != URIS}
        inspection = await self._drafts.inspect(written)
        report = await self._drafts.resolve(inspection.report)
        if report.errors:
            raise DefinitionError(
                f"Wrong GraphQL App definition{place}: {report.errors[0].where}: "
                f"{report.errors[0].what}",
                hint=report.errors[0].hint,
                details=[f"{one.where}: {one.what}" for one in report.errors],
            )
        stored = to_stored(written)
        stored.setdefault("_etag", ObjectId())
        stored[URIS] = find_claims(document["_id"], decode_definition(stored).uri)
        return stored, report.warnings

    async def _reject_collision(
        self, document: Document, taken: set[str], place: str, transaction: Transaction | None
    ) -> None:
        """Reject a claim that another app has, also one that was written without our array."""
        claims = document[URIS]
        written = [spelling for one in claims for spelling in spell_uri(one)]
        claimed = [
            {URIS: {"$in": claims}},
            {"_id": {"$in": claims}},
            {"descriptor.uri": {"$in": written}},
        ]
        filter = {"$or": claimed, "_id": {"$ne": document["_id"]}}
        found = await self._find_stored(filter, transaction)
        if found or taken.intersection(claims):
            raise Conflict(
                f"URI collision{place}: another GraphQL app is already accessible at /{claims[-1]}",
                hint="choose another `_id` or `descriptor.uri`",
            )

    async def _reject_existing(self, ids: list[Any], transaction: Transaction | None) -> None:
        """Reject ids that exist before the first of several documents is inserted (decision 4)."""
        found = await self._find_stored({"_id": {"$in": ids}}, transaction)
        if found:
            raise Conflict(f"there is a GraphQL app {found[0]['_id']!s} already")

    async def _find_stored(
        self, filter: Document, transaction: Transaction | None
    ) -> list[Document]:
        return await self._store.reads.find(
            self.settings.db,
            self.settings.collection,
            filter,
            projection={"_id": 1},
            limit=1,
            deadline=Deadline.after_ms(_LOOK_MS),
            reveal=(self._key,),
            transaction=transaction,
        )


def _show(warning: Finding) -> str:
    return f"{warning} ({warning.hint})" if warning.hint else str(warning)


def _hide_ours(store: Store, graphql: Graphql) -> RevealKey:
    """Hide docgraph's own properties from every read; each write sets them again."""
    try:
        hide_marker(store.guard, graphql.db, graphql.collection)
        return store.guard.hide(graphql.db, graphql.collection, URIS, remade=True)
    except DocgraphError as error:
        problem = f"apps cannot be kept there: {error}".rstrip(".")
        raise ConfigError([Problem(CONFIGURATION, "/graphql", problem)]) from error


class DefinitionNotifier(OnDefinitions):
    """Announce a committed write to every worker and instance."""

    name: ClassVar[str] = "graphAppDefinitionTeller"
    description: ClassVar[str] = "makes written app definitions known to all workers"
    hears_uncertain: ClassVar[bool] = True

    def __init__(
        self,
        config: Any,
        graphql: Graphql,
        generations: Generations,
        store: Store,
    ) -> None:
        super().__init__(config, graphql)
        self._generations = generations
        self._versions = Versions(store, graphql.db, graphql.collection)

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """Announce the write and return the result unchanged."""
        self._generations.bump("apps")
        await self._versions.announce()
        return result


class DefinitionReader(OnDefinitions):
    """Return exactly what was written (decision 6)."""

    name: ClassVar[str] = "graphAppDefinitionReader"
    description: ClassVar[str] = "unescapes app definitions that are read"
    takes_portions: ClassVar[bool] = True

    async def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        """Return the documents without escapes and without docgraph's own properties."""
        return [
            as_written({key: value for key, value in one.items() if key != URIS})
            for one in documents
        ]
