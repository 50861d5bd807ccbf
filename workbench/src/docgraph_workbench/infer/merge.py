"""Merge of an inferred model into an existing definition: only additions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph_workbench.infer.argument_visibility import hide_arguments
from docgraph_workbench.infer.existing_definition import Existing, ExistingType, describe_query
from docgraph_workbench.infer.field_names import safe_name
from docgraph_workbench.infer.model import (
    EnumType,
    Field,
    Model,
    ObjectType,
    map_enum,
    render_field,
    render_left_out,
    render_type,
)
from docgraph_workbench.infer.yaml_additions import merge_entries

_NAMED: Final = re.compile(r"[_A-Za-z]\w*")


@dataclass(slots=True)
class Merged:
    """The schema with what is new; `mappings` are only those to be added.

    `added` are types and fields, `notes` report differences that were left as they are.
    """

    schema: str
    mappings: dict[str, dict[str, Any]] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def merge(existing: Existing, model: Model) -> Merged:
    """Add the types and fields of the model that the definition does not have.

    Arguments get the `@visible` of the fields that they use.
    """
    merged = _Merger(existing, model).merge()
    whole = merge_entries(existing.mappings, merged.mappings)
    merged.schema = hide_arguments(merged.schema, whole, merged.added, merged.notes)
    return merged


class _Merger:
    """Finds new types and fields, and inserts them at their positions."""

    def __init__(self, existing: Existing, model: Model) -> None:
        self._existing = existing
        self._model = model
        self._result = Merged(existing.schema)
        self._wanted: list[str] = []  # types that the added parts need

    def merge(self) -> Merged:
        texts: dict[int, str] = {}  # by the position where they are inserted
        for type_ in self._model.types.values():
            existing = self._existing.types.get(type_.name)
            if existing is None:
                continue
            lines = [*self._add_fields(type_, existing), *self._report_left_out(type_, existing)]
            if lines:
                texts[existing.end] = "".join(f"{line}\n" for line in lines)
            self._report_unseen(type_, existing)
        whole = list(self._add_types())
        for enum in self._model.enums.values():
            existing = self._existing.types.get(enum.name)
            lines = [] if existing is None else list(self._add_values(enum, existing))
            if existing is not None and lines:
                texts[existing.end] = "".join(f"{line}\n" for line in lines)
        self._result.schema = _write(self._existing.schema, texts, whole)
        return self._result

    def _add_fields(self, type_: ObjectType, existing: ExistingType) -> Iterator[str]:
        for inferred in type_.fields.values():
            if self._is_there(type_.name, inferred, existing):
                continue
            yield from render_field(inferred)
            self._result.added.append(f"{type_.name}.{inferred.name}")
            self._map(type_.name, inferred.name, inferred.mapping)
            self._want(inferred)

    def _is_there(self, owner: str, inferred: Field, existing: ExistingType) -> bool:
        if inferred.name in existing.fields:
            self._compare(owner, inferred.name, inferred, existing)
            return True
        if inferred.name in existing.taken_out or not self._existing.taken_out.isdisjoint(
            _names(inferred)
        ):
            return True
        if not isinstance(inferred.mapping, Mapping):
            theirs = existing.paths.get(inferred.mapping or inferred.name)
            if theirs is not None:
                self._compare(owner, theirs, inferred, existing)
            return theirs is not None
        place = f"{inferred.mapping['db']}.{inferred.mapping['collection']}"
        is_listed = owner == "Query" and inferred.type.startswith("[") and place in existing.lists
        return is_listed or describe_query(inferred.mapping) in existing.queries

    def _compare(self, owner: str, name: str, inferred: Field, existing: ExistingType) -> None:
        """Report an existing field, under whichever name, that has another type."""
        theirs = existing.fields.get(name, inferred.type)
        if theirs.replace("!", "") != inferred.type.replace("!", ""):  # a sample does not prove `!`
            self._result.notes.append(
                f"{owner}.{name}: kept as {theirs}; the sample shows {inferred.type}"
            )

    def _report_left_out(self, type_: ObjectType, existing: ExistingType) -> Iterator[str]:
        for name, reason in type_.left_out:
            if (
                name not in existing.taken_out
                and name not in existing.fields
                and name not in existing.paths
            ):
                yield render_left_out(name, reason)

    def _report_unseen(self, type_: ObjectType, existing: ExistingType) -> None:
        """Report properties that do not occur in the sample."""
        if type_.name == "Query":
            return
        seen = {
            inferred.mapping or inferred.name
            for inferred in type_.fields.values()
            if _reads(inferred)
        }
        left_out = dict(type_.left_out)
        for path, name in existing.paths.items():
            if path not in seen and "." not in path and name not in type_.fields:
                reason = left_out.get(safe_name(path), f"the sample has no property {path!r}")
                self._result.notes.append(f"{type_.name}.{name}: kept; {reason}")

    def _add_types(self) -> Iterator[str]:
        """Yield the types that the added parts need, and those that they need."""
        done: set[str] = set()
        while self._wanted:
            name = self._wanted.pop(0)
            type_ = self._model.types.get(name) or self._model.enums.get(name)
            if type_ is None or name in done or name in self._existing.types:
                continue
            done.add(name)
            if name in self._existing.others:
                self._result.notes.append(f"{name}: kept; the schema has another type of that name")
                continue
            self._result.added.append(name)
            if isinstance(type_, EnumType):
                for key, value in map_enum(type_).items():
                    self._map(name, key, value)
            else:
                type_.fields = {
                    inferred.name: inferred
                    for inferred in type_.fields.values()
                    if self._is_in(inferred)
                }
                for inferred in type_.fields.values():
                    self._map(name, inferred.name, inferred.mapping)
                    self._want(inferred)
            yield render_type(type_)

    def _is_in(self, inferred: Field) -> bool:
        return self._existing.taken_out.isdisjoint(_names(inferred))

    def _add_values(self, enum: EnumType, existing: ExistingType) -> Iterator[str]:
        stored = self._existing.mappings.get(enum.name)
        values = list(stored.values()) if isinstance(stored, Mapping) else []
        for name, value in enum.values.items():
            is_there = name in existing.fields or value in existing.fields or value in values
            if is_there or name in existing.taken_out:
                continue
            yield f"  {name}"
            self._result.added.append(f"{enum.name}.{name}")
            self._map(enum.name, name, value if value != name else None)

    def _want(self, inferred: Field) -> None:
        self._wanted += _names(inferred)

    def _map(self, owner: str, name: str, mapping: Any) -> None:
        theirs = self._existing.mappings.get(owner)
        is_mapped = isinstance(theirs, Mapping) and name in theirs
        if mapping is not None and not is_mapped:
            self._result.mappings.setdefault(owner, {})[name] = mapping


def _reads(inferred: Field) -> bool:
    return not isinstance(inferred.mapping, Mapping)


def _names(inferred: Field) -> list[str]:
    """Return the types that a field and its arguments name."""
    types = [inferred.type, *(argument.type for argument in inferred.arguments)]
    return [name for text in types for name in _NAMED.findall(text)]


def _write(schema: str, texts: Mapping[int, str], whole: list[str]) -> str:
    """Insert texts before the brackets at their positions, the last one first; append types."""
    for place in sorted(texts, reverse=True):
        if schema[place] != "}":  # `type Query` without a block gets one
            schema = f"{schema[: place + 1]} {{\n{texts[place]}}}{schema[place + 1 :]}"
            continue
        before = schema[:place].rstrip(" \t")
        line_break = "" if before.endswith("\n") else "\n"
        schema = f"{before}{line_break}{texts[place]}{schema[place:]}"
    if whole:
        schema = "\n".join([f"{schema.rstrip()}\n", *whole])
    return schema
