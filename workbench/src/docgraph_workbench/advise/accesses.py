"""Accesses: the fields of an app that query collections, and where their arguments are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from graphql import (
    GraphQLField,
    GraphQLNamedType,
    GraphQLObjectType,
    Undefined,
    get_nullable_type,
    is_list_type,
    is_non_null_type,
)

from docgraph.tools.apps import (
    AggregationMapping,
    App,
    QueryMapping,
    find_item_type,
    parse_argument,
)

_LOGICAL: Final = frozenset({"$and", "$or", "$nor", "$not", "$elemMatch", "$match"})
OPTIONAL: Final = "$ifarg"
SORT: Final = "$sort"


@dataclass(frozen=True, eq=False)
class Access:
    """A field of an app whose documents come from a query or an aggregation."""

    app: App
    type_name: str
    field_name: str
    field: GraphQLField
    mapping: QueryMapping | AggregationMapping

    @property
    def app_id(self) -> str:
        """The name of the app."""
        return str(self.app.definition.id)

    @property
    def where(self) -> str:
        """The path of its mapping in the definition."""
        return f"mappings.{self.type_name}.{self.field_name}"

    @property
    def place(self) -> tuple[str, str]:
        """The database and the collection."""
        return self.mapping.db, self.mapping.collection

    @property
    def is_root(self) -> bool:
        """Whether it has no parent."""
        return self.type_name == "Query"

    @property
    def is_list(self) -> bool:
        """Whether it returns several documents."""
        is_paged = getattr(self.mapping, "connection", None) is not None
        return is_paged or is_list_type(get_nullable_type(self.field.type))

    @property
    def item_type(self) -> GraphQLNamedType:
        """The type of its documents."""
        return find_item_type(self.app.schema, self.field, self.mapping)

    @cached_property
    def names(self) -> frozenset[str]:
        """All names of `$arg` and `$ifarg`."""
        return frozenset[str]().union(*(template.names for template in self.mapping.templates))

    def is_given(self, name: str) -> bool:
        """Return whether every request has a value for this name: not an optional argument."""
        path = parse_argument(name)
        if path is None:
            return True
        argument = self.field.args.get(path[0])
        if argument is None or len(path) > 1:
            return False
        return is_non_null_type(argument.type) or argument.default_value not in (Undefined, None)


@dataclass(frozen=True)
class RuleAccess:
    """A permission rule with a row filter, which applies to every request that it permits."""

    rule: str
    app_id: str = ""
    is_root: bool = True

    @property
    def where(self) -> str:
        """The rule itself."""
        return f"the rule {self.rule}"


def find_accesses(app: App) -> Iterator[Access]:
    """Yield every field of the app that is fetched from the database."""
    for type_name, fields in app.mappings.items():
        type_ = app.schema.type_map.get(type_name)
        if not isinstance(type_, GraphQLObjectType):
            continue
        for name, mapping in fields.items():
            if isinstance(mapping, QueryMapping | AggregationMapping) and name in type_.fields:
                yield Access(app, type_name, name, type_.fields[name], mapping)


class Spot(NamedTuple):
    """A use of `$arg` or `$fk`: the property it is compared with, and how."""

    name: str
    path: str
    operator: str
    is_key: bool = False  # of the parent
    has_default: bool = False


def find_spots(source: Any, path: str = "", operator: str = "$eq") -> Iterator[Spot]:
    """Yield all spots of a template."""
    if isinstance(source, list):
        inner = SORT if operator == SORT else "$eq"
        for element in source:
            yield from find_spots(element, path, inner)
    for key, value in source.items() if isinstance(source, Mapping) else ():
        if key == "$arg":
            has_default = isinstance(value, list) and bool(value)
            name = value[0] if has_default else value
            yield Spot(str(name), path, operator, has_default=has_default)
        elif key == "$fk":
            yield Spot(str(value), path, operator, is_key=True)
        elif key == OPTIONAL:
            for branch in value[1:] if isinstance(value, list) else ():
                yield from find_spots(branch, path, operator)
        elif key.startswith("$"):
            is_kept = operator == SORT or key in _LOGICAL
            yield from find_spots(value, path, operator if is_kept else key)
        else:
            yield from find_spots(value, f"{path}.{key}" if path else key, operator)


def find_groups(access: Access) -> list[tuple[str, ...]]:
    """Return the names that optional parts depend on, those of one part together."""
    groups = [
        group for template in access.mapping.templates for group in _find_optional(template.source)
    ]
    sort = access.mapping.sort if isinstance(access.mapping, QueryMapping) else None
    if sort is not None:
        spots = find_spots(sort.source, operator=SORT)
        groups += [(spot.name,) for spot in spots if spot.has_default]
    open_groups = (tuple(name for name in names if not access.is_given(name)) for names in groups)
    return list(dict.fromkeys(names for names in open_groups if names))


def _find_optional(source: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(source, list):
        for element in source:
            yield from _find_optional(element)
    for key, value in source.items() if isinstance(source, Mapping) else ():
        if key == OPTIONAL and isinstance(value, list) and value:
            yield tuple(value[0]) if isinstance(value[0], list) else (str(value[0]),)
        yield from _find_optional(value)


def find_paths(source: Any, path: str = "") -> Iterator[str]:
    """Yield the properties that a filter or a sort names, also as a template."""
    if isinstance(source, list):
        for element in source:
            yield from find_paths(element, path)
    for key, value in source.items() if isinstance(source, Mapping) else ():
        if key.startswith("$"):
            if isinstance(value, list | Mapping) and key not in ("$arg", "$fk", "$in", "$eq"):
                yield from find_paths(value, path)
        else:
            key_path = f"{path}.{key}" if path else key
            yield key_path
            if isinstance(value, Mapping) and any(operator in _LOGICAL for operator in value):
                yield from find_paths(value, key_path)
