"""Infer a definition from the collections of a database: survey, relations, model, text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph import Document, NotFound
from docgraph.tools.data import Store
from docgraph.tools.installation import render_block
from docgraph_workbench.infer.candidates import list_words, stem_of, type_words
from docgraph_workbench.infer.field_names import (
    NamePool,
    camel,
    is_name,
    pascal,
    plural,
    split_words,
)
from docgraph_workbench.infer.list_fields import ListBuilder, page_arguments, page_mapping
from docgraph_workbench.infer.model import (
    CollectionType,
    Field,
    Model,
    ModelRelation,
    ObjectType,
    ScalarProperty,
    build_mappings,
    render_schema,
)
from docgraph_workbench.infer.object_types import RESERVED_TYPES, TypeBuilder
from docgraph_workbench.infer.relations import InferredRelation, find_relations
from docgraph_workbench.infer.survey import Budget, Surveyed, SurveyScope, survey

_RELATIONS_SHARE: Final = 0.4  # of the time
_MAX_REASONS: Final = 10
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(slots=True)
class Inferred:
    """A definition, and notes on how it was inferred."""

    model: Model
    notes: list[str] = field(default_factory=list)

    @property
    def schema(self) -> str:
        """The schema in SDL."""
        return render_schema(self.model)

    @property
    def mappings(self) -> dict[str, Any]:
        """The mappings."""
        return build_mappings(self.model)

    def render_mappings(self) -> str:
        """Return the mappings as YAML."""
        return render_block(self.mappings)


async def infer(store: Store, scope: SurveyScope, names: KnownNames | None = None) -> Inferred:
    """Sample the database and infer a definition; raise `NotFound` if there is nothing to read.

    `names` are those of an existing definition.
    """
    notes: list[str] = []
    collections = await survey(store, scope, notes)
    if not collections:
        raise _nothing(scope, notes)
    budget = Budget(scope.seconds * _RELATIONS_SHARE)
    relations = await find_relations(store, collections, budget, notes)
    known_names = names or KnownNames()
    model = await scope.run(lambda: build_model(collections, relations, known_names))
    notes += model.notes
    if not model.types["Query"].fields:
        raise _nothing(scope, notes)
    return Inferred(model, notes)


def _nothing(scope: SurveyScope, notes: list[str]) -> NotFound:
    return NotFound(
        f"there is nothing to learn from in the database {scope.db!r}",
        hint="; ".join(notes[:_MAX_REASONS]) or "it has no collections that docgraph may read",
    )


def name_app(db: str) -> str:
    """Return the name of an app on that database, which is also its URI."""
    return _FOREIGN.sub("-", db).strip("-") or "app"


def build_app(id: str, db: str) -> Document:
    """Return the content of `app.yml`."""
    description = f"Inferred from the database {db}"
    return {"_id": id, "descriptor": {"description": description, "json-mode": "plain"}}


_MAX_SORTS: Final = 3  # of a relation
_IDENTIFYING: Final = frozenset({"objectId", "number", "uuid"})


@dataclass(slots=True)
class _CollectionPart:
    """A collection, and the types and fields that are built from it."""

    collection: Surveyed
    type_name: str
    builder: TypeBuilder
    lists: ListBuilder = field(init=False)


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names of types that collections already have, and of objects and enums in them."""

    collections: Mapping[str, str] = field(default_factory=dict)
    nested: Mapping[tuple[str, str], str] = field(default_factory=dict)


def build_model(
    collections: Sequence[Surveyed], relations: Sequence[InferredRelation], names: KnownNames
) -> Model:
    """Build everything that the sample shows, under the names that already exist."""
    model = Model()
    model.types["Query"] = ObjectType("Query")
    builder = _ModelBuilder(model, relations)
    builder.build_types(collections, names)
    builder.add_all_forward()
    builder.add_all_backward()
    builder.build_entrances()
    return model


