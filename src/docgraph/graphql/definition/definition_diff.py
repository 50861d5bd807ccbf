"""Definition diff: the effects on clients, and the lines that differ."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from itertools import islice
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentSpreadNode,
    GraphQLSchema,
    NonNullTypeNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableDefinitionNode,
    print_ast,
)
from graphql.utilities import (
    BreakingChangeType,
    DangerousChangeType,
    SchemaChange,
    find_schema_changes,
)

from docgraph.codec import JsonMode, encode, to_json
from docgraph.config.render import render_block
from docgraph.exchange import Document
from docgraph.graphql.definition.check import build_whole_schema
from docgraph.graphql.definition.definition import (
    AppDefinition,
    DeclaredOperation,
    decode_definition,
)
from docgraph.graphql.definition.query_limits import find_fragments, parse_query
from docgraph.graphql.definition.visibility import list_parts, read_visibility, spell_part
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.sections import GraphqlLimits

_PARTS = ("schema", "mappings")
_AROUND = 2  # context lines around a difference
_MAX_LINES = 3_000
_RANGE = re.compile("([-+])([0-9]+)")
_MAX_PATHS = 10_000  # fields of prepared queries that are compared
_DEEPEST = 100


class ChangeKind(StrEnum):
    """The kind of change to an app."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    GONE = "gone"  # stored, but no longer in the source


@dataclass(frozen=True, slots=True)
class Change:
    """An app before and after; an empty document means that there is none."""

    app: str
    kind: ChangeKind
    before: Document
    after: Document
    effects: tuple[Effect, ...] = ()
    labels: tuple[str, str] = (" (stored)", "")

    @property
    def breaking(self) -> int:
        return sum(effect.severity is Severity.BREAKING for effect in self.effects)

    def as_dict(self) -> dict[str, Any]:
        effects = [{"severity": one.severity.value, "what": one.what} for one in self.effects]
        return {"app": self.app, "change": self.kind.value, "effects": effects}

    def diff(self) -> Iterator[str]:
        """Yield the lines that differ, part by part, with some context lines."""
        before, after = _parts_of(self.before), _parts_of(self.after)
        for part, text in before.items():
            former, latter = (f"{self.app}/{part}{label}" for label in self.labels)
            yield from _diff(text.splitlines(), after[part].splitlines(), (former, latter))

    def find_parts(self) -> list[str]:
        before, after = _parts_of(self.before), _parts_of(self.after)
        return [part for part, text in before.items() if text != after[part]]


def _diff(old: list[str], new: list[str], names: tuple[str, str]) -> Iterator[str]:
    """Yield a diff of the lines from the first to the last difference, to save time."""
    pairs = zip(old, new, strict=False)
    same = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
    if same is None and len(old) == len(new):
        return
    first = max((min(len(old), len(new)) if same is None else same) - _AROUND, 0)
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    ends = [len(lines) - max(last - _AROUND, 0) for lines in (old, new)]
    if max(ends) - first > _MAX_LINES:
        yield from (f"--- {names[0]}", f"+++ {names[1]}", "@@ too many lines differ @@")
        return
    # The ranges of lines are counted in the whole text.
    for line in unified_diff(
        old[first : ends[0]], new[first : ends[1]], *names, lineterm="", n=_AROUND
    ):
        yield (
            _RANGE.sub(lambda one: f"{one[1]}{int(one[2]) + first}", line)
            if line[:2] == "@@"
            else line
        )


def find_change(
    before: Document, after: Document, json_mode: str, labels: tuple[str, str] = (" (stored)", "")
) -> Change:
    """Return what storing `after` would change; `labels` follow the names of both in the diff."""
    name = str(after["_id"])
    if not before:
        return Change(name, ChangeKind.NEW, before, after)
    if is_same(before, after):
        return Change(name, ChangeKind.SAME, before, after)
    effects = compare_definitions(before, after, json_mode)
    return Change(name, ChangeKind.CHANGED, before, after, tuple(effects), labels)


def is_same(before: Document, after: Document) -> bool:
    written = [encode(one, JsonMode.STANDARD) for one in (before, after)]  # cheap, and usual
    return written[0] == written[1] or _parts_of(before) == _parts_of(after)


