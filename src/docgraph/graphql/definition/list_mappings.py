"""Mappings of lists: `filter` and `orderBy` become arguments of the field (decision 56).

A filter over `Post` generates the type `PostWhere`, an order `PostOrder`. Fields that declare the
same share a type; another shape gets its name from the field: `QueryDraftsWhere`. Fields of Query
come first, then other types in the order of the schema, so that names do not depend on mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from graphql import (
    GraphQLField,
    GraphQLSchema,
    TypeDefinitionNode,
    get_named_type,
    get_nullable_type,
    is_composite_type,
    is_list_type,
)

from docgraph.exchange.data import CollectionName
from docgraph.graphql.conditions import OrderSpec
from docgraph.graphql.definition.declared_fields import (
    FieldTree,
    ItemFields,
)
from docgraph.graphql.definition.findings import Findings, IndexedFields
from docgraph.graphql.definition.generated_types import (
    GeneratedTypes,
    list_queries,
)
from docgraph.graphql.definition.list_types import (
    build_input_field,
    build_order_types,
    build_relations,
    build_specs,
    build_where_types,
    capitalize,
    follow_fields,
    list_orders,
    list_paths,
    place_order,
)
from docgraph.graphql.definition.mapping import EnumMapping, Mappings, QueryMapping
from docgraph.graphql.definition.related_fields import RelationReader
from docgraph.graphql.definition.visibility import Coordinates
from docgraph.graphql.related import ORDERED
from docgraph.graphql.where import LOGICAL, SEARCH, WhereSpec
from docgraph.store.guard.stage_checks import has_key
from docgraph.store.order import pinned_paths
from docgraph.variables.compilation import describe

_Build = Callable[[str], list[TypeDefinitionNode]]

_SEARCHES: Final = frozenset({"$text", "$near", "$nearsphere"})  # as `has_key` expects them
_FILTER_KEYS: Final = ("fields", "relations", "search", "indexed-only")
_ORDER_KEYS: Final = ("fields", "indexed-only")
_KEYS: Final = {"Where": "filter", "Order": "orderBy"}


def add_lists(
    schema: GraphQLSchema,
    mappings: Mappings,
    enums: Mapping[str, EnumMapping],
    source: Mapping[str, Any],
    generated: GeneratedTypes,
    findings: Findings,
) -> Mappings:
    """Return the mappings with their compiled filters and orders; collect the generated types."""
    changed = {name: dict(fields) for name, fields in mappings.items()}
    items = ItemFields(schema, mappings, enums)
    shapes: dict[str, str] = {}
    for type_, name, mapping in list_queries(schema, mappings):
        value = source[type_.name][name]
        if generated.is_full:
            break
        if {"filter", "orderBy"} & value.keys():
            place, field = (type_.name, name), type_.fields[name]
            own = ListField(place, field, items, generated, findings, shapes)
            changed[type_.name][name] = own.extend(mapping, value)
    return changed


@dataclass(frozen=True)
class ListField:
    """Compiles `filter` and `orderBy` of one field."""

    _place: Coordinates
    _field: GraphQLField
    _items: ItemFields
    _generated: GeneratedTypes
    _findings: Findings
    _shapes: dict[str, str]  # of the generated types, by name

    @property
    def _where(self) -> str:
        return f"mappings.{self._place[0]}.{self._place[1]}"

    def extend(self, mapping: QueryMapping, value: Mapping[str, Any]) -> QueryMapping:
        """Return the mapping with what callers may filter and order by."""
        for key, known, build in (
            ("filter", _FILTER_KEYS, self._add_filter),
            ("orderBy", _ORDER_KEYS, self._add_order),
        ):
            config = value.get(key)
            if config is None or not self._check_shape(key, config, known):
                continue
            before = len(self._findings.errors)
            tree = self._read_tree(key, config)
            if len(self._findings.errors) > before:
                continue  # a type of wrong fields would be wrong, too
            mapping = build(mapping, config, tree)
            if config.get("indexed-only"):
                self._check_indexes(mapping, key, tree)
        return mapping

    def _read_tree(self, key: str, config: Mapping[str, Any]) -> FieldTree:
        item, is_order = get_named_type(self._field.type), key == "orderBy"
        where, fields = f"{self._where}.{key}", config.get("fields", ())
        relations = RelationReader(self._items, self._findings)
        tree = FieldTree.build(
            self._items,
            item,
            fields,
            f"{where}.fields",
            self._findings,
            is_order=is_order,
            related=relations.list_related(item, is_order=is_order),
        )
        if is_order:
            relations.read_order(tree, item, fields, f"{where}.fields")
        else:
            relations.read_filter(tree, item, config, where)
        return tree

    def _check_shape(self, key: str, config: Any, known: tuple[str, ...]) -> bool:
        where, before = f"{self._where}.{key}", len(self._findings.errors)
        if not is_list_type(get_nullable_type(self._field.type)):
            self._findings.error(where, "needs a field that is a list", "make its type [...]")
        elif not is_composite_type(get_named_type(self._field.type)):
            self._findings.error(where, "needs a list of an object type: it names its fields")
        if not isinstance(config, dict):
            self._findings.error(where, f"must be an object, not {describe(config)}")
            return False
        for name, option in config.items():
            if name not in known:
                what = "is not known and has no effect"
                self._findings.warn_unknown(f"{where}.{name}", what, name, known)
            elif name not in ("fields", "relations") and not isinstance(option, bool):
                what = f"must be a boolean, not {describe(option)}"
                self._findings.error(f"{where}.{name}", what)
        kind: type = dict if key == "filter" else list
        others = key == "filter" and (config.get("search") or config.get("relations"))
        fields = config.get("fields", kind() if others else None)
        if not isinstance(fields, kind) or not (fields or others):
            noun = "an object of fields and their operators" if kind is dict else "a list of fields"
            self._findings.error(f"{where}.fields", f"must be {noun}, with one field or more")
        return len(self._findings.errors) == before

    def _add_filter(
        self, mapping: QueryMapping, config: Mapping[str, Any], tree: FieldTree
    ) -> QueryMapping:
        search, is_root = config.get("search") is True, self._place[0] == "Query"
        where = f"{self._where}.filter"
        if search and not is_root:
            self._findings.error(
                f"{where}.search",
                "only fields of Query can search: in a relation the join finds the documents",
            )
        if search and has_key(mapping.find.source, _SEARCHES):
            self._findings.error(f"{where}.search", "find has a search already, and may have one")
        for name in tree.names():
            if name in (*LOGICAL, SEARCH):
                what = f"{name} has a meaning of its own in where"
                self._findings.error(f"{where}.fields.{name}", what, "give the field another name")
        base = self._generate(
            "Where", tree, lambda name: build_where_types(name, tree, search), search
        )
        self._generated.add_arguments(*self._place, [build_input_field("where", base)], where)
        only = config.get("indexed-only") is True
        spec = WhereSpec(build_specs(tree), search, only, is_root, build_relations(tree))
        return replace(mapping, where=spec)

    def _add_order(
        self, mapping: QueryMapping, config: Mapping[str, Any], tree: FieldTree
    ) -> QueryMapping:
        where = f"{self._where}.orderBy"
        base = self._generate("Order", tree, lambda name: build_order_types(name, tree))
        argument = build_input_field("orderBy", f"[{base}!]")
        self._generated.add_arguments(*self._place, [argument], where)
        own = self._items.enums.get("SortOrder")
        ascending = "ASC" if own is None else own.stored.get("ASC")
        only = config.get("indexed-only") is True
        if only and tree.relations:
            what = f"no index has the order of {next(iter(tree.relations))}"
            self._findings.error(where, what, "remove the field, or indexed-only")
        paths, computed = list_paths(tree, ""), {}
        for names, order in list_orders(tree):
            if order.spec.place[0] != mapping.db:
                what = f"{names[0]} is in another database: documents are ordered in one"
                self._findings.error(where, what)
            computed[ORDERED + ":".join(names)] = order  # a dot would make it a path
            place_order(paths, names, ORDERED + ":".join(names))
        spec = OrderSpec(paths, only, ascending, computed)
        return replace(mapping, order=spec)

    def _generate(self, suffix: str, tree: FieldTree, build: _Build, *options: object) -> str:
        """Add the types; return the name of the first, by the item type or else by the field."""
        shape = repr((tree.describe(), options))
        type_, field = self._place
        own = f"{type_}{capitalize(field)}{suffix}"
        item = f"{tree.type_name}{suffix}"
        name = item if self._shapes.get(item, shape) == shape else own
        if self._shapes.get(name) != shape:  # a name may be that of another field, by chance
            self._shapes[name] = shape
            for node in build(name):
                self._generated.add_type(node, f"{self._where}.{_KEYS[suffix]}")
            follow_fields(self._generated, name, tree)
            if True in options:  # the text index may contain any of them
                texts = self._items.list_texts(get_named_type(self._field.type))
                self._generated.follow((name, SEARCH), *texts)
        return name

    def _check_indexes(self, mapping: QueryMapping, key: str, tree: FieldTree) -> None:
        pinned = frozenset(pinned_paths(mapping.find.source))
        for name, path, kinds in tree.list_leaves():
            where = f"{self._where}.{key}.fields" + (f".{name}" if key == "filter" else "")
            question = IndexedFields(
                where, mapping.db, mapping.collection, name, path, kinds, pinned
            )
            self._findings.questions.append(question)
        place = (mapping.db, mapping.collection)
        if key == "filter":
            self._check_related_indexes(tree, place, pinned, f"{self._where}.filter")

    def _check_related_indexes(
        self, tree: FieldTree, place: CollectionName, pinned: frozenset[str], where: str
    ) -> None:
        """Ask for indexes of both sides: of the keys, and of the fields of related documents."""
        for name, own in tree.relations.items():
            if own.tree is None:
                continue  # a count reads all that its find finds
            inner, spec = f"{where}.relations.{name}", own.spec
            key, equal = spec.joins[0].key, frozenset({"in"})
            questions = [IndexedFields(inner, *place, name, key, equal, pinned)]
            fixed = frozenset(pinned_paths(spec.rest.source))
            for field, path, kinds in own.tree.list_leaves():
                at = f"{inner}.fields.{field}"
                questions.append(IndexedFields(at, *spec.place, field, path, kinds, fixed))
            self._findings.questions += questions
            self._check_related_indexes(own.tree, spec.place, fixed, inner)