class _ModelBuilder:
    """Builds the types of all collections, and then the relations between them."""

    def __init__(self, model: Model, relations: Sequence[InferredRelation]) -> None:
        self.model = model
        self._relations = relations
        self._types = NamePool(RESERVED_TYPES)
        self._parts: dict[str, _CollectionPart] = {}

    def build_types(self, collections: Sequence[Surveyed], names: KnownNames) -> None:
        """Build the types; those of the collections themselves get their preferred names."""
        chosen = {
            collection.name: self._types.claim(names.collections[collection.name])
            for collection in collections
            if collection.name in names.collections
        }
        for collection in collections:
            if collection.name not in chosen:
                wish = pascal(type_words(collection.name))
                wish = wish if is_name(wish) else f"Type{wish}"
                chosen[collection.name] = self._types.claim(wish, f"{wish}Document")
        for collection in collections:
            relations = (relation.source for relation in self._relations)
            references = frozenset(
                source.path for source in relations if source.collection is collection
            )
            context = (
                references,
                collection.open_ended,
                names.nested,
                collection.listed.required,
                collection.name,
            )
            builder = TypeBuilder(self.model, self._types, *context)
            builder.build(chosen[collection.name], collection.profile.shape)
            if not self.model.types[chosen[collection.name]].fields:
                del self.model.types[chosen[collection.name]]
                self.model.notes.append(
                    f"{collection.name}: left out, nothing in it can be a field"
                )
                continue
            part = _CollectionPart(collection, chosen[collection.name], builder)
            lists = (builder.leaves, builder.names, references, self.model)
            part.lists = ListBuilder(collection, part.type_name, *lists)
            self._parts[collection.name] = part
            self._describe(part)

    def _describe(self, part: _CollectionPart) -> None:
        collection, type_ = part.collection, self.model.types[part.type_name]
        kind = {"view": "view", "timeseries": "time series"}.get(
            collection.listed.kind, "collection"
        )
        is_known = collection.documents is not None and collection.is_explained
        about = f"about {collection.documents} documents, " if is_known else ""
        type_.description = f"A document of {collection.name}"
        type_.remarks.insert(
            0, f"{kind} {collection.name}: {about}{collection.profile.documents} looked at"
        )
        documents = collection.documents if is_known else None
        facts = (collection.listed.kind, part.type_name, documents, collection.profile.documents)
        self.model.collections.append(CollectionType(collection.name, *facts))

    def add_all_forward(self) -> None:
        """Add relations from documents that have keys to the documents they refer to."""
        self._relations = [
            relation for relation in self._relations if self._parts.keys() >= {*_ends(relation)}
        ]
        for relation in self._relations:
            self._add_forward(relation)

    def _add_forward(self, relation: InferredRelation) -> None:
        source, key = relation.source, relation.key
        part, target = self._parts[source.collection.name], self._parts[key.collection.name]
        path = source.path[:-1] if source.is_reference else source.path
        owner = part.builder.owners.get(path[:-1])
        own_name = part.builder.names.get(path)
        if owner is None or own_name is None or own_name not in owner.fields:
            return  # the field itself was left out
        many = source.is_many
        value: Any = {"$fk": source.text.removeprefix(".".join((*path[:-1], "")))}
        find = {key.name: {"$in": value} if many else value}
        mapping = target.lists.build_mapping(find)
        if source.is_reference:
            name = _rename(part, owner, path, own_name, f"{own_name}Ref")
            part.builder.names[source.path] = part.builder.names[path]
        else:
            name = self._name_forward(part, owner, relation, own_name)
        forward = Field(name, f"[{target.type_name}!]!" if many else target.type_name, mapping)
        if many:
            forward.arguments, forward.mapping = page_arguments(), page_mapping(mapping)
        if relation.share < 1:
            forward.remarks.append(f"{relation.found} of {relation.tested} values were found")
        owner.add(forward)
        evidence = relation.describe()
        self.model.notes.append(evidence)
        described = ModelRelation(*_ends(relation), owner.name, forward.name, evidence)
        self.model.relations[(source.collection.name, *source.path)] = described

    def _name_forward(
        self, part: _CollectionPart, owner: ObjectType, relation: InferredRelation, own_name: str
    ) -> str:
        """Name a relation: `customerId` becomes `customer`; a bare `customer` becomes an id."""
        source = relation.source
        pool = part.builder.pools[owner.name]
        target = type_words(relation.key.collection.name)
        last = split_words(source.path[-1])
        stem = stem_of(source.path[-1:])
        words = [*stem[:-1], plural(stem[-1])] if source.is_many and stem else stem
        if words and words != last:
            longer = [*words, *target]
            return pool.claim(camel(words), camel(longer), camel([*longer, "document"]))
        # `sequelOf` says more than the type of the document: `movie` of a `Movie`.
        is_own = source.collection is relation.key.collection
        is_identifying = is_own or source.family in _IDENTIFYING or stem == target
        if is_identifying and own_name == source.path[-1]:
            ends = ("Ids", "Keys") if source.is_many else ("Id", "Key")
            base = camel(stem) if source.is_many else own_name
            return _rename(part, owner, source.path, own_name, *(f"{base}{end}" for end in ends))
        ending = list_words(relation.key.collection.name) if source.is_many else target
        wishes = (camel(ending), camel([*split_words(own_name), *ending]))
        return pool.claim(*(wishes if self._is_only(relation) else wishes[1:]))

    def _is_only(self, relation: InferredRelation) -> bool:
        """Return whether nothing else in the same object refers to that collection."""
        source, key = relation.source, relation.key
        alike = [
            other
            for other in self._relations
            if other.source.collection is source.collection
            and other.source.path[:-1] == source.path[:-1]
            and other.key.collection is key.collection
        ]
        return len(alike) == 1

    def add_all_backward(self) -> None:
        """Add relations from a document to those that refer to it."""
        pairs = Counter(_ends(relation) for relation in self._relations)
        for relation in self._relations:
            source = relation.source
            is_built = source.path in self._parts[source.collection.name].builder.names
            if is_built and not source.collection.is_view:
                self._add_backward(relation, is_only=pairs[_ends(relation)] == 1)

    def _add_backward(self, relation: InferredRelation, *, is_only: bool) -> None:
        source, key = relation.source, relation.key
        part, target = self._parts[source.collection.name], self._parts[key.collection.name]
        pool = target.builder.pools[target.type_name]
        find = {source.text: {"$fk": key.name}}
        if source.collection.is_unique(source.text) and not source.is_many:
            name = pool.claim(camel(type_words(source.collection.name)), f"{part.type_name}Back")
            backward = Field(name, part.type_name, part.lists.build_mapping(find))
        else:
            name = pool.claim(*_name_backward(relation, is_only=is_only))
            sorts = part.lists.build_sorts(NamePool(("limit", "skip")), _MAX_SORTS)
            mapping = page_mapping(part.lists.build_mapping(find, sorts))
            arguments = [*(argument for argument, _ in sorts), *page_arguments()]
            backward = Field(name, f"[{part.type_name}!]!", mapping, arguments)
        if not relation.is_indexed and source.collection.is_explained:
            create = f'createIndex({{"{source.text}": 1}})'
            command = f'db.getCollection("{source.collection.name}").{create}'
            backward.remarks.append(f"no index serves this: {command}")
        self.model.types[target.type_name].add(backward)
        described = self.model.relations.get((source.collection.name, *source.path))
        if described is not None:
            described.back = backward.name

    def build_entrances(self) -> None:
        """Build the fields of `Query`."""
        query, pool = self.model.types["Query"], NamePool()
        for part in self._parts.values():
            words = type_words(part.collection.name)
            single, several = camel(words), camel(list_words(part.collection.name))
            listed = part.lists.build_list(pool.claim(several, f"{several}List"))
            wishes = (f"{single}ById",) if single == several else (single, f"{single}ById")
            id_leaf = _find_id(part)
            if id_leaf is not None:
                argument = part.builder.names[("_id",)]
                query.add(part.lists.build_single(pool.claim(*wishes), id_leaf, argument))
            else:
                self.model.notes.append(
                    f"{part.collection.name}: callers cannot find one by `_id`: it has no scalar "
                    "type, or is left out"
                )
            for leaf in part.lists.find_keys():
                argument = part.builder.names[leaf.path] if len(leaf.path) == 1 else leaf.path[-1]
                if not is_name(argument):
                    continue
                name = pool.claim(f"{single}By{pascal(split_words(leaf.text))}")
                query.add(part.lists.build_single(name, leaf, argument))
            query.add(listed)
            if not part.collection.is_scanned:
                why = "it is large, so only properties with an index are filters"
                self.model.notes.append(f"{part.collection.name}: {why}")


