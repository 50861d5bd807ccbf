"""Validation and compilation of a definition (decisions 1 to 8).

Both happen in one pass, so that nothing is accepted that cannot be built. The report has every
mistake, not only the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from graphql import (
    DocumentNode,
    GraphQLAbstractType,
    GraphQLEnumType,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
)

from docgraph.codec.equality import unordered_key
from docgraph.graphql.definition.check_effects import (
    Hidden,
    check_aggregations,
    check_hidden,
)
from docgraph.graphql.definition.check_fields import (
    CheckContext,
    FaultyPlace,
    check_object_type,
    check_one_field,
)
from docgraph.graphql.definition.check_visibility import check_visibility
from docgraph.graphql.definition.connection_types import add_connections
from docgraph.graphql.definition.definition import (
    AppDefinition,
    check_operations,
    decode_definition,
)
from docgraph.graphql.definition.entity_mappings import (
    ENTITY,
    EntityMapping,
    EntityReader,
    read_keys,
)
from docgraph.graphql.definition.field_set_visibility import (
    check_field_visibility,
    check_key_visibility,
)
from docgraph.graphql.definition.findings import Finding, Findings, Report
from docgraph.graphql.definition.generated_types import GeneratedTypes
from docgraph.graphql.definition.group_visibility import follow_groups
from docgraph.graphql.definition.groups import check_groups
from docgraph.graphql.definition.hidden_uses import warn_hidden_uses
from docgraph.graphql.definition.list_mappings import add_lists
from docgraph.graphql.definition.mapping import (
    AnyMapping,
    EnumMapping,
    TypeResolver,
    build_vocabulary,
)
from docgraph.graphql.definition.query_limits import replace_limits
from docgraph.graphql.definition.schema import (
    SchemaError,
    build_schema,
    check_live,
    declare_live,
    parse_schema,
    parse_subgraph,
)
from docgraph.graphql.definition.visibility import Follows, Visibility, read_visibility
from docgraph.graphql.federation.generated_names import style_generated
from docgraph.graphql.federation.subgraph import Subgraph
from docgraph.graphql.sections import Graphql
from docgraph.predicates import CompiledPredicate, PredicateError, compile_predicate
from docgraph.store.guard.stage_checks import Policy
from docgraph.variables import BUILT_IN, StagePart, find_shape
from docgraph.variables.compilation import describe

_ANY_LIMIT = 2**63
_QUERY_SHAPE = frozenset({"db", "collection", "find", "stages", "group"})


@dataclass(frozen=True, slots=True)
class Examination:
    """The report, and the parts of the app as far as they could be built."""

    report: Report
    document: DocumentNode | None = None
    schema: GraphQLSchema | None = None
    mappings: Mapping[str, Mapping[str, AnyMapping]] = field(default_factory=dict)
    enums: Mapping[str, EnumMapping] = field(default_factory=dict)
    type_resolvers: Mapping[str, TypeResolver] = field(default_factory=dict)
    visibility: Visibility = field(default_factory=lambda: Visibility({}))
    faults: Mapping[FaultyPlace, str] = field(default_factory=dict)  # why each is left out
    problems: tuple[Finding, ...] = ()  # of the parts that are left out
    entities: Mapping[str, tuple[EntityMapping, ...]] = field(default_factory=dict)
    subgraph: Subgraph | None = None  # the names of federation's directives


def check_definition(
    definition: AppDefinition | Mapping[str, Any],
    *,
    settings: Graphql,
    policy: Policy | None = None,
    variables: Collection[str] = BUILT_IN,
) -> Report:
    """Return errors and warnings with their positions, as far as they need no database."""
    report = inspect_definition(definition, settings=settings, policy=policy, variables=variables)
    return report.resolve_offline()


def inspect_definition(
    definition: AppDefinition | Mapping[str, Any],
    *,
    settings: Graphql,
    policy: Policy | None = None,
    variables: Collection[str] = BUILT_IN,
    hidden: Hidden | None = None,
    examined: dict[str, Examination] | None = None,
) -> Report:
    """Return errors, warnings, and the questions that only the database can answer.

    `variables` are the names of the predefined variables without their @. `hidden` are the
    properties that no read shows, by namespace. `examined` gets the compiled parts by version, for
    a write of the same definition in this process.
    """
    if not isinstance(definition, AppDefinition):
        definition = decode_definition(definition)
    rules = CheckContext(settings.max_limit, policy or Policy(), variables, settings.json_mode)
    parts = check_written(definition, examine(definition, rules), settings)
    if examined is not None and definition.version:
        examined[definition.version] = parts
    return check_secrets(parts, hidden or {}).report


def check_written(definition: AppDefinition, parts: Examination, settings: Graphql) -> Examination:
    """Check a compiled definition that is being written.

    Some of the mistakes that are rejected here are tolerated in definitions that are already
    stored.
    """
    findings = Findings([*parts.report.errors], [*parts.report.warnings])
    findings.questions += parts.report.questions
    for part in findings.questions:  # in a stored definition such a stage fails when it is run
        if isinstance(part, StagePart) and (shape := find_shape(part)) is not None:
            findings.error(part.where, shape)
    if parts.schema is not None:
        _check_entrance(parts.schema, definition.mappings, findings)
        check_groups(parts.schema, parts.mappings, findings)
        check_aggregations(parts.schema, parts.mappings, findings)
        if not parts.report.errors:  # else generated parts are missing
            warn_hidden_uses(parts.schema, parts.mappings, parts.visibility, findings)
        limits = replace_limits(settings.limits, definition.limits)
        findings.errors += check_operations(definition.operations, parts.schema, limits)
    return replace(parts, report=findings.report())


def check_secrets(parts: Examination, hidden: Hidden) -> Examination:
    """Reject mappings to properties that no read shows, by namespace."""
    if parts.schema is None or not hidden:
        return parts
    report = parts.report
    findings = Findings([*report.errors], [*report.warnings], [*report.questions])
    check_hidden(parts.schema, parts.mappings, hidden, findings)
    return replace(parts, report=findings.report())


def require_id(report: Report, document: Mapping[str, Any]) -> Report:
    """Return the report, with an error if the definition would get a generated `_id`."""
    if "_id" in document:
        return report
    return replace(
        report, errors=(*report.errors, Finding("_id", "missing", "give the app a name"))
    )


def _check_entrance(schema: GraphQLSchema, mappings: Mapping[str, Any], findings: Findings) -> None:
    """Reject an app without a mapped field of Query: it could answer no query."""
    query, fields = mappings.get("Query"), schema.type_map.get("Query")
    if not isinstance(fields, GraphQLObjectType) or not (query is None or isinstance(query, dict)):
        return
    if not any(isinstance((query or {}).get(name), dict) for name in fields.fields):
        findings.error(
            "mappings.Query",
            "maps no field of Query to a query or an aggregation",
            "map one at least",
        )


def examine(definition: AppDefinition, rules: CheckContext) -> Examination:
    """Check a definition and compile it in the same pass."""
    findings = Findings([*definition.problems], [*definition.remarks])
    document = schema = subgraph = None
    if definition.schema:
        try:
            if definition.federation is None:
                document = parse_schema(definition.schema)
            else:
                document, subgraph = parse_subgraph(definition.schema)
            schema = build_schema(document, definition.json_mode_or(rules.json_mode))
        except SchemaError as error:
            findings.errors += error.findings
    if document is None or schema is None:
        _check_shapes(definition.mappings, rules, findings)
        return Examination(findings.report())
    parts = _Parts(schema, definition.mappings, rules, findings, is_subgraph=subgraph is not None)
    entities = _read_entities(definition, document, subgraph, parts, rules)
    generated = GeneratedTypes(document, findings)
    sources = (parts.mappings, parts.enums, definition.mappings)
    mappings = add_lists(schema, *sources, generated, findings)
    follow_groups(schema, mappings, generated, findings)
    paged = add_connections(schema, mappings, generated, findings)
    follows: Follows = generated.follows
    if generated and not findings.errors:
        try:
            extended = generated.extend()
            if definition.federation is not None and subgraph is not None:
                prefix = definition.federation.prefix
                styled = style_generated(extended, generated.names, follows, prefix, subgraph)
                _check_new_names(styled.names.values(), schema, findings)
                extended, paged, follows = styled.document, styled.rename(paged), styled.follows
            schema = build_schema(extended, definition.json_mode_or(rules.json_mode))
            document, mappings = extended, paged
        except SchemaError as error:
            findings.errors += error.findings
    visibility = read_visibility(schema, follows)
    findings.errors += check_visibility(schema, visibility, rules.faults)
    _check_keys(schema, document, subgraph, visibility, findings)
    if definition.live:
        findings.errors += check_live(schema)
        schema = declare_live(schema, is_declared=True)
    return Examination(
        findings.report(),
        document,
        schema,
        mappings,
        parts.enums,
        parts.type_resolvers,
        visibility,
        subgraph=subgraph,
        entities=entities,
    )


def _read_entities(
    definition: AppDefinition,
    document: DocumentNode,
    subgraph: Subgraph | None,
    parts: _Parts,
    rules: CheckContext,
) -> Mapping[str, tuple[EntityMapping, ...]]:
    if subgraph is None:
        return {}
    reader = EntityReader(parts.schema, parts.mappings, rules, parts.findings)
    return reader.read(definition.mappings, read_keys(document, subgraph, parts.findings))


def _check_new_names(names: Iterable[str], schema: GraphQLSchema, findings: Findings) -> None:
    """Reject a prefix that gives generated types names of the author's types."""
    for name in sorted({*names} & schema.type_map.keys()):
        what = f"the schema has a type {name}, which is generated with this prefix"
        findings.error("descriptor.federation.prefix", what, "choose another prefix")


