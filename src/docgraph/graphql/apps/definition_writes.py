"""Drafts of definitions, and writes to their collection: validate, escape and announce.

An invalid definition is never stored (decision 4). Two apps cannot claim one URI, even when two
instances race for it: `_uris` has a unique index (decision 5). The check before the write only
improves the message.

`Drafts` checks and compiles definitions that are not stored, as if they were. Nothing of a draft is
cached. A large schema takes long, so all of the work runs off the event loop, in the lane of the
caller. The database answers what only it knows: operators, collections, indexes (decision 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from docgraph.codec import as_written, to_stored
from docgraph.codec.bson_types import ObjectId
from docgraph.codec.pieces import check_size
from docgraph.config.sources import CONFIGURATION
from docgraph.exchange import (
    ConfigError,
    Deadline,
    DocgraphError,
    Document,
    Exchange,
    Problem,
    Read,
    Resource,
    ResourceType,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.errors import Conflict, DefinitionError, NotSupported
from docgraph.exchange.exchange import Transaction, transaction_of
from docgraph.graphql.apps.apps import known_variables
from docgraph.graphql.apps.compiled_app import App, assemble_app
from docgraph.graphql.apps.definition_questions import resolve_reports
from docgraph.graphql.apps.stored_definitions import find_claims
from docgraph.graphql.definition.check import (
    Examination,
    check_secrets,
    check_written,
    examine,
)
from docgraph.graphql.definition.check_fields import CheckContext
from docgraph.graphql.definition.definition import AppDefinition, decode_definition, spell_uri
from docgraph.graphql.definition.definition_diff import Change, find_change
from docgraph.graphql.definition.findings import Finding, Report
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import DataInterceptor
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, Lane, run_blocking
from docgraph.store import Store
from docgraph.store.guard.shield import hide_marker
from docgraph.store.versions import Versions


@dataclass(frozen=True, slots=True)
class Inspection:
    """A definition, its findings, and the compiled parts."""

    definition: AppDefinition
    parts: Examination


@dataclass(frozen=True)
class Drafts:
    """Check and compile definitions under the settings, plugins and database of this instance."""

    _settings: Graphql
    _store: Store
    _registry: PluginRegistry
    _lane: Lane
    examined: dict[str, Examination] = field(default_factory=dict)  # by a command, before it writes

    async def inspect(self, document: Document) -> Inspection:
        """Return what is wrong with a definition, and the questions for the database."""
        return await run_blocking(self._lane, self._inspect, document)

    def _inspect(self, document: Document) -> Inspection:
        settings = self._settings
        variables = known_variables(self._registry)
        rules = CheckContext(settings.max_limit, self._store.policy, variables, settings.json_mode)
        definition = decode_definition(to_stored(document))
        hidden = self._store.guard.shield().hidden
        parts = self.examined.pop(definition.version, None)
        if parts is None:
            parts = check_written(definition, examine(definition, rules), settings)
        return Inspection(definition, check_secrets(parts, hidden))

    async def resolve(self, report: Report) -> Report:
        """Return the report completed with the answers of the database."""
        return (await self.resolve_all([report]))[0]

    async def resolve_all(self, reports: Sequence[Report]) -> list[Report]:
        """Return the reports completed with the answers of the database."""
        return await resolve_reports(reports, self._store, self._settings)

    def assemble(self, inspection: Inspection) -> App:
        """Return the app of a definition; raise `DefinitionError` for an invalid one."""
        settings = self._settings
        return assemble_app(inspection.definition, inspection.parts, settings, is_draft=True)

    async def compare(self, document: Document, deadline: Deadline) -> Change:
        """Return what storing the definition would change, apart from its `_etag`."""
        place = Resource(ResourceType.COLLECTION, self._settings.db, self._settings.collection)
        read = Read(filter={"_id": {"$eq": document["_id"]}}, limit=1)
        documents = await self._store.reads.read(place, read, deadline=deadline)
        stored, wanted = (
            {key: value for key, value in each.items() if key != "_etag"}
            for each in (documents[0] if documents else {}, document)
        )
        json_mode = self._settings.json_mode
        return await run_blocking(self._lane, find_change, stored, wanted, json_mode)


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
        # Hide the properties that docgraph adds to definitions from every read.
        try:
            hide_marker(store.guard, graphql.db, graphql.collection)
            self._key = store.guard.hide(graphql.db, graphql.collection, URIS, remade=True)
        except DocgraphError as error:
            problem = f"apps cannot be kept there: {error}".rstrip(".")
            raise ConfigError([Problem(CONFIGURATION, "/graphql", problem)]) from error
        lane = blocking.lane("definitions", concurrency=1, queue=64)
        self.drafts = Drafts(graphql, store, registry, lane)

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
        documents = [{"_id": ObjectId(), **document} for document in write.documents]
        inspections = [await self.drafts.inspect(_without_uris(each)) for each in documents]
        reports = await self.drafts.resolve_all([each.parts.report for each in inspections])
        inspected = zip(documents, inspections, reports, strict=True)
        for index, (document, inspection, report) in enumerate(inspected):
            place = f" in document at index position {index}" if len(documents) > 1 else ""
            findings = _reject_errors(report, place)
            prepared = _prepare(document, inspection.definition.uri)
            await self._reject_collision(prepared, taken, place, transaction)
            warnings += [f"{each} ({each.hint})" if each.hint else str(each) for each in findings]
            taken.update(prepared[URIS])
            checked.append(prepared)
        if write.kind is WriteKind.INSERT:
            # Before the first of several documents is inserted (decision 4).
            ids = [document["_id"] for document in checked]
            existing = await self._find_stored({"_id": {"$in": ids}}, transaction)
            if existing:
                raise Conflict(f"there is a GraphQL app {existing[0]['_id']!s} already")
        return replace(write, documents=tuple(checked), warnings=(*write.warnings, *warnings))

    async def _reject_collision(
        self, document: Document, taken: set[str], place: str, transaction: Transaction | None
    ) -> None:
        """Reject a URI that another app claims, even one that was stored without `_uris`."""
        claims = document[URIS]
        written = [spelling for claim in claims for spelling in spell_uri(claim)]
        claimed = [
            {URIS: {"$in": claims}},
            {"_id": {"$in": claims}},
            {"descriptor.uri": {"$in": written}},
        ]
        filter = {"$or": claimed, "_id": {"$ne": document["_id"]}}
        others = await self._find_stored(filter, transaction)
        if others or taken.intersection(claims):
            raise Conflict(
                f"URI collision{place}: another GraphQL app is already accessible at /{claims[-1]}",
                hint="choose another `_id` or `descriptor.uri`",
            )

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


def _without_uris(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != URIS}


def _reject_errors(report: Report, place: str) -> Sequence[Finding]:
    """Return the warnings of a valid definition; raise for an invalid one."""
    if report.errors:
        raise DefinitionError(
            f"Wrong GraphQL App definition{place}: {report.errors[0].where}: "
            f"{report.errors[0].what}",
            hint=report.errors[0].hint,
            details=[f"{error.where}: {error.what}" for error in report.errors],
        )
    return report.warnings


def _prepare(document: Document, uri: str) -> Document:
    """Return the definition as it is stored."""
    stored = to_stored(_without_uris(document))
    stored.setdefault("_etag", ObjectId())
    stored[URIS] = find_claims(document["_id"], uri)
    return stored


class DefinitionNotifier(OnDefinitions):
    """Announce a committed write to every worker and instance."""

    name: ClassVar[str] = "graphAppDefinitionTeller"
    description: ClassVar[str] = "makes written app definitions known to all workers"
    hears_uncertain: ClassVar[bool] = True

    def __init__(
        self, config: Any, graphql: Graphql, generations: Generations, store: Store
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
    """Reads of definitions return exactly what was written (decision 6)."""

    name: ClassVar[str] = "graphAppDefinitionReader"
    description: ClassVar[str] = "unescapes app definitions that are read"
    takes_portions: ClassVar[bool] = True

    async def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        """Return the documents without escapes and without docgraph's own properties."""
        return [
            as_written({key: value for key, value in document.items() if key != URIS})
            for document in documents
        ]
