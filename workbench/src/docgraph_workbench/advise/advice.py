"""Advice: a finding with its path in a definition, its weight, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from docgraph import DocgraphError
from docgraph.tools.data import JsonMode, to_json


class Weight(StrEnum):
    """How serious a finding is; notes are optional."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Advice:
    """One finding; `app` is empty if it concerns a collection. `extra` is for JSON."""

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
        """Whether the finding is more than a note."""
        return self.weight is not Weight.NOTE

    def as_dict(self) -> dict[str, Any]:
        """Return the finding, ready for JSON."""
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
    """An index to create; `serves` are the paths in definitions that use it."""

    db: str
    collection: str
    keys: tuple[tuple[str, int | str], ...]
    serves: tuple[str, ...]
    command: str
    replaces: tuple[str, ...] = ()  # indexes that it makes superfluous

    def as_dict(self) -> dict[str, Any]:
        """Return the index, ready for JSON."""
        return {
            "db": self.db,
            "collection": self.collection,
            "keys": dict(self.keys),
            "createIndex": self.command,
            "serves": list(self.serves),
            "replaces": list(self.replaces),
        }


@dataclass(slots=True)
class AdviceReport:
    """All findings, and the few indexes that serve the queries without one."""

    apps: Sequence[str] = ()
    collections: int = 0
    advice: list[Advice] = field(default_factory=list)
    indexes: list[NewIndex] = field(default_factory=list)

    @property
    def is_serious(self) -> bool:
        """Whether anything is more than a note."""
        return any(finding.is_serious for finding in self.advice)

    def find(self, app: str) -> list[Advice]:
        """Return the findings on an app, or on collections as a whole."""
        return [finding for finding in order_advice(self.advice) if finding.app in ("", app)]

    def as_dict(self) -> dict[str, Any]:
        """Return the report, ready for JSON."""
        return {
            "apps": list(self.apps),
            "collections": self.collections,
            "findings": [finding.as_dict() for finding in order_advice(self.advice)],
            "indexes": [index.as_dict() for index in self.indexes],
        }


def order_advice(advice: Sequence[Advice]) -> list[Advice]:
    """Return the worst first, with the findings of each app together."""
    weights = list(Weight)
    return sorted(
        advice, key=lambda finding: (weights.index(finding.weight), finding.app, finding.where)
    )


def advise_broken(app: str, error: DocgraphError) -> Advice:
    """Report an app that is invalid and therefore cannot be inspected."""
    what = f"it cannot work, and was not looked at: {error.message.splitlines()[0]}"
    return Advice(
        Weight.ERROR, "invalid-definition", what, app, hint="`docgraph apps check` says more"
    )