def _check_keys(
    schema: GraphQLSchema,
    document: DocumentNode,
    subgraph: Subgraph | None,
    visibility: Visibility,
    findings: Findings,
) -> None:
    if subgraph is not None and not findings.errors:
        keys = read_keys(document, subgraph, findings)
        check_key_visibility(schema, visibility, keys, findings)
        check_field_visibility(schema, visibility, document, subgraph, findings)


def build_whole_schema(definition: AppDefinition) -> GraphQLSchema | None:
    """Build the schema with its generated parts, whatever else is wrong; None: there is none."""
    plain = replace(definition, json_mode=None)  # descriptions of scalars depend on the mode
    return examine(plain, CheckContext(_ANY_LIMIT, Policy())).schema


def _check_shapes(mappings: Mapping[str, Any], rules: CheckContext, findings: Findings) -> None:
    """Check mappings without a schema: those that can only be queries."""
    for type_name, fields in mappings.items():
        for name, value in fields.items() if isinstance(fields, dict) else ():
            if isinstance(value, dict) and _QUERY_SHAPE & value.keys():
                check_one_field(f"mappings.{type_name}.{name}", value, rules, findings)


class _Parts:
    """Checks and compiles the mappings of every type of a schema."""

    def __init__(
        self,
        schema: GraphQLSchema,
        source: Mapping[str, Any],
        rules: CheckContext,
        findings: Findings,
        *,
        is_subgraph: bool = False,
    ) -> None:
        self.mappings: dict[str, dict[str, AnyMapping]] = {}
        self.enums: dict[str, EnumMapping] = {}
        self.type_resolvers: dict[str, TypeResolver] = {}
        self.schema = schema
        self._is_subgraph = is_subgraph
        self._source = source
        self._rules = rules
        self.findings = findings
        own = [name for name in schema.type_map if not name.startswith("__")]
        for name in source:
            if name not in schema.type_map or name.startswith("__"):
                what = "the schema has no such type"
                findings.warn_unknown(f"mappings.{name}", what, name, own)
        for name, type_ in schema.type_map.items():
            if not name.startswith("__"):
                self._read(type_)

    def _read(self, type_: GraphQLNamedType) -> None:
        name = type_.name
        if (name,) in self._rules.faults:
            return
        if isinstance(type_, GraphQLObjectType):
            fields = self._mapping_of(name)
            self.mappings[name] = check_object_type(type_, fields, self._rules, self.findings)
        elif isinstance(type_, GraphQLEnumType):
            self.enums[name] = check_enum(type_, self._mapping_of(name), self.findings)
        elif self._is_subgraph and name == "_Entity":
            return  # the name in a representation decides
        elif isinstance(type_, GraphQLUnionType | GraphQLInterfaceType):
            mapping = self._mapping_of(name)
            resolver = check_abstract_type(type_, mapping, self.schema, self.findings)
            if resolver is not None:
                self.type_resolvers[name] = resolver
        elif name in self._source:
            self.findings.warn(
                f"mappings.{name}", "a mapping of an input type or scalar has no effect"
            )

    def _mapping_of(self, name: str) -> Mapping[str, Any]:
        value = self._source.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.findings.error(f"mappings.{name}", f"must be an object, not {describe(value)}")
            return {}
        if self._is_subgraph:
            return {key: mapping for key, mapping in value.items() if key != ENTITY}
        return value