def _parts_of(document: Document) -> dict[str, str]:
    """Return the parts as texts to compare: only in mappings the order of keys counts."""
    plain = to_json(document, JsonMode.STANDARD)
    rest = {key: plain[key] for key in sorted(plain) if key not in _PARTS}
    schema, mappings = plain.get("schema", ""), plain.get("mappings", {})
    return {
        "app": render_block(rest) if rest else "",
        "schema": schema if isinstance(schema, str) else render_block({"schema": schema}),
        "mappings": render_block(mappings if isinstance(mappings, dict) else {"": mappings}),
    }


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

    graphql-core compares the schemas. Other changes can break clients as well: the URI, the JSON
    form of values, fields that fewer callers see.
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
        for what in _find_incompatibilities(before[name], after[name]):
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
    """Yield the fields and arguments that exist in both, but not for the same callers."""
    before, after = read_visibility(old).roles, read_visibility(new).roles
    existing = dict(list_parts(old)).keys() & dict(list_parts(new)).keys()
    for part in sorted({*before, *after} & existing):
        own, other = before.get(part), after.get(part)
        if own == other:
            continue
        shown = f"{'Field' if part[2:] == () else 'Argument'} {spell_part(part)}"
        if other is not None and (own is None or not own <= other):
            yield Effect(Severity.BREAKING, f"{shown} is hidden from callers who have seen it.")
        else:
            yield Effect(Severity.SAFE, f"{shown} is visible to more callers.")


def _find_incompatibilities(old: DeclaredOperation, new: DeclaredOperation) -> Iterator[str]:
    """Yield variables and response fields of the old text that the new one lacks."""
    limits = GraphqlLimits()
    try:
        documents = [parse_query(one.query, limits) for one in (old, new)]
    except OperationRefused:
        return  # an invalid text is reported where it is checked
    before, after = map(_find_variables, documents)
    for name, variable in before.items():
        if name not in after:
            yield f"its variable ${name} was removed"
        elif not _accepts(after[name], variable):
            yield f"its variable ${name} has another type"
    for name, variable in after.items():
        if name not in before and _is_required(variable):
            yield f"its variable ${name} is required"
    paths = [dict.fromkeys(islice(_find_paths(one), _MAX_PATHS)) for one in documents]
    gone = [path for path in paths[0] if path not in paths[1]]
    yield from (f"its field {'.'.join(path)} was removed" for path in gone if path[:-1] not in gone)


def _find_operation(document: DocumentNode) -> OperationDefinitionNode | None:
    nodes = document.definitions
    return next((one for one in nodes if isinstance(one, OperationDefinitionNode)), None)


def _find_variables(document: DocumentNode) -> dict[str, VariableDefinitionNode]:
    operation = _find_operation(document)
    nodes = () if operation is None else operation.variable_definitions or ()
    return {one.variable.name.value: one for one in nodes}


def _is_required(variable: VariableDefinitionNode) -> bool:
    return isinstance(variable.type, NonNullTypeNode) and variable.default_value is None


def _accepts(new: VariableDefinitionNode, old: VariableDefinitionNode) -> bool:
    """Return whether every value of the old variable is one of the new."""
    types = [print_ast(one.type) for one in (old, new)]
    if types[0].removesuffix("!") != types[1].removesuffix("!"):
        return False
    return not _is_required(new) or _is_required(old)


def _find_paths(document: DocumentNode) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the response by their response keys, the short ones first."""
    operation = _find_operation(document)
    fragments = find_fragments(document)
    seen: set[tuple[tuple[str, ...], str]] = set()
    queue: deque[tuple[SelectionSetNode | None, tuple[str, ...]]] = deque()
    queue.append((None if operation is None else operation.selection_set, ()))
    while queue:
        selection, path = queue.popleft()
        for one in () if selection is None or len(path) > _DEEPEST else selection.selections:
            if isinstance(one, FieldNode):
                here = (*path, (one.alias or one.name).value)
                yield here
                queue.append((one.selection_set, here))
            elif not isinstance(one, FragmentSpreadNode):
                queue.append((getattr(one, "selection_set", None), path))
            elif (path, one.name.value) not in seen and one.name.value in fragments:
                seen.add((path, one.name.value))
                queue.append((fragments[one.name.value].selection_set, path))
