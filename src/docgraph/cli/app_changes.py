"""Definitions on disk against those that are stored: what applying them would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from typing import Any

import click

from docgraph.cli.terminal import Colour, paint, print_table
from docgraph.codec import JsonMode, encode, to_json
from docgraph.config.render import render_block
from docgraph.exchange import Document
from docgraph.graphql.apps.stored_definitions import find_claims
from docgraph.graphql.definition.compare import Effect, Severity, compare_definitions
from docgraph.graphql.definition.definition import decode_definition

__all__ = ["Change", "Kind", "claims_of", "find_changes", "find_collisions", "print_changes"]

_PARTS = ("schema", "mappings")
_DIFFERENT: dict[str, Colour] = {"+": "green", "-": "red"}


class Kind(StrEnum):
    """What would happen to an app."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    GONE = "gone"  # stored, and not among the files


_MARKS = {Kind.NEW: "+", Kind.CHANGED: "~", Kind.SAME: "=", Kind.GONE: "-"}


@dataclass(frozen=True, slots=True)
class Change:
    """An app before and after; an empty document stands for none."""

    app: str
    kind: Kind
    before: Document
    after: Document
    effects: tuple[Effect, ...] = ()

    @property
    def breaking(self) -> int:
        """How many of the effects break clients."""
        return sum(effect.severity is Severity.BREAKING for effect in self.effects)


def find_changes(
    stored: Sequence[Document], wanted: Sequence[Document], *, json_mode: str, prune: bool
) -> list[Change]:
    """A change for each app, by id; those that are only stored are gone when `prune` is set."""
    before = {_key(one): one for one in stored}
    after = {_key(one): one for one in wanted}
    changes = [_compare(before.get(key, {}), one, json_mode) for key, one in after.items()]
    for key, one in before.items():
        if key not in after:
            deleted = Effect(Severity.BREAKING, "The app is deleted.")
            effects = (deleted,) if prune else ()
            changes.append(Change(str(one["_id"]), Kind.GONE, one, {}, effects))
    return sorted(changes, key=lambda change: change.app)


def _compare(before: Document, after: Document, json_mode: str) -> Change:
    name = str(after["_id"])
    if not before:
        return Change(name, Kind.NEW, before, after)
    if _parts_of(before) == _parts_of(after):
        return Change(name, Kind.SAME, before, after)
    effects = compare_definitions(before, after, json_mode)
    return Change(name, Kind.CHANGED, before, after, tuple(effects))


def _key(document: Document) -> bytes:
    return encode(document["_id"], JsonMode.EXTENDED)


def _parts_of(document: Document) -> dict[str, str]:
    """The parts as texts to compare: the order of keys counts in mappings, and there alone."""
    plain = to_json(document, JsonMode.STANDARD)
    rest = {key: plain[key] for key in sorted(plain) if key not in _PARTS}
    schema, mappings = plain.get("schema", ""), plain.get("mappings", {})
    return {
        "app": render_block(rest) if rest else "",
        "schema": schema if isinstance(schema, str) else render_block({"schema": schema}),
        "mappings": render_block(mappings if isinstance(mappings, dict) else {"": mappings}),
    }


def find_collisions(changes: Sequence[Change], *, prune: bool) -> Iterator[tuple[str, str]]:
    """Apps that could not be stored, each with the app that is served at its address."""
    others = [one.before for one in changes if one.before and not (prune and not one.after)]
    for change in changes:
        claims = claims_of(change.after) if change.after else set()
        for other in others:
            if str(other["_id"]) != change.app and claims & claims_of(other):
                yield change.app, str(other["_id"])


def claims_of(document: Document) -> set[str]:
    """The addresses that an app has for itself."""
    return set(find_claims(document["_id"], decode_definition(document).uri))


def print_changes(changes: Sequence[Change], *, as_json: bool) -> None:
    """Every change with what it means to clients, and the lines that differ."""
    if as_json:
        print_table([_as_row(change) for change in changes], as_json=True)
        return
    for change in changes:
        click.echo(f"{_MARKS[change.kind]} {change.app}: {_describe(change)}")
        for effect in change.effects:
            mark = effect.severity.upper() if effect.severity is Severity.BREAKING else None
            colour: Colour = "yellow" if mark is None else "red"
            click.echo(f"    {paint(mark or effect.severity, colour)}: {effect.what}")
        if change.kind is Kind.CHANGED:
            click.echo("".join(_diff(change)), nl=False)


def _describe(change: Change) -> str:
    if change.kind is Kind.GONE:
        return "to be deleted" if change.effects else "stored only (--prune deletes it)"
    return change.kind.value


def _as_row(change: Change) -> dict[str, Any]:
    effects = [{"severity": one.severity.value, "what": one.what} for one in change.effects]
    return {"app": change.app, "change": change.kind.value, "effects": effects}


def _diff(change: Change) -> Iterator[str]:
    before, after = _parts_of(change.before), _parts_of(change.after)
    for part, text in before.items():
        old, new = text.splitlines(), after[part].splitlines()
        names = f"{change.app}/{part} (stored)", f"{change.app}/{part}"
        lines = unified_diff(old, new, *names, lineterm="", n=2)
        yield from (f"    {_paint_line(line)}\n" for line in lines)


def _paint_line(line: str) -> str:
    if line.startswith(("+++", "---")) or line[:1] not in _DIFFERENT:
        return line
    return paint(line, _DIFFERENT[line[:1]])
