"""Entities: how the objects of a `@key` are found (`$entity`).

An entity lookup is a relation whose parents are the representations that a gateway sends. So the
arguments of `$entity` become foreign keys of a parent, and the engine joins them like any others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from graphql import (
    DocumentNode,
    GraphQLObjectType,
    GraphQLSchema,
    TypeDefinitionNode,
    TypeExtensionNode,
    get_named_type,
    get_nullable_type,
    is_leaf_type,
)

from docgraph.config.nearest import find_nearest
from docgraph.graphql.definition.check_fields import CheckContext, check_one_mapping
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.mapping import AnyMapping, FieldMapping, QueryMapping
from docgraph.graphql.federation.field_sets import KeyPath, parse_field_set
from docgraph.graphql.federation.subgraph import Subgraph, read_resolvable, read_text
from docgraph.variables.compilation import describe

ENTITY: Final = "$entity"
_KEYS: Final = ("db", "collection", "find", "sort", "dataLoader")
_NO_KEYS: Final = frozenset({"BsonDocument", "Regex"})  # as values they could be conditions

_AnyMappings = Mapping[str, Mapping[str, AnyMapping]]


@dataclass(frozen=True, slots=True)
class EntityMapping:
    """A way to find an entity: by these fields of a representation, which are its parent."""

    paths: tuple[KeyPath, ...]
    mapping: QueryMapping


class DeclaredKey(NamedTuple):
    """A `@key`: its leaves, and whether this subgraph finds objects by it."""

    paths: tuple[KeyPath, ...]
    is_resolvable: bool = True


def read_keys(
    document: DocumentNode, subgraph: Subgraph, findings: Findings
) -> dict[str, list[DeclaredKey]]:
    """Return the keys of each type; mistakes become errors."""
    keys: dict[str, list[DeclaredKey]] = {}
    for node in document.definitions:
        if not isinstance(node, TypeDefinitionNode | TypeExtensionNode):
            continue
        name = node.name.value
        for directive in subgraph.find(node, "key"):
            try:
                paths = parse_field_set(read_text(directive, "fields"))
            except ValueError as error:
                findings.error(f"schema: {name}", f"@key: {error}")
                continue
            key = DeclaredKey(paths, read_resolvable(directive))
            keys.setdefault(name, []).append(key)
    return keys


def find_leaf_type(type_: GraphQLObjectType, path: KeyPath) -> Any:
    """Return the scalar or enum of a key."""
    inner: Any = type_
    for step in path:
        inner = get_named_type(inner.fields[step].type)
    return inner


@dataclass(frozen=True)
class EntityReader:
    """Compiles the `$entity` mappings of an app; mistakes become errors of the definition."""

    schema: GraphQLSchema
    mappings: _AnyMappings
    rules: CheckContext
    findings: Findings

    def read(
        self, source: Mapping[str, Any], keys: Mapping[str, Sequence[DeclaredKey]]
    ) -> dict[str, tuple[EntityMapping, ...]]:
        """Return how the entities of each type are found."""
        entities: dict[str, tuple[EntityMapping, ...]] = {}
        for name, type_ in self.schema.type_map.items():
            fields = source.get(name)
            value = fields.get(ENTITY) if isinstance(fields, dict) else None
            declared = [key for key in keys.get(name, ()) if self._check_key(type_, key)]
            resolvable = [key for key in declared if key.is_resolvable]
            where = f"mappings.{name}.{ENTITY}"
            if value is not None and not resolvable:
                self.findings.error(where, f"the type {name} has no @key that can be resolved")
            elif not isinstance(type_, GraphQLObjectType) or not resolvable:
                continue
            elif value is None or value == []:
                what = f"is missing: {name} has a @key"
                hint = "say how it is found, or declare the key with resolvable: false"
                self.findings.error(where, what, hint)
            else:
                entities[name] = tuple(self._read_type(type_, value, resolvable, where))
        return entities

    def _check_key(self, type_: Any, key: DeclaredKey) -> bool:
        before = len(self.findings.errors)
        for path in key.paths:
            self._check_leaf(type_, path)
        return len(self.findings.errors) == before

    def _check_leaf(self, type_: Any, path: KeyPath) -> None:
        place, inner = f"schema: {type_.name}", type_
        for step in path:
            field = getattr(inner, "fields", {}).get(step)
            if field is None:
                self.findings.error(place, f"@key: the type {inner} has no field {step}")
                return
            if get_named_type(field.type) is not get_nullable_type(field.type):
                self.findings.error(place, f"@key: {'.'.join(path)} is a list, which is no key")
                return
            inner = get_named_type(field.type)
        if not is_leaf_type(inner) or inner.name in _NO_KEYS:
            what = f"@key: {'.'.join(path)} of the type {inner} cannot be a key"
            self.findings.error(place, what, "name fields of a scalar or an enum")

    def _read_type(
        self, type_: GraphQLObjectType, value: Any, keys: Sequence[DeclaredKey], where: str
    ) -> Iterator[EntityMapping]:
        is_list = isinstance(value, list)
        for number, entity in enumerate(value if is_list else [value]):
            place = f"{where}[{number}]" if is_list else where
            if not isinstance(entity, dict):
                self.findings.error(place, f"must be an object, not {describe(entity)}")
                continue
            for key in entity.keys() - set(_KEYS):
                nearest = find_nearest(key, _KEYS)
                hint = f"did you mean {nearest}?" if nearest else f"known are {', '.join(_KEYS)}"
                self.findings.error(f"{place}.{key}", "is not known", hint)
            if "find" in entity:
                yield from self._compile(type_, entity, keys, place)
                continue
            for declared in keys:
                find = self._derive_find(type_, declared, place)
                if find is not None:
                    yield from self._compile(type_, {**entity, "find": find}, keys, place)

    def _derive_find(
        self, type_: GraphQLObjectType, key: DeclaredKey, where: str
    ) -> dict[str, Any] | None:
        """Return the condition of a key: the stored property of each of its fields."""
        find: dict[str, Any] = {}
        for path in key.paths:
            stored: tuple[str, ...] = ()
            inner: Any = type_
            for step in path:
                mapping = self.mappings.get(inner.name, {}).get(step)
                if not isinstance(mapping, FieldMapping):
                    what = f"{'.'.join(path)} is not mapped to a property"
                    self.findings.error(where, what, "write the condition as find")
                    return None
                stored += mapping.path
                inner = get_named_type(inner.fields[step].type)
            find[".".join(stored)] = {"$arg": ".".join(path)}
        return find

    def _compile(
        self,
        type_: GraphQLObjectType,
        value: Mapping[str, Any],
        keys: Sequence[DeclaredKey],
        where: str,
    ) -> Iterator[EntityMapping]:
        arguments = {".".join(path): path for key in keys for path in key.paths}
        rewriting = _Rewriting(arguments, f"{where}.find", self.findings)
        find = rewriting.rewrite(value["find"])
        if not rewriting.used:
            what = "uses no field of a key: it would find the same for all representations"
            self.findings.error(f"{where}.find", what, f"fields are {', '.join(arguments)}")
            return
        mapping = check_one_mapping(where, {**value, "find": find}, self.rules, self.findings)
        if isinstance(mapping, QueryMapping):
            yield EntityMapping(tuple(arguments[name] for name in rewriting.used), mapping)


class _Rewriting:
    """Replaces `$arg` by `$fk`: the fields of a representation are those of a parent."""

    def __init__(self, known: Mapping[str, KeyPath], where: str, findings: Findings) -> None:
        self._known = known
        self._where = where
        self._findings = findings
        self.used: dict[str, None] = {}

    def rewrite(self, value: Any) -> Any:
        """Return a part of the condition."""
        if isinstance(value, list):
            return [self.rewrite(item) for item in value]
        if not isinstance(value, dict):
            return value
        for operator in ("$fk", "$ifarg"):
            if operator in value:
                hint = "an entity has no parent: use $arg with a field of the representation"
                self._findings.error(self._where, f"{operator} has no meaning here", hint)
                return {}
        if "$arg" in value:
            return self._replace(value)
        return {key: self.rewrite(item) for key, item in value.items()}

    def _replace(self, value: dict[str, Any]) -> Any:
        name = value["$arg"][0] if isinstance(value["$arg"], list) else value["$arg"]
        if isinstance(name, str) and name.startswith("@"):
            return value
        if name not in self._known:
            what = f"$arg: {name!r} is no field of a key"
            self._findings.error(self._where, what, f"fields are {', '.join(self._known)}")
            return {}
        self.used[name] = None
        return {"$fk": name}
