"""Mappings of enums, unions and interfaces: validation and compilation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import (
    GraphQLAbstractType,
    GraphQLEnumType,
    GraphQLInterfaceType,
    GraphQLSchema,
)

from docgraph.codec.equality import unordered_key
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.mapping import EnumMapping, TypeResolver, build_vocabulary
from docgraph.predicates import Predicate, PredicateError, compile_predicate
from docgraph.variables.compilation import describe

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
    compiled: list[tuple[str, Predicate]] = []
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
    return None if failed else TypeResolver(name, tuple(compiled), frozenset(paths))
