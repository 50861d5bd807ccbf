"""Compiled app: the schema, the compiled mappings, and the visible schema of each role."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from threading import Lock
from typing import Any, Final, NamedTuple, cast

from graphql import (
    DocumentNode,
    GraphQLEnumType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    is_abstract_type,
)

from docgraph.codec import JsonMode
from docgraph.exchange.errors import NotFound
from docgraph.graphql.apps.stored_definitions import examine_stored
from docgraph.graphql.definition.check import Examination, examine
from docgraph.graphql.definition.check_fields import CheckContext, FaultyPlace
from docgraph.graphql.definition.definition import AppDefinition, DeclaredOperation
from docgraph.graphql.definition.entity_mappings import EntityMapping
from docgraph.graphql.definition.findings import Finding
from docgraph.graphql.definition.hidden_uses import HiddenUse, find_hidden_uses
from docgraph.graphql.definition.mapping import AnyMapping, EnumMapping, TypeResolver
from docgraph.graphql.definition.query_limits import replace_limits
from docgraph.graphql.definition.scalars import BSON_SCALARS
from docgraph.graphql.definition.schema import declare_live, extend_base
from docgraph.graphql.definition.visibility import (
    SchemaPart,
    Visibility,
    build_visible_schema,
    cut_document,
    find_visible,
    list_parts,
    spell_part,
)
from docgraph.graphql.federation.service_sdl import print_service_sdl
from docgraph.graphql.federation.subgraph import SERVICE_FIELD, Subgraph
from docgraph.graphql.sections import Graphql, GraphqlLimits
from docgraph.runtime import LruDict
from docgraph.store.guard.stage_checks import Policy
from docgraph.variables import BUILT_IN

MAX_VIEWS = 64


@dataclass(frozen=True, eq=False)
class App:
    """A compiled definition.

    `mappings` are by type and field; every field of an object type except Query has one.
    `is_draft`: the definition is not stored; it may have the `_id` of one that is.
    """

    definition: AppDefinition
    document: DocumentNode = field(repr=False)
    schema: GraphQLSchema
    mappings: Mapping[str, Mapping[str, AnyMapping]]
    enums: Mapping[str, EnumMapping]
    type_resolvers: Mapping[str, TypeResolver]
    visibility: Visibility
    limits: GraphqlLimits
    mode: JsonMode
    faults: Mapping[FaultyPlace, str] = field(default_factory=dict)  # types and fields, and why
    problems: tuple[Finding, ...] = ()  # of the parts that are not served
    is_draft: bool = False
    entities: Mapping[str, tuple[EntityMapping, ...]] = field(default_factory=dict)
    subgraph: Subgraph | None = None  # of an app with `descriptor.federation`
    _views: LruDict[frozenset[str], VisibleApp] = field(
        default_factory=lambda: LruDict(MAX_VIEWS), repr=False, init=False
    )
    _lock: Lock = field(default_factory=Lock, repr=False, init=False)
    _variants: dict[JsonMode, App] = field(default_factory=dict, repr=False, init=False)

    @property
    def version(self) -> str:
        """A digest that changes whenever the definition does."""
        return self.definition.version

    @cached_property
    def operations_by_name(self) -> Mapping[str, DeclaredOperation]:
        """The operations that are stored with the app (persisted queries), by name."""
        return {operation.name: operation for operation in self.definition.operations}

    @cached_property
    def operations_by_digest(self) -> Mapping[str, DeclaredOperation]:
        """The stored operations by the SHA-256 of their texts; of equal texts the first one."""
        operations = reversed(self.definition.operations)
        return {
            digest: operation for operation in operations for digest in operation.find_digests()
        }

    def kept_variant(self, mode: JsonMode) -> App | None:
        """Return the app with results in this mode, or None: building one takes long."""
        return self if mode is self.mode else self._variants.get(mode)

    def build_variant(self, mode: JsonMode) -> App:
        """Return the same app with results in another mode; built once."""
        with self._lock:
            variant = self.kept_variant(mode)
            if variant is None:
                schema = extend_base(self.document, mode)
                schema = declare_live(schema, is_declared=bool(self.definition.live))
                _store_enums(schema, self.enums)
                variant = self._variants[mode] = replace(self, schema=schema, mode=mode)
        return variant

    @cached_property
    def _all_roles(self) -> frozenset[str]:
        """The roles on which the visible schema depends."""
        live = self.definition.live
        return self.visibility.all_roles.union(() if isinstance(live, bool) else live)

    def visible_to(self, roles: Iterable[str]) -> VisibleApp:
        """Return the app as a caller with these roles sees it; built once per set of roles."""
        key = self._all_roles.intersection(roles)
        view = self._views.get(key)
        return self._build_view(key) if view is None else view

    def kept_view(self, roles: Iterable[str]) -> VisibleApp | None:
        """Return the cached view, or None: building one takes long for a large schema."""
        if not self._all_roles:
            return self._only_view
        return self._views.get(self._all_roles.intersection(roles))

    @cached_property
    def _only_view(self) -> VisibleApp:
        """The app as all callers see it, if the schema does not depend on roles."""
        return self._build_view(frozenset())

    def print_sdl(self, roles: Iterable[str]) -> str:
        """Return the SDL of a subgraph as callers with these roles see it, for gateways."""
        return self._print_sdl(self.visibility.hidden_from(roles))

    def _print_sdl(self, hidden: frozenset[SchemaPart]) -> str:
        if self.subgraph is None:
            raise NotFound("the app is no subgraph", hint="set descriptor.federation")
        document = self.document
        if hidden:
            document = cut_document(document, self.schema, hidden, self.visibility.follows)
        return print_service_sdl(document, self.subgraph, BSON_SCALARS)

    def _build_view(self, key: frozenset[str]) -> VisibleApp:
        with self._lock:  # all threads must share one view: plans are cached with it
            view = self._views.get(key)
            if view is None:
                hidden, schema = self.visibility.hidden_from(key), self.schema
                if hidden:
                    follows = self.visibility.follows
                    schema = build_visible_schema(self.document, schema, hidden, self.mode, follows)
                    _store_enums(schema, self.enums)
                schema = declare_live(schema, is_declared=self.definition.has_live(key))
                view = VisibleApp(self, schema, key)
                if self.subgraph is not None:
                    _resolve_service(schema, cache(partial(self._print_sdl, hidden)))
                self._views.put(key, view)
        return view


@dataclass(frozen=True, eq=False)
class VisibleApp:
    """An app with the schema that some callers see; `key` is the set of their relevant roles.

    `plans` are those of operations on this schema. They live as long as the schema does, so they
    are stored here. Only `Plans`, which bounds their number, reads them and knows their type.
    """

    app: App
    schema: GraphQLSchema
    key: frozenset[str] = field(default_factory=frozenset)
    plans: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def identity(self) -> str:
        """A text that is different for apps whose answers to an operation can differ."""
        app = self.app
        texts = (str(app.definition.id), app.definition.uri, app.version, app.mode.name)
        return repr((texts, sorted(self.key)))

    @cached_property
    def breadth(self) -> int:
        """The number of types in the widest interface or union: a plan may have a block each."""
        types = filter(is_abstract_type, self.schema.type_map.values())
        return max((len(self.schema.get_possible_types(type_)) for type_ in types), default=1)

    def find_fault(self, type_name: str, field: str) -> str | None:
        """Return why the definition of a field is invalid; None: it is valid."""
        faults = self.app.faults
        if not faults:
            return None
        return faults.get((type_name, field)) or faults.get((type_name,))


def build_app(
    definition: AppDefinition,
    settings: Graphql,
    *,
    policy: Policy | None = None,
    variables: Collection[str] = BUILT_IN,
    is_stored: bool = False,
) -> App:
    """Compile a definition; raise `DefinitionError` with every error and its position.

    A stored definition is compiled without its faulty fields, if there are others (decision 8).
    """
    rules = CheckContext(settings.max_limit, policy or Policy(), variables, settings.json_mode)
    check = examine_stored if is_stored else examine
    return assemble_app(definition, check(definition, rules), settings)


def assemble_app(
    definition: AppDefinition, parts: Examination, settings: Graphql, *, is_draft: bool = False
) -> App:
    """Build the app of an examined definition; raise `DefinitionError` for its errors."""
    if parts.report.errors or parts.schema is None or parts.document is None:
        raise parts.report.as_error()
    _store_enums(parts.schema, parts.enums)
    return App(
        definition=definition,
        document=parts.document,
        schema=parts.schema,
        mappings=parts.mappings,
        enums=parts.enums,
        type_resolvers=parts.type_resolvers,
        visibility=parts.visibility,
        limits=replace_limits(settings.limits, definition.limits),
        mode=definition.json_mode_or(settings.json_mode),
        faults=parts.faults,
        problems=parts.problems,
        is_draft=is_draft,
        subgraph=parts.subgraph,
        entities=parts.entities,
    )


def _store_enums(schema: GraphQLSchema, enums: Mapping[str, EnumMapping]) -> None:
    """Configure enum types so that arguments are coerced to the stored values."""
    for name, mapping in enums.items():
        type_ = schema.type_map.get(name)
        for value_name, value in type_.values.items() if isinstance(type_, GraphQLEnumType) else ():
            value.value = mapping.stored[value_name]


def _resolve_service(schema: GraphQLSchema, print_sdl: Callable[[], str]) -> None:
    """Let `_service` answer as introspection does: from the visible schema."""
    # Both are object types: federation declares `_Service`, and `Query` has an entrance.
    query = cast("GraphQLObjectType", schema.type_map["Query"])
    service = cast("GraphQLObjectType", schema.type_map["_Service"])
    query.fields[SERVICE_FIELD].resolve = lambda *_: service
    service.fields["sdl"].resolve = lambda *_: print_sdl()


ANONYMOUS: Final = "(nobody)"  # an anonymous caller, or one without relevant roles


class VisibilityRow(NamedTuple):
    """A part of the schema, and whether a caller with only this role sees it.

    With a `use`, whether such a caller can compare or order by a field that may be hidden.
    """

    part: SchemaPart
    seen_by: Mapping[str, bool]
    use: HiddenUse | None = None

    @property
    def label(self) -> str:
        """The text of the row."""
        return spell_part(self.part) if self.use is None else self.use.label


def cross(app: App, roles: Iterable[str] | None = None) -> Iterator[VisibilityRow]:
    """Yield a row per field: what a caller without roles sees, and what each role adds.

    An argument has a row if a role sees its field without it. A condition or order on a field has
    one if a role that does not see the field can use it. Without `roles`, the rows have all roles
    that `@visible` mentions.
    """
    chosen = sorted(app.visibility.all_roles if roles is None else set(roles))
    visibility, schema = app.visibility, app.schema
    held: dict[str, list[str]] = {ANONYMOUS: [], **{role: [role] for role in chosen}}
    seen = {
        name: find_visible(schema, visibility.hidden_from(roles), visibility.follows)
        for name, roles in held.items()
    }
    for part in list_fields(schema):
        row = VisibilityRow(part, {role: part in visible for role, visible in seen.items()})
        is_argument = len(part) > 2  # noqa: PLR2004 - type and field
        if not is_argument or any(
            part[:2] in visible and part not in visible for visible in seen.values()
        ):
            yield row
    for use in find_hidden_uses(schema, app.mappings, visibility):
        if any(use.is_leak(visible) for visible in seen.values()):
            able = {role: use.is_open(visible) for role, visible in seen.items()}
            yield VisibilityRow(use.field, able, use)


def list_fields(schema: GraphQLSchema) -> Iterator[SchemaPart]:
    """Yield the fields of every object and input type, each with its arguments."""
    for part, _ in sorted(list_parts(schema), key=lambda entry: entry[0][0]):
        type_ = schema.type_map[part[0]]
        if type_.ast_node is not None and not isinstance(type_, GraphQLInterfaceType):
            yield part
