"""Fuzzing material: definitions as they are; of documents only names and kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph import Account, Deadline, DocgraphError, Document
from docgraph.tools.apps import App, Graphql, choose_definition, compile_definition
from docgraph.tools.data import (
    METADATA_STORE,
    Inventory,
    Listed,
    as_meant,
    find_references,
    metadata_id,
)
from docgraph.tools.installation import (
    Docgraph,
    ExplainedRequest,
    LoadedConfiguration,
    find_namespaces,
    find_own_places,
    has_stored_rules,
    read_file_rules,
)
from docgraph_workbench.fuzz.surface import (
    PropertyShape,
    Surface,
    join_kinds,
    survey_app,
    survey_stages,
)
from docgraph_workbench.infer.profile import Profile, Seen
from docgraph_workbench.leak_check.scratch import Scratch

_MAX_DEFINITIONS: Final = 10_000
_SAMPLE: Final = 50
_SAMPLE_MS: Final = 3_000
_MAX_LEAVES: Final = 200  # properties of a collection
_MAX_VIEWS: Final = 50
_ADDED: Final = ("_etag", "_escaping")  # by docgraph itself


@dataclass(slots=True)
class Material:
    """Everything that a copy is made of."""

    app: App
    account: Account | None
    definition: Document
    rules: list[Document] = field(default_factory=list)
    file_rules: list[Mapping[str, Any]] = field(default_factory=list)
    metadata: dict[str, Document] = field(default_factory=dict)  # by namespace; "db." is the db's
    surface: Surface = field(default_factory=Surface)
    views: dict[str, Listed] = field(default_factory=dict)  # by namespace
    notes: list[str] = field(default_factory=list)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that `@visible` mentions."""
        return self.account.roles if self.account is not None else ()

    @property
    def databases(self) -> list[str]:
        """The databases that have collections of the app."""
        return sorted({name.partition(".")[0] for name in self.surface.shapes})


async def gather(
    bench: Docgraph,
    scratch: Scratch,
    prepared: LoadedConfiguration,
    uri: str,
    question: ExplainedRequest,
) -> Material:
    """Read the definitions of an app and its metadata and rules; nothing is written."""
    account = await bench.plugins.find("accessExplain").explainer.find_caller(question)
    settings = prepared.config.get(Graphql)
    definition = await _find_definition(scratch, settings, uri)
    app = compile_definition(definition, bench, settings)
    material = Material(app, account, as_meant(definition))
    material.surface = survey_app(app, material.roles)
    material.rules = await _read_rules(scratch, prepared)
    material.file_rules = read_file_rules(prepared)
    for name in find_namespaces(material.definition):
        material.surface.shape(name)
    await _add_views(bench, material)
    await _read_metadata(scratch, material)
    for name, metadata in material.metadata.items():
        for aggregation in list_entries(metadata, "aggrs"):
            survey_stages(material.surface, name, aggregation.get("stages") or [], "$ifvar")
    join_kinds(material.surface)
    await _sample(bench, material)
    _record_roles(material, question)
    return material


async def _find_definition(scratch: Scratch, settings: Graphql, uri: str) -> Document:
    definitions = await scratch.read(settings.db, settings.collection, {}, _MAX_DEFINITIONS)
    return choose_definition(definitions, uri)


async def _read_rules(scratch: Scratch, prepared: LoadedConfiguration) -> list[Document]:
    if not has_stored_rules(prepared):
        return []
    place = find_own_places(prepared).rules
    return [as_meant(rule) for rule in await scratch.read(*place, {}, _MAX_DEFINITIONS)]


async def _add_views(bench: Docgraph, material: Material) -> None:
    """Add the views on collections of the app, and what the views of the app read.

    A view that a rule names shows rows on purpose: it is copied like any other collection.
    """
    shapes, inventory = material.surface.shapes, Inventory(bench.store)
    named = set(_find_named_rows([*material.rules, *material.file_rules]))
    listed = {
        f"{db}.{collection.name}": collection
        for db in material.databases
        for collection in await inventory.list_collections(db, Deadline.after_ms(_SAMPLE_MS))
        if collection.kind == "view"
    }
    pending = True
    while pending:  # views on views
        pending = False
        for name, view in listed.items():
            if name in material.views or name in named or len(material.views) >= _MAX_VIEWS:
                continue
            db = name.partition(".")[0]
            others = [
                f"{reference.db}.{reference.collection}"
                for reference in find_references(view.stages, db)
            ]
            if shapes.keys() & {name, f"{db}.{view.source}", *others}:
                material.views[name] = view
                _add_view(material.surface, name, f"{db}.{view.source}", view)
                pending = True


