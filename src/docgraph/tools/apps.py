"""Definitions for tools: compiled like stored ones, with the queries that their fields send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from graphql import DocumentNode, GraphQLOutputType, get_named_type, is_enum_type

from docgraph.exchange import Document
from docgraph.exchange.data import FieldPath
from docgraph.exchange.errors import DefinitionError, NotFound
from docgraph.graphql.apps.apps import known_variables
from docgraph.graphql.apps.compiled_app import App, build_app
from docgraph.graphql.conditions import combine
from docgraph.graphql.definition import schema as schemas
from docgraph.graphql.definition.check import Examination, examine
from docgraph.graphql.definition.check_effects import find_item_type
from docgraph.graphql.definition.check_fields import CheckContext
from docgraph.graphql.definition.definition import decode_definition, normalise_uri
from docgraph.graphql.definition.hidden_uses import HiddenUse, find_hidden_uses
from docgraph.graphql.definition.mapping import (
    AggregationMapping,
    FieldMapping,
    GroupMapping,
    QueryMapping,
)
from docgraph.graphql.definition.scalars import SCALARS, serializer
from docgraph.graphql.definition.visibility import (
    SchemaPart,
    find_visible,
    is_required,
    list_parts,
    spell_part,
)
from docgraph.graphql.execute.cursors import CURSOR_LENGTHS
from docgraph.graphql.execute.examine import MISFITS
from docgraph.graphql.plan.leaves import build_strict
from docgraph.graphql.plan.relation import analyse
from docgraph.graphql.related import ORDERED, RelationSpec
from docgraph.graphql.sections import Graphql
from docgraph.server.app import Docgraph
from docgraph.store import Policy
from docgraph.variables import Scope, Variables, matches_nothing, parse_path
from docgraph.variables.paths import ROOT, put_value

__all__ = [
    "CURSOR_LENGTHS",
    "ORDERED",
    "SCALARS",
    "AggregationMapping",
    "App",
    "Examination",
    "FieldMapping",
    "Graphql",
    "GroupMapping",
    "HiddenUse",
    "QueryMapping",
    "RelationSpec",
    "SchemaPart",
    "Scope",
    "build_query",
    "build_scope",
    "build_value_check",
    "choose_definition",
    "combine",
    "compile_definition",
    "examine_mappings",
    "find_hidden_uses",
    "find_item_type",
    "find_leaking_uses",
    "find_visible_parts",
    "is_required",
    "list_parts",
    "matches_nothing",
    "parse_argument",
    "parse_schema",
    "spell_part",
]

_MAX_NAMED: Final = 20
_ANY_LIMIT: Final = 2**63


def compile_definition(document: Document, bench: Docgraph, settings: Graphql) -> App:
    """Return the app of a definition; raise `DefinitionError` with every error."""
    variables = known_variables(bench.plugins.values["registry"])
    definition = decode_definition(document)
    return build_app(definition, settings, policy=bench.store.policy, variables=variables)


def examine_mappings(schema: str, mappings: Mapping[str, Any]) -> Examination:
    """Return the parts of an app as far as they can be built, with any limits."""
    definition = decode_definition({"_id": "app", "schema": schema, "mappings": mappings})
    return examine(definition, CheckContext(_ANY_LIMIT, Policy()))


def choose_definition(documents: Iterable[Document], uri: str) -> Document:
    """Return the definition with that URI or `_id`; raise `NotFound` with the known ones."""
    wanted, uris = normalise_uri(uri), []
    for document in documents:
        decoded = decode_definition(document)
        if wanted in (decoded.uri, str(decoded.id)):
            return document
        uris.append(decoded.uri)
    hint = f"there are: {', '.join(sorted(uris)[:_MAX_NAMED])}" if uris else None
    raise NotFound(f"there is no app {uri!r}", hint=hint)


def parse_schema(text: str) -> DocumentNode:
    """Return the syntax tree of a schema; raise `DefinitionError` if it cannot be read."""
    try:
        return schemas.parse_schema(text)
    except schemas.SchemaError as error:
        raise DefinitionError(str(error)) from error


def find_visible_parts(app: App, roles: Iterable[str]) -> set[SchemaPart]:
    """Return the parts of the schema that a caller with these roles sees."""
    visibility = app.visibility
    return find_visible(app.schema, visibility.hidden_from(tuple(roles)), visibility.follows)


def find_leaking_uses(app: App, roles: Iterable[str]) -> list[HiddenUse]:
    """Return the mappings by which such a caller could learn about a hidden field."""
    visible = find_visible_parts(app, roles)
    uses = find_hidden_uses(app.schema, app.mappings, app.visibility)
    return [use for use in uses if use.is_leak(visible)]


def build_value_check(app: App, declared: GraphQLOutputType) -> Callable[[Any], bool]:
    """Return a function that says whether a stored value fits a scalar or an enum as declared."""
    named = get_named_type(declared)
    if is_enum_type(named):
        show: Callable[[Any], Any] = app.enums[named.name].name_of
    else:
        show = serializer(named.name, app.mode)
    complete = build_strict(declared, show)

    def fits(value: Any) -> bool:
        try:
            complete(value)
        except MISFITS:
            return False
        return True

    return fits


class BuiltQuery(NamedTuple):
    """The filter and the sort that a mapping gives; `is_empty`: no document can match."""

    filter: Any
    sort: Document
    is_empty: bool = False


def build_query(mapping: QueryMapping, scope: Scope) -> BuiltQuery:
    """Return the query that a field sends with these values, for one parent."""
    relation = analyse(mapping)
    if relation.joins and not relation.is_per_parent and relation.rest is not None:
        parent = scope.parent or {}
        keys = {join.target: {"$in": join.list_keys(parent)[:1]} for join in relation.joins}
        rest = relation.rest.render(scope)
        filter: Any = {"$and": [keys, rest]} if rest else keys
    else:
        rest = filter = mapping.find.render(scope)
    if matches_nothing(rest):
        return BuiltQuery(filter, {}, is_empty=True)
    sort = mapping.sort.render(scope) if mapping.sort is not None else None
    return BuiltQuery(filter, sort or {})


def build_scope(
    named: Iterable[tuple[str, Any]], keys: Iterable[tuple[str, Any]], given: Iterable[str] = ()
) -> Scope:
    """Return the values of a fetch: those of `$arg` by name, and those of the parent's keys.

    Of several values for one name the first counts. Names that are only `given` are true.
    """
    arguments: Document = {}
    variables: Document = {}
    root: Document = {}
    parent: Document = {}
    for name, value in named:
        if name.startswith("@"):
            variables.setdefault(name, value)
        else:
            is_root = name == ROOT or name.startswith(f"{ROOT}.")
            put_value(root if is_root else arguments, name, value)
    for name, value in keys:
        put_value(parent, name, value)
    for name in given:
        (variables if name.startswith("@") else arguments).setdefault(name, True)
    return Scope(arguments, Variables(variables), root.get(ROOT, {}), parent)


def parse_argument(name: str) -> FieldPath | None:
    """Return the argument that a name of `$arg` means, and the path from there; None: no argument.

    The other names are variables and the properties of root documents.
    """
    if name.startswith("@"):
        return None
    path = parse_path(name)
    return None if path[0] == ROOT else path
