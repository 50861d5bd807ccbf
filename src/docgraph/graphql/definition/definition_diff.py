"""Definition diff: the effects on clients, and the lines that differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from typing import Any

from docgraph.codec import JsonMode, to_json
from docgraph.config.render import render_block
from docgraph.exchange import Document
from docgraph.graphql.definition.breaking_changes import Effect, Severity, compare_definitions

_PARTS = ("schema", "mappings")
_AROUND = 2  # context lines around a difference
_MAX_LINES = 3_000
_RANGE = re.compile("([-+])([0-9]+)")


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
        """The number of effects that break clients."""
        return sum(effect.severity is Severity.BREAKING for effect in self.effects)

    def as_dict(self) -> dict[str, Any]:
        """Return the change and its effects, ready for JSON."""
        effects = [{"severity": one.severity.value, "what": one.what} for one in self.effects]
        return {"app": self.app, "change": self.kind.value, "effects": effects}

    def diff(self) -> Iterator[str]:
        """Yield the lines that differ, part by part, with some context lines."""
        before, after = _parts_of(self.before), _parts_of(self.after)
        for part, text in before.items():
            former, latter = (f"{self.app}/{part}{label}" for label in self.labels)
            yield from _diff(text.splitlines(), after[part].splitlines(), (former, latter))

    def find_parts(self) -> list[str]:
        """Return the names of the parts that differ."""
        before, after = _parts_of(self.before), _parts_of(self.after)
        return [part for part, text in before.items() if text != after[part]]


def _diff(old: list[str], new: list[str], names: tuple[str, str]) -> Iterator[str]:
    """Yield a diff of the lines between the first and the last difference: diffing takes long."""
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
    for line in unified_diff(
        old[first : ends[0]], new[first : ends[1]], *names, lineterm="", n=_AROUND
    ):
        yield _RANGE.sub(lambda one: _shift(one, first), line) if line[:2] == "@@" else line


def _shift(range_: re.Match[str], lines: int) -> str:
    """Return a range of lines, counted in the whole text."""
    return f"{range_[1]}{int(range_[2]) + lines}"


def find_change(
    before: Document, after: Document, json_mode: str, labels: tuple[str, str] = (" (stored)", "")
) -> Change:
    """Return what storing `after` would change; `json_mode` is the default mode.

    `labels` follow the names of the two in their diff.
    """
    name = str(after["_id"])
    if not before:
        return Change(name, ChangeKind.NEW, before, after)
    if is_same(before, after):
        return Change(name, ChangeKind.SAME, before, after)
    effects = compare_definitions(before, after, json_mode)
    return Change(name, ChangeKind.CHANGED, before, after, tuple(effects), labels)


def is_same(before: Document, after: Document) -> bool:
    """Return whether two definitions are equal."""
    return _parts_of(before) == _parts_of(after)


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
