"""Definitions on disk compared with stored ones: what applying them would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from docgraph.cli.terminal import Colour, paint, print_table
from docgraph.codec import JsonMode, encode
from docgraph.exchange import Document
from docgraph.graphql.apps.stored_definitions import find_claims
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.definition.definition_diff import (
    Change,
    ChangeKind,
    Effect,
    Severity,
    find_change,
)

__all__ = [
    "Change",
    "ChangeKind",
    "claims_of",
    "find_changes",
    "find_collisions",
    "print_changes",
    "record_deletion",
]

_DIFFERENT: dict[str, Colour] = {"+": "green", "-": "red"}
_MARKS = {ChangeKind.NEW: "+", ChangeKind.CHANGED: "~", ChangeKind.SAME: "=", ChangeKind.GONE: "-"}


def find_changes(
    stored: Sequence[Document], wanted: Sequence[Document], *, json_mode: str, prune: bool
) -> list[Change]:
    """Return a change for each app, by id; with `prune`, those only stored are removed."""
    before = {_key(one): one for one in stored}
    after = {_key(one): one for one in wanted}
    changes = [find_change(before.get(key, {}), one, json_mode) for key, one in after.items()]
    for key, one in before.items():
        if key not in after:
            changes.append(record_deletion(one, is_wanted=prune))
    return sorted(changes, key=lambda change: change.app)


def record_deletion(stored: Document, *, is_wanted: bool = True) -> Change:
    """Return the change of a deleted app; unless `is_wanted`, nothing happens."""
    deleted = Effect(Severity.BREAKING, "The app is deleted.")
    effects = (deleted,) if is_wanted else ()
    return Change(str(stored["_id"]), ChangeKind.GONE, stored, {}, effects)


def _key(document: Document) -> bytes:
    return encode(document["_id"], JsonMode.EXTENDED)


def find_collisions(changes: Sequence[Change], *, prune: bool) -> Iterator[tuple[str, str]]:
    """Yield apps that could not be stored, each with the app that already has its URI."""
    holders: dict[str, list[str]] = {}
    for change in changes:
        if change.before and not (prune and not change.after):
            for claim in claims_of(change.before):
                holders.setdefault(claim, []).append(str(change.before["_id"]))
    for change in changes:
        claims = claims_of(change.after) if change.after else set()
        others = {other for claim in claims for other in holders.get(claim, ())}
        for other in sorted(others - {change.app}):
            yield change.app, other


def claims_of(document: Document) -> set[str]:
    """Return the URIs that an app claims."""
    return set(find_claims(document["_id"], decode_definition(document).uri))


def print_changes(changes: Sequence[Change], *, as_json: bool) -> None:
    """Print every change with its effects on clients, and the lines that differ."""
    if as_json:
        print_table([change.as_dict() for change in changes], as_json=True)
        return
    for change in changes:
        click.echo(f"{_MARKS[change.kind]} {change.app}: {_describe(change)}")
        for effect in change.effects:
            mark = effect.severity.upper() if effect.severity is Severity.BREAKING else None
            colour: Colour = "yellow" if mark is None else "red"
            click.echo(f"    {paint(mark or effect.severity, colour)}: {effect.what}")
        if change.kind is ChangeKind.CHANGED:
            click.echo("".join(f"    {_paint_line(line)}\n" for line in change.diff()), nl=False)


def _describe(change: Change) -> str:
    if change.kind is ChangeKind.GONE:
        return "to be deleted" if change.effects else "stored only (--prune deletes it)"
    return change.kind.value


def _paint_line(line: str) -> str:
    if line.startswith(("+++", "---")) or line[:1] not in _DIFFERENT:
        return line
    return paint(line, _DIFFERENT[line[:1]])