def _rename(
    part: _CollectionPart, owner: ObjectType, path: tuple[str, ...], own_name: str, *wishes: str
) -> str:
    """Give the raw field of a relation another name; return its own, for the relation."""
    raw = part.builder.pools[owner.name].claim(*wishes)
    renamed = owner.fields[own_name]
    owner.fields = {raw if key == own_name else key: value for key, value in owner.fields.items()}
    renamed.name, renamed.mapping = raw, renamed.mapping or own_name
    part.builder.names[path] = raw
    return own_name


def _find_id(part: _CollectionPart) -> ScalarProperty | None:
    """Return the `_id`, if callers can query by it."""
    for leaf in part.builder.leaves:
        if leaf.path == ("_id",) and not leaf.is_repeated:
            return leaf if leaf.type not in ("Binary", "BsonDocument", "Regex") else None
    return None


def _ends(relation: InferredRelation) -> tuple[str, str]:
    return relation.source.collection.name, relation.key.collection.name


def _name_backward(relation: InferredRelation, *, is_only: bool) -> tuple[str, ...]:
    source = relation.source
    several = camel(list_words(source.collection.name))
    stem = stem_of(source.path) or ["key"]
    by = f"{several}By{pascal(stem)}"
    full = f"{several}By{pascal([word for name in source.path for word in split_words(name)])}"
    if source.collection is relation.key.collection:
        return ("children", by, full) if stem == ["parent"] else (by, full)
    return (several, by, full) if is_only else (by, full)
