"""What is advised: a finding with its place in a definition, how bad it is, and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from docgraph.codec import JsonMode, to_json
from docgraph.exchange import DocgraphError

__all__ = ["Advice", "NewIndex", "Report", "Weight", "note_broken", "order_advice"]


class Weight(StrEnum):
    """How bad it is; notes are for those who have the time."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Advice:
    """One finding; `app` is empty where it is about a collection. `extra` is for JSON."""

    weight: Weight
    kind: str
    what: str
    app: str = ""
    where: str = ""
    hint: str = ""
    collection: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_serious(self) -> bool:
        """Whether somebody should do something about it."""
        return self.weight is not Weight.NOTE

    def as_dict(self) -> dict[str, Any]:
        """The finding, ready for JSON."""
        return {
            "severity": self.weight.value,
            "kind": self.kind,
            "app": self.app or None,
            "where": self.where or None,
            "collection": self.collection or None,
            "what": self.what,
            "hint": self.hint or None,
            **to_json(self.extra, JsonMode.STANDARD),
        }


@dataclass(frozen=True, slots=True)
class NewIndex:
    """An index that is advised; `serves` are the places in definitions that it is for."""

    db: str
    collection: str
    keys: tuple[tuple[str, int | str], ...]
    serves: tuple[str, ...]
    command: str
    replaces: tuple[str, ...] = ()  # indexes that nobody needs when it is there

    def as_dict(self) -> dict[str, Any]:
        """The index, ready for JSON."""
        return {
            "db": self.db,
            "collection": self.collection,
            "keys": dict(self.keys),
            "createIndex": self.command,
            "serves": list(self.serves),
            "replaces": list(self.replaces),
        }


@dataclass(slots=True)
class Report:
    """All that was found, and the few indexes that would serve what no index serves."""

    apps: Sequence[str] = ()
    collections: int = 0
    advice: list[Advice] = field(default_factory=list)
    indexes: list[NewIndex] = field(default_factory=list)

    @property
    def is_serious(self) -> bool:
        """Whether anything is more than a note."""
        return any(one.is_serious for one in self.advice)

    def find(self, app: str) -> list[Advice]:
        """What is about an app, or about collections as a whole."""
        return [one for one in order_advice(self.advice) if one.app in ("", app)]

    def as_dict(self) -> dict[str, Any]:
        """The report, ready for JSON."""
        return {
            "apps": list(self.apps),
            "collections": self.collections,
            "findings": [one.as_dict() for one in order_advice(self.advice)],
            "indexes": [one.as_dict() for one in self.indexes],
        }


def order_advice(advice: Sequence[Advice]) -> list[Advice]:
    """The worst first; of each app its findings together."""
    weights = list(Weight)
    return sorted(advice, key=lambda one: (weights.index(one.weight), one.app, one.where))


def note_broken(app: str, error: DocgraphError) -> Advice:
    """An app that cannot work, and so cannot be looked at."""
    what = f"it cannot work, and was not looked at: {error.message.splitlines()[0]}"
    return Advice(
        Weight.ERROR, "invalid-definition", what, app, hint="`docgraph apps check` says more"
    )