def _add_view(surface: Surface, name: str, source: str, view: Listed) -> None:
    """Add the properties of a view to its source: documents are made there."""
    survey_stages(surface, source, list(view.stages), "")
    shape, origin = surface.shape(name), surface.shape(source)
    source_paths = {path for path, _ in origin.leaves()}
    for path, node in shape.leaves():
        if path not in source_paths:
            made = origin.at(path)
            made.kind, made.is_list, made.is_key = node.kind, node.is_list, node.is_key
            made.values, made.hidden_by = [*node.values], [*node.hidden_by]


def _find_named_rows(rules: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for rule in rules:
        mongo = rule.get("mongo")
        filters = mongo.get("readFilters") if isinstance(mongo, Mapping) else None
        yield from filters if isinstance(filters, Mapping) else ()


async def _read_metadata(scratch: Scratch, material: Material) -> None:
    """Read streams, aggregations and schemas of the collections, and of those they join."""
    surface = material.surface
    pending = set(surface.shapes)
    while pending:
        name = min(pending)  # always in the same order
        pending.remove(name)
        surface.shape(name)
        db, _, collection = name.partition(".")
        ids = [metadata_id(collection), metadata_id(None)]
        for document in await scratch.read(db, METADATA_STORE, {"_id": {"$in": ids}}, 2):
            plain = as_meant(document)
            material.metadata[name if document["_id"] == ids[0] else f"{db}."] = plain
            pending |= set(find_namespaces(plain, db)) - surface.shapes.keys()


def list_entries(metadata: Mapping[str, Any] | None, kind: str) -> list[Mapping[str, Any]]:
    """Return the stored aggregations (`aggrs`) or streams (`streams`) that have a name."""
    entries = (metadata or {}).get(kind)
    stored = entries if isinstance(entries, list) else ()
    return [entry for entry in stored if isinstance(entry, Mapping) and "uri" in entry]


async def _sample(bench: Docgraph, material: Material) -> None:
    """Sample the names and kinds of real properties from a few documents; drop their values."""
    inventory = Inventory(bench.store)
    for name, shape in material.surface.shapes.items():
        db, _, collection = name.partition(".")
        profile = Profile()

        async def profile_batch(documents: list[Document], profile: Profile = profile) -> None:
            profile.add_all(documents)

        try:
            deadline = Deadline.after_ms(_SAMPLE_MS)
            measure = await inventory.measure(db, collection, deadline)
            await inventory.sample(
                db, collection, _SAMPLE, measure, deadline=deadline, take=profile_batch
            )
        except DocgraphError as error:
            material.notes.append(f"{name}: its documents were not sampled: {error.message}")
        if not profile.documents:
            material.notes.append(f"{name}: no documents to learn from, only the definitions")
        _add_profile(shape, profile)


def _add_profile(shape: PropertyShape, profile: Profile) -> None:
    for number, (path, seen) in enumerate(profile.shape.walk()):
        if number >= _MAX_LEAVES or path[0] in _ADDED or any("." in step for step in path):
            continue
        node = shape.at(path)
        node.is_list = node.is_list or "array" in seen.kinds
        if kind := _find_kind(seen):
            node.kind = node.kind if node.kind == "enum" else kind


def _find_kind(seen: Seen) -> str:
    """Return the most frequent kind; empty for objects, which have properties instead."""
    leaf = seen.elements or seen
    if leaf.shape is not None:
        return ""
    kinds = Counter({kind: n for kind, n in leaf.kinds.items() if kind not in ("array", "null")})
    return kinds.most_common(1)[0][0] if kinds else ""


def _record_roles(material: Material, question: ExplainedRequest) -> None:
    known_roles = set(_find_roles([*material.rules, *material.file_rules]))
    known_roles |= set(material.app.visibility.all_roles)
    for role in question.roles:
        if role not in known_roles:
            material.notes.append(f"no rule and no @visible names the role {role!r}")


def _find_roles(rules: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for rule in rules:
        roles = rule.get("roles", rule.get("role", ()))
        yield from [roles] if isinstance(roles, str) else roles or ()
