"""Mappings of lists: `filter` and `orderBy` become arguments of the field (decision 56).

A filter over `Post` generates the type `PostWhere`, an order `PostOrder`. Fields that declare the
same share a type; another shape gets its name from the field: `QueryDraftsWhere`. Fields of Query
come first, then other types in the order of the schema, so that names do not depend on mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from graphql import (
    GraphQLField,
    GraphQLSchema,
    InputObjectTypeDefinitionNode,
    InputValueDefinitionNode,
    NameNode,
    StringValueNode,
    TypeDefinitionNode,
    get_named_type,
    get_nullable_type,
    is_composite_type,
    is_list_type,
    parse_type,
)

from docgraph.graphql.conditions import OrderSpec
from docgraph.graphql.definition.declared_fields import DeclaredField, FieldTree, ItemFields
from docgraph.graphql.definition.findings import Findings, IndexedFields
from docgraph.graphql.definition.generated_types import (
    GeneratedTypes,
    list_queries,
    parse_arguments,
    parse_definition,
)
from docgraph.graphql.definition.mapping import EnumMapping, Mappings, QueryMapping
from docgraph.graphql.definition.visibility import Coordinates
from docgraph.graphql.where import LOGICAL, SEARCH, WhereField, WhereSpec
from docgraph.store.guard.stage_checks import has_key
from docgraph.store.order import pinned_paths
from docgraph.variables.compilation import describe

_Build = Callable[[str], list[TypeDefinitionNode]]

_SEARCHES: Final = frozenset({"$text", "$near", "$nearsphere"})  # as `has_key` expects them
_FILTER_KEYS: Final = ("fields", "search", "indexed-only")
_ORDER_KEYS: Final = ("fields", "indexed-only")
_KEYS: Final = {"Where": "filter", "Order": "orderBy"}
_SORT_ORDER: Final = '"The direction of an order." enum SortOrder { ASC DESC }'
_NEAR: Final = """
"Within a distance of a point on the earth."
input GeoNear {
  "In degrees, from -180 to 180."
  longitude: Float!
  "In degrees, from -90 to 90."
  latitude: Float!
  "In meters."
  maxDistance: Float!
  "Order by distance: only at the top of where of a field of Query."
  nearestFirst: Boolean
}"""
_TEXTS: Final = {
    "and": "All of these hold.",
    "or": "One of these holds.",
    "not": "This does not hold.",
    "search": "Words, found by the text index: only at the top of where.",
    "eq": "Is this value; null: there is none.",
    "ne": "Is not this value.",
    "in": "Is one of these values.",
    "nin": "Is none of these values.",
    "exists": "Whether there is a value.",
    "prefix": "Begins with this text.",
    "contains": "Contains this text, of three characters or more.",
    "has": "Has this element.",
    "near": "Is near a point.",
}


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
            tree = FieldTree.build(
                self._items,
                get_named_type(self._field.type),
                config.get("fields", ()),
                f"{self._where}.{key}.fields",
                self._findings,
                is_order=key == "orderBy",
            )
            if len(self._findings.errors) > before:
                continue  # a type of wrong fields would be wrong, too
            mapping = build(mapping, config, tree)
            if config.get("indexed-only"):
                self._check_indexes(mapping, key, tree)
        return mapping

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
            elif name != "fields" and not isinstance(option, bool):
                what = f"must be a boolean, not {describe(option)}"
                self._findings.error(f"{where}.{name}", what)
        kind: type = dict if key == "filter" else list
        fields = config.get("fields", kind() if config.get("search") else None)
        if not isinstance(fields, kind) or not (fields or config.get("search")):
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
        for name in tree.fields:
            if name in (*LOGICAL, SEARCH):
                what = f"{name} has a meaning of its own in where"
                self._findings.error(f"{where}.fields.{name}", what, "give the field another name")
        base = self._generate("Where", tree, lambda name: _build_where(name, tree, search), search)
        self._generated.add_arguments(*self._place, parse_arguments(f"where: {base}"), where)
        fields = {name: _build_spec(own) for name, own in tree.fields.items()}
        spec = WhereSpec(fields, search, config.get("indexed-only") is True, is_root)
        return replace(mapping, where=spec)

    def _add_order(
        self, mapping: QueryMapping, config: Mapping[str, Any], tree: FieldTree
    ) -> QueryMapping:
        where = f"{self._where}.orderBy"
        base = self._generate("Order", tree, lambda name: _build_order(name, tree))
        self._generated.add_arguments(*self._place, parse_arguments(f"orderBy: [{base}!]"), where)
        own = self._items.enums.get("SortOrder")
        ascending = "ASC" if own is None else own.stored.get("ASC")
        spec = OrderSpec(_list_paths(tree, ""), config.get("indexed-only") is True, ascending)
        return replace(mapping, order=spec)

    def _generate(self, suffix: str, tree: FieldTree, build: _Build, *options: object) -> str:
        """Add the types; return the name of the first, by the item type or else by the field."""
        leaves = sorted((name, sorted(operators)) for name, _, operators in tree.list_leaves())
        shape = repr((tree.type_name, leaves, options))
        type_, field = self._place
        own = f"{type_}{_capitalize(field)}{suffix}"
        item = f"{tree.type_name}{suffix}"
        name = item if self._shapes.get(item, shape) == shape else own
        if self._shapes.get(name) != shape:  # a name may be that of another field, by chance
            self._shapes[name] = shape
            for node in build(name):
                self._generated.add_type(node, f"{self._where}.{_KEYS[suffix]}")
            _follow(self._generated, name, tree)
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


def _capitalize(name: str) -> str:
    return name[:1].upper() + name[1:]


def _follow(generated: GeneratedTypes, base: str, tree: FieldTree) -> None:
    for name, own in tree.fields.items():
        generated.follow((base, name), (tree.type_name, name))
        if own.below is not None:
            inner = f"{base}{_capitalize(name)}"
            _follow(generated, f"{inner}Any" if own.is_list else inner, own.below)


def _build_where(base: str, tree: FieldTree, search: bool) -> list[TypeDefinitionNode]:
    """Return the types of a filter: the filter, and one for each of its fields."""
    logical = {"and": f"[{base}!]", "or": f"[{base}!]", "not": base}
    extra = logical | ({SEARCH: "String"} if search else {})
    text = f"Conditions on {tree.type_name}: all of them hold."
    near = [parse_definition(_NEAR)] if tree.has_operator("near") else []
    return [*_build_group(base, tree, extra, text), *near]


def _build_group(
    base: str, tree: FieldTree, extra: Mapping[str, str], text: str
) -> list[TypeDefinitionNode]:
    """Return the type with a field for each declared one, and the types of those."""
    fields = {name: f"{base}{_capitalize(name)}" for name in tree.fields}
    nodes = [_build_input(base, {**fields, **extra}, text)] if fields or extra else []
    for name, own in tree.fields.items():
        nodes += _build_operators(fields[name], own, f"Conditions on {name}: all of them hold.")
    return nodes


def _build_operators(base: str, own: DeclaredField, text: str) -> list[TypeDefinitionNode]:
    operands = {name: own.operand_type(name) for name in own.operators}
    if own.below is None:
        return [_build_input(base, operands, text)]
    if not own.is_list:
        return _build_group(base, own.below, operands, text)
    inner = f"{base}Any"
    group = _build_group(inner, own.below, {}, "One element satisfies all of these conditions.")
    return [_build_input(base, {"any": inner, **operands}, text), *group]


def _build_input(name: str, fields: Mapping[str, str], text: str) -> TypeDefinitionNode:
    """Return what the parser would return: most fields are those of other types, too."""
    return InputObjectTypeDefinitionNode(
        name=NameNode(value=name),
        description=StringValueNode(value=text, block=False),
        fields=tuple(_build_input_field(key, type_) for key, type_ in fields.items()) or None,
    )


@lru_cache(maxsize=1_024)
def _build_input_field(name: str, type_: str) -> InputValueDefinitionNode:
    about = _TEXTS.get(name)
    return InputValueDefinitionNode(
        name=NameNode(value=name),
        description=StringValueNode(value=about, block=False) if about else None,
        type=parse_type(type_, no_location=True),
    )


def _build_spec(own: DeclaredField) -> WhereField:
    below = {} if own.below is None else own.below.fields
    inner = {name: _build_spec(one) for name, one in below.items()}
    return WhereField(own.path, frozenset(own.operators), own.is_list, inner)


def _build_order(base: str, tree: FieldTree) -> list[TypeDefinitionNode]:
    nodes = [parse_definition(_SORT_ORDER)]
    fields: dict[str, str] = {}
    for name, own in tree.fields.items():
        fields[name] = "SortOrder" if own.below is None else f"{base}{_capitalize(name)}"
        if own.below is not None:
            nodes += _build_order(fields[name], own.below)[1:]
    text = f"An order of {tree.type_name}: exactly one field."
    return [*nodes, _build_input(base, fields, text)]


def _list_paths(tree: FieldTree, prefix: str) -> dict[str, Any]:
    return {
        name: f"{prefix}{own.path}"
        if own.below is None
        else _list_paths(own.below, f"{prefix}{own.path}.")
        for name, own in tree.fields.items()
    }
