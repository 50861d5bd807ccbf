"""A definition before and after: what its clients notice, and the lines that differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from typing import Any

from docgraph.codec import JsonMode, to_json
from docgraph.config.render import render_block
from docgraph.exchange import Document
from docgraph.graphql.definition.compare import Effect, Severity, compare_definitions

__all__ = ["Change", "Kind", "find_change"]

_PARTS = ("schema", "mappings")


class Kind(StrEnum):
    """What would happen to an app."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    GONE = "gone"  # stored, and not wanted any more


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

    def as_dict(self) -> dict[str, Any]:
        """The change and its effects, ready for JSON."""
        effects = [{"severity": one.severity.value, "what": one.what} for one in self.effects]
        return {"app": self.app, "change": self.kind.value, "effects": effects}

    def diff(self) -> Iterator[str]:
        """The lines that differ, part by part, with two lines around them."""
        before, after = _parts_of(self.before), _parts_of(self.after)
        for part, text in before.items():
            old, new = text.splitlines(), after[part].splitlines()
            names = f"{self.app}/{part} (stored)", f"{self.app}/{part}"
            yield from unified_diff(old, new, *names, lineterm="", n=2)


def find_change(before: Document, after: Document, json_mode: str) -> Change:
    """What storing `after` would change; `json_mode` is that of definitions that name none."""
    name = str(after["_id"])
    if not before:
        return Change(name, Kind.NEW, before, after)
    if _parts_of(before) == _parts_of(after):
        return Change(name, Kind.SAME, before, after)
    effects = compare_definitions(before, after, json_mode)
    return Change(name, Kind.CHANGED, before, after, tuple(effects))


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
