"""Merge of an inferred model into an existing definition: only additions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.tools.apps import hide_arguments
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
            known = self._existing.types.get(type_.name)
            if known is None:
                continue
            lines = [*self._add_fields(type_, known), *self._report_left_out(type_, known)]
            if lines:
                texts[known.end] = "".join(f"{line}\n" for line in lines)
            self._report_unseen(type_, known)
        whole = list(self._add_types())
        for enum in self._model.enums.values():
            known = self._existing.types.get(enum.name)
            lines = [] if known is None else list(self._add_values(enum, known))
            if known is not None and lines:
                texts[known.end] = "".join(f"{line}\n" for line in lines)
        self._result.schema = _write(self._existing.schema, texts, whole)
        return self._result

    def _add_fields(self, type_: ObjectType, known: ExistingType) -> Iterator[str]:
        for one in type_.fields.values():
            if self._is_there(type_.name, one, known):
                continue
            yield from render_field(one)
            self._result.added.append(f"{type_.name}.{one.name}")
            self._map(type_.name, one.name, one.mapping)
            self._want(one)

    def _is_there(self, owner: str, one: Field, known: ExistingType) -> bool:
        if one.name in known.fields:
            self._compare(owner, one.name, one, known)
            return True
        if one.name in known.taken_out or not self._existing.taken_out.isdisjoint(_names(one)):
            return True
        if not isinstance(one.mapping, Mapping):
            theirs = known.paths.get(one.mapping or one.name)
            if theirs is not None:
                self._compare(owner, theirs, one, known)
            return theirs is not None
        place = f"{one.mapping['db']}.{one.mapping['collection']}"
        is_listed = owner == "Query" and one.type.startswith("[") and place in known.lists
        return is_listed or describe_query(one.mapping) in known.queries

    def _compare(self, owner: str, name: str, one: Field, known: ExistingType) -> None:
        """Report an existing field, under whichever name, that has another type."""
        theirs = known.fields.get(name, one.type)
        if theirs.replace("!", "") != one.type.replace("!", ""):  # a sample does not prove `!`
            self._result.notes.append(
                f"{owner}.{name}: kept as {theirs}; the sample shows {one.type}"
            )

    def _report_left_out(self, type_: ObjectType, known: ExistingType) -> Iterator[str]:
        for name, reason in type_.left_out:
            if name not in known.taken_out and name not in known.fields and name not in known.paths:
                yield render_left_out(name, reason)

    def _report_unseen(self, type_: ObjectType, known: ExistingType) -> None:
        """Report properties that do not occur in the sample."""
        if type_.name == "Query":
            return
        seen = {one.mapping or one.name for one in type_.fields.values() if _reads(one)}
        left_out = dict(type_.left_out)
        for path, name in known.paths.items():
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
                type_.fields = {one.name: one for one in type_.fields.values() if self._is_in(one)}
                for one in type_.fields.values():
                    self._map(name, one.name, one.mapping)
                    self._want(one)
            yield render_type(type_)

    def _is_in(self, one: Field) -> bool:
        return self._existing.taken_out.isdisjoint(_names(one))

    def _add_values(self, enum: EnumType, known: ExistingType) -> Iterator[str]:
        stored = self._existing.mappings.get(enum.name)
        values = list(stored.values()) if isinstance(stored, Mapping) else []
        for name, value in enum.values.items():
            is_there = name in known.fields or value in known.fields or value in values
            if is_there or name in known.taken_out:
                continue
            yield f"  {name}"
            self._result.added.append(f"{enum.name}.{name}")
            self._map(enum.name, name, value if value != name else None)

    def _want(self, one: Field) -> None:
        self._wanted += _names(one)

    def _map(self, owner: str, name: str, mapping: Any) -> None:
        theirs = self._existing.mappings.get(owner)
        is_mapped = isinstance(theirs, Mapping) and name in theirs
        if mapping is not None and not is_mapped:
            self._result.mappings.setdefault(owner, {})[name] = mapping


def _reads(one: Field) -> bool:
    return not isinstance(one.mapping, Mapping)


def _names(one: Field) -> list[str]:
    """Return the types that a field and its arguments name."""
    types = [one.type, *(argument.type for argument in one.arguments)]
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
