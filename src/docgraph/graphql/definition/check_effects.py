"""Warnings for mappings that are valid but have no effect: null, unused, hidden, texts only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphql import (
    GraphQLField,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    get_named_type,
    get_nullable_type,
    is_abstract_type,
    is_input_object_type,
    is_leaf_type,
    is_list_type,
)

from docgraph.exchange.errors import QueryError
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.mapping import (
    PAGE_ARGUMENTS,
    AggregationMapping,
    AnyMapping,
    FieldMapping,
    GroupMapping,
    QueryMapping,
)
from docgraph.store.guard.fence import check_searches
from docgraph.store.guard.shown import Paths
from docgraph.store.guard.write_effects import read_filter
from docgraph.store.names import namespace_of
from docgraph.variables import (
    GRAPHQL,
    Placeholder,
    ValueOrigin,
    find_misplaced,
    find_missing_metadata,
    find_search_conflicts,
    find_text_comparison,
    flatten_stages,
)

_REFERENCE = frozenset({"$ref", "$id", "$db"})  # the properties of a DBRef

Hidden = Mapping[str, Paths]


def warn_useless(where: str, mapping: AnyMapping, field: GraphQLField, findings: Findings) -> None:
    """Warn about mappings that can only return null."""
    if isinstance(mapping, FieldMapping):
        for number, step in enumerate(mapping.path):
            if step.startswith("$") and not (number and step in _REFERENCE):
                findings.warn(where, f"no stored property is called {step!r}: always null")
            elif step != step.strip():
                findings.warn(where, f"{step!r} begins or ends with a space: null, most likely")
        return
    if isinstance(mapping, GroupMapping):
        return  # docgraph chose the results by the type
    named = get_named_type(field.type)
    if is_leaf_type(named) and named.name != "BsonDocument":
        findings.warn(
            where,
            f"gives documents, which are never of type {named.name}: always null",
            "declare an object type, or BsonDocument",
        )
    inner = get_nullable_type(field.type)
    if is_list_type(inner) and is_list_type(get_nullable_type(inner.of_type)):
        findings.warn(where, f"gives documents, but {field.type} wants lists of them: always null")


def find_item_type(
    schema: GraphQLSchema, field: GraphQLField, mapping: AnyMapping
) -> GraphQLNamedType:
    """Return the type of the documents of a field: that of the items for a connection."""
    spec = mapping.connection if isinstance(mapping, QueryMapping) else None
    return schema.type_map[spec.item] if spec and spec.item else get_named_type(field.type)


def warn_unused(
    where: str, type_: GraphQLObjectType, name: str, mapping: AnyMapping, findings: Findings
) -> None:
    """Warn about arguments that the mapping does not use, unless an interface requires them."""
    asked = {
        argument
        for interface in type_.interfaces
        if name in interface.fields
        for argument in interface.fields[name].args
    }
    templates = () if isinstance(mapping, FieldMapping) else mapping.templates
    used = {
        use.reference.head
        for template in templates
        for use in template.uses
        if use.reference is not None and use.reference.source is ValueOrigin.ARGUMENT
    }
    if isinstance(mapping, QueryMapping) and mapping.connection is not None:
        used |= PAGE_ARGUMENTS
    for argument in type_.fields[name].args:
        if argument not in used | asked:
            findings.warn(where, f"does not use the argument {argument}")


def warn_text_only(
    where: str, key: str, use: Placeholder, field: GraphQLField, findings: Findings
) -> None:
    """Warn if `find` or `stages` compare an `ID` argument with texts only."""
    type_ = _find_argument_type(use, field)
    if type_ is None or key not in ("find", "stages"):
        return
    named = get_named_type(type_)
    is_object = is_input_object_type(named)
    if is_object:
        is_id = any(get_named_type(one.type).name == "ID" for one in named.fields.values())
    else:
        is_id = named.name == "ID"
    is_list = is_list_type(get_nullable_type(type_))
    operator = find_text_comparison(key, use.place, is_list=is_list, is_object=is_object)
    if is_id and operator:
        findings.warn(
            where,
            f"an ID in {operator} is a text: it matches no ObjectId, UUID, number or date",
            "compare it by $eq or $in of a filter, or declare the argument with the type of "
            "the data",
        )


def _find_argument_type(use: Placeholder, field: GraphQLField) -> Any:
    """Return the type of an argument, or of the part of an input object that is named."""
    if use.reference is None or use.reference.head not in field.args:
        return None
    type_: Any = field.args[use.reference.head].type
    for step in use.reference.path:
        named = get_named_type(type_)
        if not is_input_object_type(named) or step not in named.fields:
            return None
        type_ = named.fields[step].type
    return type_


def check_hidden(
    schema: GraphQLSchema,
    mappings: Mapping[str, Mapping[str, AnyMapping]],
    hidden: Hidden,
    findings: Findings,
) -> None:
    """Reject mappings to properties that no read shows, such as passwords."""
    for where, field, mapping in find_queries(schema, mappings):
        secrets = hidden.get(namespace_of(mapping.db, mapping.collection), ())
        if not secrets:
            continue
        for path in _named_paths(mapping):
            if _is_hidden(path, secrets):
                findings.warn(where, f"nothing can be asked about {path}: always an error")
        if isinstance(mapping, GroupMapping):
            paths = [one.path for one in mapping.results.values()]
            for path in filter(lambda path: _is_hidden(path, secrets), paths):
                findings.error(f"{where}.group", f"{path} is never shown")
            continue
        for name in _possible_types(schema, field, mapping):
            for key, own in mappings.get(name, {}).items():
                if isinstance(own, FieldMapping) and _is_hidden(own.text, secrets):
                    findings.error(f"mappings.{name}.{key}", f"{own.text} is never shown")


def check_aggregations(
    schema: GraphQLSchema, mappings: Mapping[str, Mapping[str, AnyMapping]], findings: Findings
) -> None:
    """Reject misplaced stages, missing metadata, and searches that row filters would prevent."""
    for where, _, mapping in find_queries(schema, mappings):
        if isinstance(mapping, QueryMapping):
            conflicts = find_search_conflicts(mapping.find.source, GRAPHQL)
            findings.flaws(f"{where}.find", conflicts)
        if isinstance(mapping, QueryMapping) and mapping.sort is not None:
            sort, find = mapping.sort.source, mapping.find.source
            findings.flaws(f"{where}.sort", find_missing_metadata(sort, find, GRAPHQL))
        if isinstance(mapping, AggregationMapping):
            place = f"{where}.{'find' if isinstance(mapping, GroupMapping) else 'stages'}"
            findings.flaws(place, find_misplaced(mapping.stages.source, GRAPHQL))
            try:
                check_searches(flatten_stages(mapping.stages.source, GRAPHQL.optional))
            except QueryError as error:
                findings.error(place, error.message, error.hint)


def _is_hidden(path: str, secrets: Paths) -> bool:
    """Return whether the path leads to, or into, a hidden property."""
    steps = tuple(step for step in path.split(".") if not step.isdigit())
    return any(steps[: len(secret)] == secret for secret in secrets)


def _named_paths(mapping: QueryMapping | AggregationMapping) -> Iterator[str]:
    """Yield the properties that the filter and the sort of a query name."""
    if isinstance(mapping, QueryMapping | GroupMapping):
        yield from (one.path for one in read_filter(mapping.find.source) if one.path is not None)
    if isinstance(mapping, QueryMapping):
        sort = None if mapping.sort is None else mapping.sort.source
        yield from (path for path in sort or () if not path.startswith("$"))


def find_queries(
    schema: GraphQLSchema, mappings: Mapping[str, Mapping[str, AnyMapping]]
) -> Iterator[tuple[str, GraphQLField, QueryMapping | AggregationMapping]]:
    """Yield the fields that are fetched, each with the path of its mapping in the definition."""
    for type_name, fields in mappings.items():
        type_ = schema.type_map[type_name]
        for name, mapping in fields.items():
            if isinstance(type_, GraphQLObjectType) and not isinstance(mapping, FieldMapping):
                yield f"mappings.{type_name}.{name}", type_.fields[name], mapping


def _possible_types(
    schema: GraphQLSchema, field: GraphQLField, mapping: QueryMapping | AggregationMapping
) -> Iterator[str]:
    named = find_item_type(schema, field, mapping)
    if is_abstract_type(named):
        yield from (type_.name for type_ in schema.get_possible_types(named))
    else:
        yield named.name
