"""Stored definitions: by the URI that serves them, and without their faulty parts.

An invalid definition still occupies its URI, so that requests get its own error and no other app is
affected. The same holds for a definition that claims the URI of another: among definitions written
past the unique index, the lowest `_id` wins (decision 5).

What is confined to fields and types is left out (decision 8). A field whose mapping is wrong has no
mapping at all: it answers with its error, never with the stored property of the same name. Groups
and searches could show values of a field whose visibility is unknown, so they are left out with it.
Everything else keeps its 400.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import is_
from typing import Any, Final

from graphql import (
    DocumentNode,
    GraphQLObjectType,
    GraphQLSchema,
    OperationType,
    SchemaDefinitionNode,
    SchemaExtensionNode,
    get_named_type,
    is_abstract_type,
    print_ast,
)

from docgraph.codec import JsonMode, encode
from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Document
from docgraph.graphql.definition.check import Examination, examine
from docgraph.graphql.definition.check_fields import CheckContext, FaultyPlace
from docgraph.graphql.definition.definition import AppDefinition, normalise_uri, read_uri
from docgraph.graphql.definition.findings import Finding
from docgraph.graphql.definition.mapping import GroupMapping, QueryMapping
from docgraph.graphql.definition.schema import (
    FIELD_OWNERS,
    VISIBLE,
    SchemaError,
    is_list_of_strings,
    parse_text,
)


@dataclass(frozen=True)
class StoredDefinition:
    """A stored definition with what is needed to find it and to detect changes."""

    key: str  # the `_id` as text with its type: unique
    id: Any
    uri: str
    enabled: bool
    etag: str | None
    document: Document

    @cached_property
    def version(self) -> str:
        """A digest of the whole document: two equal versions compile to the same app."""
        return hashlib.blake2b(encode(self.document, JsonMode.EXTENDED), digest_size=16).hexdigest()


def build_entry(document: Document) -> StoredDefinition:
    """Build the entry of a stored definition: what is needed to find it, valid or not."""
    descriptor = document.get("descriptor")
    descriptor = descriptor if isinstance(descriptor, dict) else {}
    uri, id = descriptor.get("uri"), document.get("_id")
    return StoredDefinition(
        key=build_key(id),
        id=id,
        uri=read_uri(uri) if isinstance(uri, str) else normalise_uri(str(id)),
        enabled=descriptor.get("enabled") is not False,
        etag=spell_etag(document.get("_etag")),
        document=document,
    )


def spell_etag(etag: Any) -> str | None:
    """Return an ETag as text; None: there is none."""
    return None if etag is None else str(etag)


def build_key(id: Any) -> str:
    """Return an id as text; ids of different types never collide."""
    return f"{type(id).__name__}:{id}"


def find_claims(id: Any, uri: str) -> list[str]:
    """Return the URIs that an app claims: its `_id` if that is a string, then its URI."""
    name = normalise_uri(id) if isinstance(id, str) else uri
    return [uri] if name == uri else [name, uri]


class StoredDefinitions:
    """The definitions of one process; replaced entry by entry as they change."""

    def __init__(self, *, by_id: bool = False) -> None:
        self._serves_ids = by_id  # `graphql.serve-by-id`
        self._by_id: dict[str, StoredDefinition] = {}  # only if ids are served
        self._by_key: dict[str, StoredDefinition] = {}
        self._by_uri: dict[str, StoredDefinition] = {}
        self._refused: dict[str, StoredDefinition] = {}  # by URI, where no other app is served
        self.collisions: dict[str, str] = {}  # by key: the URI or id that another app claims

    def find(self, uri: str) -> StoredDefinition | None:
        """Return the enabled definition at this URI; see `collisions` before serving it."""
        return self._by_uri.get(uri) or self._by_id.get(uri) or self._refused.get(uri)

    def entry(self, key: str) -> StoredDefinition | None:
        """Return the definition with this key, enabled or not."""
        return self._by_key.get(key)

    def entries(self) -> list[StoredDefinition]:
        """Return all definitions, enabled or not."""
        return list(self._by_key.values())

    def served(self) -> list[StoredDefinition]:
        """Return the definitions that own their URI, in the order of the URIs."""
        return [entry for _, entry in sorted(self._by_uri.items())]

    def put(self, entries: Iterable[StoredDefinition]) -> None:
        """Add or replace definitions."""
        self._by_key.update((entry.key, entry) for entry in entries)
        self._index()

    def drop(self, keys: Iterable[str]) -> None:
        """Remove definitions."""
        for key in keys:
            self._by_key.pop(key, None)
        self._index()

    def replace(self, entries: Iterable[StoredDefinition]) -> None:
        """Replace all definitions with these."""
        self._by_key = {entry.key: entry for entry in entries}
        self._index()

    def etags(self) -> dict[str, str | None]:
        """Return the ETags of the loaded definitions, to compare with those in the database."""
        return {key: entry.etag for key, entry in self._by_key.items()}

    def counts(self) -> tuple[int, int]:
        """Return the numbers of served and not served definitions."""
        return len(self._by_uri), len(self._by_key) - len(self._by_uri)

    def _index(self) -> None:
        enabled = [entry for entry in self._by_key.values() if entry.enabled]
        enabled.sort(key=lambda entry: _order(entry.id))
        claimed: set[str] = set()
        self._by_uri, self._refused, self.collisions, self._by_id = {}, {}, {}, {}
        for entry in enabled:
            claims = find_claims(entry.id, entry.uri)
            taken = claimed.intersection(claims)
            if taken:
                self.collisions[entry.key] = min(taken)
                self._refused.setdefault(entry.uri, entry)
            else:
                claimed.update(claims)
                self._by_uri[entry.uri] = entry
                if self._serves_ids:
                    self._by_id[claims[0]] = entry


def _order(id: Any) -> tuple[int, Any]:
    """Return a sort key in the order of the database: numbers, strings, object ids, the rest."""
    match id:
        case bool():
            return 3, str(id)
        case int() | float():
            return 0, id
        case str():
            return 1, id.encode()
        case ObjectId():
            return 2, id.binary
        case _:
            return 3, build_key(id)


_MAX_ROUNDS: Final = 6  # leaving a field out may make a filter that names it invalid
_OPERATIONS: Final = ("Mutation", "Subscription")
_LEFT_OUT: Final = "left out: the service is read-only"
_MAPPING: Final = re.compile(r"mappings\.(\w+)(?:\.([\w$]+)(?:[.\[].*)?)?", re.DOTALL)
_VISIBILITY: Final = re.compile(r"schema: (\w+)\.\w+(?:\(\w+:\))?")

Faults = dict[FaultyPlace, Finding]


def examine_stored(definition: AppDefinition, rules: CheckContext) -> Examination:
    """Check and compile a stored definition without its faulty fields.

    The result has errors only if the definition cannot be served at all.
    """
    whole = examine(definition, rules)
    if not whole.report.errors:
        return whole
    if definition.problems:  # of the descriptor, or a part is missing
        return whole
    return _PartialDefinition(definition, rules).run() or whole


class _PartialDefinition:
    """Leaves out faulty fields until the rest of a definition has no errors."""

    def __init__(self, definition: AppDefinition, rules: CheckContext) -> None:
        self._definition = definition
        self._rules = rules
        self._faults: Faults = {}
        self._problems: list[Finding] = []
        self._unveiled: set[str] = set()  # types with a field that an unknown group may see

    def run(self) -> Examination | None:
        """Return the parts without errors; None if the errors are not confined to fields."""
        cut = self._cut_schema()
        if cut is None:
            return None
        for _ in range(_MAX_ROUNDS):
            rules = replace(self._rules, faults=frozenset(self._faults))
            parts = examine(cut, rules)
            if parts.schema is None or not self._add(parts.report.errors, parts.schema):
                return None
            self._add_exposing(parts)
            if not parts.report.errors and rules.faults == self._faults.keys():
                is_usable = bool(parts.mappings.get("Query"))
                faults = {place: str(fault) for place, fault in self._faults.items()}
                done = replace(parts, faults=faults, problems=tuple(self._problems))
                return done if is_usable else None
        return None

    def _cut_schema(self) -> AppDefinition | None:
        """Return the definition without root types of writes and without faulty `@visible`."""
        try:
            document = parse_text(self._definition.schema)
        except SchemaError:
            return None
        nodes = [self._cut(node) for node in document.definitions]
        kept = tuple(node for node in nodes if node is not None)
        if len(kept) == len(nodes) and all(map(is_, kept, document.definitions)):
            return self._definition
        return replace(self._definition, schema=print_ast(DocumentNode(definitions=kept)))

    def _cut(self, node: Any) -> Any:
        """Return a definition or extension without its faulty parts; None: nothing is left."""
        name = getattr(getattr(node, "name", None), "value", None)
        if isinstance(node, SchemaDefinitionNode | SchemaExtensionNode):
            operations = node.operation_types or ()
            kept = tuple(each for each in operations if each.operation is OperationType.QUERY)
            if len(kept) == len(operations):
                return node
            self._problems.append(Finding("schema: operation types", _LEFT_OUT))
            return replace(node, operation_types=kept) if kept else None
        if name in _OPERATIONS:
            self._problems.append(Finding(f"schema: {name}", _LEFT_OUT))
            return None
        if not isinstance(node, FIELD_OWNERS):
            return node
        fields = tuple(map(_cut_field, node.fields or ()))
        cut = _drop_visible(node)
        if cut is node and all(map(is_, fields, node.fields or ())):
            return node
        self._unveiled.add(str(name))
        self._record((str(name),), Finding(f"schema: {name}", "its @visible is invalid"))
        return replace(cut, fields=fields)

    def _add(self, errors: Sequence[Finding], schema: GraphQLSchema) -> bool:
        """Record the faulty fields and types; return whether every error is confined to one."""
        for error in errors:
            place = _find_place(error.where, schema)
            if place is None:
                return False
            if error.where.startswith("schema"):
                self._unveiled.add(place[0])
            self._record(place, error)
        for place, finding in list(self._faults.items()):
            for other in _find_dependent(place, schema, self._unveiled):
                self._faults.setdefault(other, finding)
        return True

    def _record(self, place: FaultyPlace, finding: Finding) -> None:
        self._problems.append(finding)
        self._faults.setdefault(place, finding)

    def _add_exposing(self, parts: Examination) -> None:
        """Leave out fields that could show values of a field with an unknown visibility.

        A fault anywhere on the path to a restricted field makes its visibility unknown.
        """
        if not self._faults or not (self._unveiled or parts.visibility.roles):
            return
        text = "it may show values of a field whose visibility is unknown"
        for type_name, fields in parts.mappings.items():
            for name, mapping in fields.items():
                # It groups stored values, or searches in them.
                if isinstance(mapping, GroupMapping) or (
                    isinstance(mapping, QueryMapping)
                    and mapping.where is not None
                    and mapping.where.search
                ):
                    finding = Finding(f"mappings.{type_name}.{name}", text)
                    self._record((type_name, name), finding)


def _cut_field(field: Any) -> Any:
    """Return a field definition without a faulty `@visible`, also of its arguments."""
    arguments = tuple(map(_cut_part, field.arguments or ()))
    field = _cut_part(field)
    if all(map(is_, arguments, field.arguments or ())):
        return field
    return replace(field, arguments=arguments)


def _cut_part(node: Any) -> Any:
    """Return a field or an argument without a faulty `@visible` of its own."""
    visible = [each for each in node.directives or () if each.name.value == VISIBLE.name]
    is_faulty = len(visible) > 1
    for directive in visible:
        arguments = tuple(directive.arguments or ())
        names = [argument.name.value for argument in arguments]
        is_faulty |= names != ["roles"] or not is_list_of_strings(arguments[0].value)
    return _drop_visible(node) if is_faulty else node


def _drop_visible(node: Any) -> Any:
    directives = tuple(node.directives or ())
    kept = tuple(each for each in directives if each.name.value != VISIBLE.name)
    return node if len(kept) == len(directives) else replace(node, directives=kept)


def _find_place(where: str, schema: GraphQLSchema) -> FaultyPlace | None:
    """Return the field or the type that an error is confined to."""
    match = _MAPPING.fullmatch(where) or _VISIBILITY.fullmatch(where)
    type_ = schema.type_map.get(match[1]) if match else None
    if match is None or type_ is None:
        return None
    if isinstance(type_, GraphQLObjectType):
        name = match[2] if match.re is _MAPPING else None
        if name is None:
            return (type_.name,)
        return (type_.name, name) if name in type_.fields else None
    return (type_.name,) if is_abstract_type(type_) else None


def _find_dependent(
    place: FaultyPlace, schema: GraphQLSchema, unveiled: Collection[str]
) -> Iterator[FaultyPlace]:
    """Yield the fields and types that depend on a faulty interface or union."""
    type_ = schema.type_map.get(place[0])
    if len(place) > 1 or type_ is None or not is_abstract_type(type_):
        return
    if type_.name in unveiled:
        yield from ((member.name,) for member in schema.get_possible_types(type_))
    for owner in schema.type_map.values():
        if isinstance(owner, GraphQLObjectType) and not owner.name.startswith("__"):
            for name, field in owner.fields.items():
                if get_named_type(field.type) is type_:
                    yield owner.name, name
