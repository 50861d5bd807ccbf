"""Breaking changes: the effects of a changed definition on its clients.

graphql-core compares the schemas. Other changes can break clients as well: the URI, the JSON form
of values, fields that fewer callers see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from graphql import GraphQLSchema
from graphql.utilities import (
    BreakingChangeType,
    DangerousChangeType,
    SchemaChange,
    find_schema_changes,
)

from docgraph.graphql.definition.check import build_whole_schema
from docgraph.graphql.definition.declared_operations import find_incompatibilities
from docgraph.graphql.definition.definition import AppDefinition, decode_definition
from docgraph.graphql.definition.visibility import read_visibility


class Severity(StrEnum):
    """The severity of an effect for clients, the worst first."""

    BREAKING = "breaking"
    DANGEROUS = "dangerous"
    SAFE = "safe"


@dataclass(frozen=True, slots=True)
class Effect:
    """One difference that clients may notice."""

    severity: Severity
    what: str


def compare_definitions(
    before: Mapping[str, Any], after: Mapping[str, Any], json_mode: str
) -> list[Effect]:
    """Return the effects of replacing a definition, the worst first.

    `json_mode` applies to definitions that do not set one. Mappings are not compared: their effect
    on responses cannot be known.
    """
    old, new = decode_definition(before), decode_definition(after)
    effects = [*_compare_descriptors(old, new, json_mode), *_compare_schemas(old, new)]
    order = list(Severity)
    return sorted(effects, key=lambda effect: order.index(effect.severity))


def _compare_descriptors(
    old: AppDefinition, new: AppDefinition, json_mode: str
) -> Iterator[Effect]:
    if old.enabled and not new.enabled:
        yield Effect(Severity.BREAKING, "The app is disabled.")
    elif new.enabled and not old.enabled:
        yield Effect(Severity.SAFE, "The app is enabled.")
    if old.uri != new.uri:
        yield Effect(Severity.BREAKING, f"The address changed from /{old.uri} to /{new.uri}.")
    modes = [one.json_mode or json_mode for one in (old, new)]
    if modes[0] != modes[1]:
        yield Effect(Severity.BREAKING, f"The JSON mode changed from {modes[0]} to {modes[1]}.")
    if old.csv and not new.csv:
        yield Effect(Severity.BREAKING, "The app no longer answers with CSV.")
    elif new.csv and not old.csv:
        yield Effect(Severity.SAFE, "The app answers with CSV where callers accept it.")
    yield from _compare_live(old, new)
    yield from _compare_operations(old, new)


def _compare_live(old: AppDefinition, new: AppDefinition) -> Iterator[Effect]:
    if old.live and not new.live:
        yield Effect(Severity.BREAKING, "The app no longer has live queries.")
    elif new.live and not old.live:
        yield Effect(Severity.SAFE, "The app has live queries.")
    elif old.live != new.live:
        yield Effect(Severity.DANGEROUS, "Other roles may run live queries.")


def _compare_operations(old: AppDefinition, new: AppDefinition) -> Iterator[Effect]:
    before, after = ({one.name: one for one in app.operations} for app in (old, new))
    for name in sorted(before.keys() - after.keys()):
        yield Effect(Severity.BREAKING, f"The prepared query {name} was removed.")
    for name in sorted(after.keys() - before.keys()):
        yield Effect(Severity.SAFE, f"The prepared query {name} was added.")
    for name in sorted(before.keys() & after.keys()):
        shown = f"The prepared query {name} changed"
        for what in find_incompatibilities(before[name], after[name]):
            yield Effect(Severity.BREAKING, f"{shown}: {what}.")
        if before[name].find_digests().isdisjoint(after[name].find_digests()):
            what = "clients that send the SHA-256 of its old text do not find it"
            yield Effect(Severity.DANGEROUS, f"{shown}: {what}.")


def _compare_schemas(old: AppDefinition, new: AppDefinition) -> Iterator[Effect]:
    before, after = build_whole_schema(old), build_whole_schema(new)
    if before is None or after is None:
        yield Effect(Severity.DANGEROUS, "A schema that cannot work cannot be compared.")
        return
    for change in find_schema_changes(before, after):
        yield Effect(_classify(change), change.description)
    yield from _compare_visibility(before, after)


def _classify(change: SchemaChange) -> Severity:
    if isinstance(change.type, BreakingChangeType):
        return Severity.BREAKING
    is_dangerous = isinstance(change.type, DangerousChangeType)
    return Severity.DANGEROUS if is_dangerous else Severity.SAFE


def _compare_visibility(old: GraphQLSchema, new: GraphQLSchema) -> Iterator[Effect]:
    """Yield the fields that exist in both, but not for the same callers."""
    before, after = read_visibility(old).roles, read_visibility(new).roles
    for place in sorted({*before, *after}):
        type_name, name = place
        fields = [getattr(one.type_map.get(type_name), "fields", {}) for one in (old, new)]
        own, other = before.get(place), after.get(place)
        if own == other or not all(name in one for one in fields):
            continue
        shown = f"Field {type_name}.{name}"
        if other is not None and (own is None or not own <= other):
            yield Effect(Severity.BREAKING, f"{shown} is hidden from callers who have seen it.")
        else:
            yield Effect(Severity.SAFE, f"{shown} is visible to more callers.")
