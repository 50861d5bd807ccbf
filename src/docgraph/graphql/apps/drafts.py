"""Drafts: definitions that are not stored, checked and compiled as if they were.

Nothing of a draft is cached. A large schema takes long, so all of the work runs off the event loop,
in the caller's lane.
"""

from __future__ import annotations

from dataclasses import dataclass

from docgraph.codec import to_stored
from docgraph.exchange import Deadline, Document, Read, Resource, ResourceType
from docgraph.graphql.apps.apps import known_variables
from docgraph.graphql.apps.compiled_app import App, assemble_app
from docgraph.graphql.apps.database_checks import resolve_report
from docgraph.graphql.definition.check import Examination, Report, examine_written
from docgraph.graphql.definition.check_fields import CheckContext
from docgraph.graphql.definition.definition import AppDefinition, decode_definition
from docgraph.graphql.definition.definition_diff import Change, find_change
from docgraph.graphql.sections import Graphql
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Lane, run_blocking
from docgraph.store import Store


@dataclass(frozen=True, slots=True)
class Inspection:
    """A definition, its findings, and the compiled parts."""

    definition: AppDefinition
    parts: Examination

    @property
    def report(self) -> Report:
        """The findings of the inspection."""
        return self.parts.report


class Drafts:
    """Check and compile definitions under the settings, plugins and database of this instance."""

    def __init__(
        self, settings: Graphql, store: Store, registry: PluginRegistry, lane: Lane
    ) -> None:
        self._settings = settings
        self._store = store
        self._registry = registry
        self._lane = lane

    async def inspect(self, document: Document) -> Inspection:
        """Return what is wrong with a definition, and the questions for the database."""
        return await run_blocking(self._lane, self._inspect, document)

    def _inspect(self, document: Document) -> Inspection:
        settings = self._settings
        variables = known_variables(self._registry)
        rules = CheckContext(settings.max_limit, self._store.policy, variables, settings.json_mode)
        definition = decode_definition(to_stored(document))
        hidden = self._store.guard.shield().hidden
        return Inspection(definition, examine_written(definition, rules, settings, hidden))

    async def resolve(self, report: Report) -> Report:
        """Return the report completed with the answers of the database."""
        return await resolve_report(report, self._store, self._settings)

    def assemble(self, inspection: Inspection) -> App:
        """Return the app of a definition; raise `DefinitionError` for an invalid one."""
        return assemble_app(inspection.definition, inspection.parts, self._settings)

    async def compare(self, document: Document, deadline: Deadline) -> Change:
        """Return what storing the definition would change, apart from its `_etag`."""
        place = Resource(ResourceType.COLLECTION, self._settings.db, self._settings.collection)
        read = Read(filter={"_id": {"$eq": document["_id"]}}, limit=1)
        found = await self._store.reads.read(place, read, deadline=deadline)
        stored, wanted = (_without_etag(one) for one in (found[0] if found else {}, document))
        json_mode = self._settings.json_mode
        return await run_blocking(self._lane, find_change, stored, wanted, json_mode)


def _without_etag(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != "_etag"}
