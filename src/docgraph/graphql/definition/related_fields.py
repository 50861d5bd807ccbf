"""Declared relations: which relations callers may filter and order by (decision 73).

`filter.relations` has the declarations of `filter` again, for the documents of a relation. A
relation is usable if documents are related exactly where stored properties of both are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from graphql import (
    GraphQLField,
    GraphQLNamedType,
    GraphQLObjectType,
    get_named_type,
    get_nullable_type,
    is_composite_type,
    is_list_type,
)

from docgraph.graphql.definition.declared_fields import (
    COUNTABLE,
    DeclaredRelation,
    FieldTree,
    ItemFields,
)
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.mapping import AnyMapping, GroupMapping, QueryMapping
from docgraph.graphql.joins import split_joins
from docgraph.graphql.related import RelationSpec
from docgraph.variables import Scope, Template, ValueOrigin
from docgraph.variables.compilation import describe

_KEYS: Final = ("fields", "relations")
_MAX_DEPTH: Final = 8


class _Relation(NamedTuple):
    field: GraphQLField
    spec: RelationSpec


@dataclass(frozen=True)
class RelationReader:
    """Reads the declarations of relations; mistakes become errors of the definition."""

    _items: ItemFields
    _findings: Findings

    def list_related(self, type_: GraphQLNamedType, *, is_order: bool) -> frozenset[str]:
        """Return the fields of a type that are not stored, and that `fields` may name."""
        kinds = (QueryMapping, GroupMapping) if is_order else GroupMapping
        fields = self._items.mappings.get(type_.name, {}).items()
        return frozenset(name for name, mapping in fields if isinstance(mapping, kinds))

    def read_filter(
        self, tree: FieldTree, type_: GraphQLNamedType, config: Mapping[str, Any], where: str
    ) -> None:
        """Add the relations of a filter, and the counts among its fields."""
        counts = self.list_related(type_, is_order=False)
        for name, operators in config.get("fields", {}).items():
            if name in counts:
                self._read_count(tree, type_, name, operators, f"{where}.fields.{name}")
        relations = config.get("relations", {})
        if not isinstance(relations, dict):
            what = f"must be an object of relations, not {describe(relations)}"
            self._findings.error(f"{where}.relations", what)
            return
        for name, inner in relations.items():
            self._read_relation(tree, type_, name, inner, f"{where}.relations.{name}")

    def read_order(
        self, tree: FieldTree, type_: GraphQLNamedType, names: Sequence[Any], where: str
    ) -> None:
        """Add the fields of to-one relations, and the counts, that callers may order by."""
        related = self.list_related(type_, is_order=True)
        for number, name in enumerate(names):
            head, _, rest = name.partition(".") if isinstance(name, str) else ("", "", "")
            if head not in related:
                continue
            place = f"{where}[{number}]"
            related_field = self._find(type_, head, place, is_count=not rest)
            if related_field is None:
                continue
            if related_field.spec.is_list:
                what = "has many documents: order by a field that counts them"
                self._findings.error(place, f"{head} {what}")
                continue
            declared = tree.relations.setdefault(head, DeclaredRelation(related_field.spec))
            if rest:
                item = get_named_type(related_field.field.type)
                added = FieldTree.build(
                    self._items, item, [rest], where, self._findings, is_order=True, place=place
                )
                declared.tree = added if declared.tree is None else declared.tree.merge(added)

    def _read_count(
        self, tree: FieldTree, type_: GraphQLNamedType, name: str, operators: Any, where: str
    ) -> None:
        related_field = self._find(type_, name, where, is_count=True)
        if related_field is None:
            return
        possible = [*COUNTABLE, "range"]
        if not isinstance(operators, list) or not operators or not {*operators} <= {*possible}:
            hint = f"possible are {', '.join(possible)}"
            self._findings.error(where, "must be a list of operators for a count", hint)
            return
        names = [
            name
            for operator in operators
            for name in (COUNTABLE[4:] if operator == "range" else [operator])
        ]
        tree.relations[name] = DeclaredRelation(related_field.spec, operators=dict.fromkeys(names))

    def _read_relation(
        self, tree: FieldTree, type_: GraphQLNamedType, name: str, config: Any, where: str
    ) -> None:
        related_field = self._find(type_, name, where, is_count=False)
        if related_field is None:
            return
        if not isinstance(config, dict):
            self._findings.error(where, f"must be an object, not {describe(config)}")
            return
        for key in config.keys() - set(_KEYS):
            self._findings.warn_unknown(
                f"{where}.{key}", "is not known and has no effect", key, _KEYS
            )
        fields = config.get("fields", {})
        if not isinstance(fields, dict) or not (fields or config.get("relations")):
            what = "must be an object of fields and their operators, with one field or more"
            self._findings.error(f"{where}.fields", what)
            return
        item = get_named_type(related_field.field.type)
        inner = FieldTree.build(
            self._items,
            item,
            fields,
            f"{where}.fields",
            self._findings,
            is_order=False,
            related=self.list_related(item, is_order=False),
        )
        if where.count(".relations.") < _MAX_DEPTH:
            self.read_filter(inner, item, config, where)
        reserved = ("and", "or", "not") if related_field.spec.is_list else ("exists",)
        for taken in inner.names() & {*reserved}:
            what = f"{taken} has a meaning of its own in conditions on {name}"
            self._findings.error(where, what, "give the field another name")
        tree.relations[name] = DeclaredRelation(related_field.spec, inner)

    def _find(
        self, type_: GraphQLNamedType, name: str, where: str, *, is_count: bool
    ) -> _Relation | None:
        """Return a relation that conditions can use; None with an error."""
        field = getattr(type_, "fields", {}).get(name)
        mapping = self._items.mappings.get(type_.name, {}).get(name)
        if field is None or not isinstance(type_, GraphQLObjectType):
            what = f"the type {type_.name} has no field {name} of its own"
            self._findings.error(where, what, "name a field that is mapped to a query")
            return None
        obstacle = _find_kind_obstacle(field, mapping, is_count=is_count)
        if obstacle:
            self._findings.error(where, f"{type_.name}.{name} {obstacle}")
            return None
        assert isinstance(mapping, QueryMapping | GroupMapping)  # noqa: S101 - see above
        joins, rest = split_joins(mapping.find)
        for what in _find_obstacles(field, mapping, rest, [(j.key, j.target) for j in joins]):
            self._findings.error(where, f"{type_.name}.{name} {what}")
            return None
        is_list = is_list_type(get_nullable_type(field.type))
        place = (mapping.db, mapping.collection)
        spec = RelationSpec(type_.name, name, place, joins, rest, is_list, is_count)
        return _Relation(field, spec)


def _find_kind_obstacle(field: GraphQLField, mapping: AnyMapping | None, *, is_count: bool) -> str:
    """Return why a field is no relation, or no count; empty if it is one."""
    if is_count:
        is_valid = isinstance(mapping, GroupMapping) and mapping.is_count
        return "" if is_valid else "is no count: its mapping needs count: true"
    if not isinstance(mapping, QueryMapping):
        return "is not mapped to a find: conditions need the documents of a relation"
    if not is_composite_type(get_named_type(field.type)):
        return "has no fields: it needs an object type"
    return ""


def _find_obstacles(
    field: GraphQLField,
    mapping: QueryMapping | GroupMapping,
    rest: Template,
    joined: Sequence[tuple[str, str]],
) -> Iterator[str]:
    """Yield why conditions cannot use a relation."""
    if mapping.find.root_paths:
        yield "uses rootDoc: a condition has no root document"
    for use in mapping.find.decide(Scope()).uses:  # without what is optional
        reference = use.reference
        if reference is None or reference.source is not ValueOrigin.ARGUMENT:
            continue
        given = field.args.get(reference.head)
        if use.is_required and (given is None or given.default is None):
            yield f"needs the argument {reference.head}: give it a default"
    if not joined or rest.depends_on_parent:
        yield "is not joined by equality: its find must compare properties with $fk, by $eq or $in"
    for path in (path for pair in joined for path in pair):
        if any(not step or step.isdigit() or step[0] == "$" for step in path.split(".")):
            yield f"is joined by {path}: conditions need the path of a property"
    is_list = is_list_type(get_nullable_type(field.type))
    if isinstance(mapping, QueryMapping) and not is_list and (mapping.sort or mapping.skip):
        yield "chooses one of several documents by sort or skip: conditions need a unique key"
