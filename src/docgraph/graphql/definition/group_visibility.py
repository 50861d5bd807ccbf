"""Visibility of counts and groups: totals of a property are hidden from callers who do not see it.

A stored property may be shown by several fields of an app. If one of them has no `@visible` on the
way from `Query`, every caller sees the property. If all have, its totals follow all of them. A
property that no field shows is the author's choice, as in any aggregation (decision 20).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from graphql import (
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    get_named_type,
    is_abstract_type,
    is_composite_type,
)

from docgraph.exchange.data import FieldPath
from docgraph.graphql.definition.check_effects import find_item_type
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.generated_types import GeneratedTypes
from docgraph.graphql.definition.mapping import (
    AnyMapping,
    FieldMapping,
    GroupMapping,
    Mappings,
    QueryMapping,
)
from docgraph.graphql.definition.origins import NO_ORIGIN, SOMEWHERE, WHOLE, Shape, enter_path
from docgraph.graphql.definition.visibility import Coordinates, Visibility, read_visibility
from docgraph.store.names import namespace_of
from docgraph.variables import GRAPHQL, flatten_stages

Needs = frozenset[Coordinates]

_KEEPING: Final = frozenset({"$match", "$sort", "$limit", "$skip", "$sample"})
# Documents with most of their properties: what they hide is hidden, what they show may be another.
KEEPING_DOCUMENTS: Final = _KEEPING | {
    *("$set", "$addFields", "$project", "$unset", "$unwind", "$redact", "$setWindowFields"),
    *("$lookup", "$graphLookup", "$geoNear", "$fill", "$densify"),
}
_MAX_BELOW: Final = 2  # levels of an object below a property that is grouped as a whole
_MAX_NEEDS: Final = 16  # different ways to a property, from which on all of them are needed
_MAX_STATES: Final = 50_000


def follow_groups(
    schema: GraphQLSchema, mappings: Mappings, generated: GeneratedTypes, findings: Findings
) -> None:
    """Hide groups from callers who do not see their properties."""
    visibility = read_visibility(schema)
    groups = [
        ((type_name, name), mapping)
        for type_name, fields in mappings.items()
        for name, mapping in fields.items()
        if isinstance(mapping, GroupMapping)
    ]
    if not visibility.roles or not groups:
        return
    wanted = [
        (namespace_of(mapping.db, mapping.collection), value.path)
        for _, mapping in groups
        for value in mapping.results.values()
        if value.path
    ]
    shown = ShownPaths(schema, mappings, visibility, wanted)
    if not shown.is_complete:
        where = "mappings.{}.{}".format(*groups[0][0])
        findings.error(where, "the app has too many fields to find out who sees its properties")
    for place, mapping in groups:
        type_ = schema.type_map[place[0]]
        assert isinstance(type_, GraphQLObjectType)  # noqa: S101 - it has mappings
        namespace = namespace_of(mapping.db, mapping.collection)
        results = get_named_type(type_.fields[place[1]].type).name
        for name, value in mapping.results.items():
            needs = shown.find_needs(namespace, value.path) if value.path else frozenset()
            if value.operator == "by" and needs:
                generated.follow(place, *needs)
            elif needs:
                _follow_readers(mappings.get(results, {}), (results, name), needs, generated)


def _follow_readers(
    fields: Mapping[str, AnyMapping], value: Coordinates, needs: Needs, generated: GeneratedTypes
) -> None:
    for name, mapping in fields.items():
        if isinstance(mapping, FieldMapping) and mapping.path[0] == value[1]:
            generated.follow((value[0], name), *needs)


class _ShownSource(NamedTuple):
    """The collection of documents; `is_changed`: the stages of a field may have changed them."""

    namespace: str
    is_changed: bool = False
    field: Coordinates = ("", "")


class ShownPaths:
    """The stored properties that fields show, and the `@visible` fields on the way to each."""

    def __init__(
        self,
        schema: GraphQLSchema,
        mappings: Mappings,
        visibility: Visibility,
        wanted: Iterable[tuple[str, str]],
        shapes: Mapping[Coordinates, Shape] = MappingProxyType({}),
    ) -> None:
        """Inspect the fields; `wanted` are namespaces and properties, empty for all of them.

        `shapes` are those of the results of fields with stages.
        The name of a type is the namespace of its own documents, wherever they come from.
        """
        self._schema = schema
        self._wanted: dict[str, set[FieldPath]] = defaultdict(set)
        for namespace, path in wanted:
            self._wanted[namespace].add(_split(path))
        self._mappings = mappings
        self._shapes = shapes
        self._restricted = visibility.roles.keys()
        self._shown: dict[str, dict[FieldPath, set[Needs]]] = defaultdict(lambda: defaultdict(set))
        self._visited: dict[Any, set[Needs]] = defaultdict(set)
        self._states = 0
        self._walk()

    @property
    def is_complete(self) -> bool:
        """Whether everything could be visited."""
        return self._states < _MAX_STATES

    def find_needs(self, namespace: str, path: str, *, with_parts: bool = True) -> Needs:
        """Return the fields that a caller must see in order to see this property.

        `with_parts`: and everything in it, if it is an object.
        """
        wanted = _split(path)
        ways: dict[FieldPath, set[Needs]] = defaultdict(set)
        for shown, needs in self._shown.get(namespace, {}).items():
            if wanted[: len(shown)] == shown:
                ways[wanted] |= needs  # the property, or an object that contains it
            elif with_parts and shown[: len(wanted)] == wanted:
                ways[shown] |= needs  # a part of it
        return frozenset(
            field
            for several in ways.values()
            for needs in several
            if not any(other < needs for other in several)  # the shortest ones
            for field in needs
        )

    def _walk(self) -> None:
        pending: list[tuple[GraphQLNamedType, _ShownSource, FieldPath, Needs]] = [
            (self._schema.type_map[name or "Query"], _ShownSource(name), (), frozenset())
            for name in ("", *self._wanted.keys() & self._mappings.keys())
        ]
        while pending and self.is_complete:
            type_, source, prefix, needs = pending.pop()
            known = self._visited[type_.name, source, prefix]
            if needs in known or frozenset() in known or len(known) >= _MAX_NEEDS:
                continue
            known.add(needs)
            self._states += 1
            for one in self._possible(type_):
                pending += self._enter(one, source, prefix, needs)

    def _possible(self, type_: GraphQLNamedType) -> Iterable[GraphQLObjectType]:
        if is_abstract_type(type_):
            return self._schema.get_possible_types(type_)
        return (type_,) if isinstance(type_, GraphQLObjectType) else ()

    def _enter(
        self, type_: GraphQLObjectType, source: _ShownSource, prefix: FieldPath, above: Needs
    ) -> Iterator[tuple[GraphQLNamedType, _ShownSource, FieldPath, Needs]]:
        for name, mapping in self._mappings.get(type_.name, {}).items():
            named = get_named_type(type_.fields[name].type)
            place = (type_.name, name)
            needs = above | {place} if place in self._restricted else above
            if not isinstance(mapping, FieldMapping):
                if source.namespace in self._mappings:
                    continue  # others' documents
                item = find_item_type(self._schema, type_.fields[name], mapping)
                yield item, _find_source(place, mapping), (), needs
                continue
            path = (*prefix, *(step for step in mapping.path if not step.isdigit()))
            places = {(source.namespace, path), *self._find_origins(source, path)}
            if not any(self._is_wanted(*one) for one in places):
                continue
            if is_composite_type(named):
                yield named, source, path, needs
                continue
            if not needs:  # stages may show another value by the name of a hidden one
                places = {(source.namespace, path)} if not source.is_changed else set()
            for namespace, stored in places:
                self._shown[namespace][stored].add(needs)

    def _find_origins(
        self, source: _ShownSource, path: FieldPath
    ) -> Iterator[tuple[str, FieldPath]]:
        shape = self._shapes.get(source.field, NO_ORIGIN)
        for namespace, origin in enter_path(shape, ".".join(path)).get("", ()):
            yield namespace, _split(origin)

    def _is_wanted(self, namespace: str, path: FieldPath) -> bool:
        return any(
            path == one[: len(path)]
            or (path[: len(one)] == one and len(path) <= len(one) + _MAX_BELOW)
            for one in self._wanted.get(namespace, ())
        )


def _split(path: str) -> FieldPath:
    return tuple(path.split(".")) if path not in (WHOLE, SOMEWHERE) else ()


def name_results(place: Coordinates, mapping: Any) -> str:
    """Return a name for the documents that the stages of a field make of those they read."""
    return f"{namespace_of(mapping.db, mapping.collection)} {'.'.join(place)}"


def _find_source(place: Coordinates, mapping: Any) -> _ShownSource:
    """Return the collection whose documents are the results, or the name of other results."""
    stages: list[Any] = []
    if not isinstance(mapping, QueryMapping):
        stages = flatten_stages(mapping.stages.source, GRAPHQL.optional)
    if any(not KEEPING_DOCUMENTS.issuperset(stage) for stage in stages):
        return _ShownSource(name_results(place, mapping), field=place)
    is_changed = any(not _KEEPING.issuperset(stage) for stage in stages)
    namespace = namespace_of(mapping.db, mapping.collection)
    return _ShownSource(namespace, is_changed, place) if stages else _ShownSource(namespace)