_RESOLVER = "$typeResolver"


def check_enum(
    type_: GraphQLEnumType, mapping: Mapping[str, Any], findings: Findings
) -> EnumMapping:
    """Return every name with its stored value; a name without a mapping stores itself."""
    where = f"mappings.{type_.name}"
    for name in mapping:
        if name not in type_.values:
            what = f"the enum {type_.name} has no such value"
            findings.warn_unknown(f"{where}.{name}", what, name, type_.values)
    stored = {name: mapping.get(name, name) for name in type_.values}
    names: dict[Any, str] = {}
    for name, value in stored.items():
        first = names.setdefault(unordered_key(value), name)
        if first != name:
            findings.warn(
                f"{where}.{name}",
                f"has the same stored value as {first}, which results will show",
            )
    return EnumMapping(type_.name, stored)


def check_abstract_type(
    type_: GraphQLAbstractType,
    mapping: Mapping[str, Any],
    schema: GraphQLSchema,
    findings: Findings,
) -> TypeResolver | None:
    """Return the type resolver of a union or interface; None with an error."""
    kind = "interface" if isinstance(type_, GraphQLInterfaceType) else "union"
    where = f"mappings.{type_.name}"
    for key in mapping:
        if key != _RESOLVER:
            findings.warn(
                f"{where}.{key}",
                f"a mapping of the fields of {kind} {type_.name} has no effect",
                "map the field in each object type",
            )
    possible = {member.name: None for member in schema.get_possible_types(type_)}
    predicates = mapping.get(_RESOLVER)
    if predicates is None:
        if possible:
            findings.error(where, f"{kind} {type_.name} has no {_RESOLVER}")
        return None
    if not isinstance(predicates, dict):
        findings.error(f"{where}.{_RESOLVER}", f"must be an object, not {describe(predicates)}")
        return None
    missing = [name for name in possible if name not in predicates]
    if missing:
        findings.error(
            f"{where}.{_RESOLVER}",
            f"has no predicate for {', '.join(missing)}",
            "true, as the last one, takes everything that is left",
        )
    return _build_resolver(type_.name, predicates, possible, findings)


def _build_resolver(
    name: str, predicates: Mapping[str, Any], possible: Mapping[str, None], findings: Findings
) -> TypeResolver | None:
    paths: set[str] = set()
    compiled: list[tuple[str, CompiledPredicate]] = []
    failed = False
    for member, text in predicates.items():
        where = f"mappings.{name}.{_RESOLVER}.{member}"
        if member not in possible:
            findings.warn(where, f"{member} is not one of the types of {name}")
            continue
        if not isinstance(text, str):
            findings.error(where, f"must be a predicate, not {describe(text)}")
            failed = True
            continue
        try:
            compiled.append((member, compile_predicate(text, build_vocabulary(paths))))
        except PredicateError as error:
            findings.error(where, str(error))
            failed = True
    return None if failed else TypeResolver(tuple(compiled), frozenset(paths))
