"""What the versions of an app have changed, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docgraph.graphql.apps.history import Version
from docgraph.graphql.definition.definition_diff import find_change


def describe_versions(versions: Sequence[Version], json_mode: str) -> list[dict[str, Any]]:
    """Return each version, and what has changed since the previous one, if that is stored."""
    befores = (None, *versions[:-1])
    pairs = zip(befores, versions, strict=False)
    return [_describe(before, version, json_mode) for before, version in pairs]


def _describe(before: Version | None, version: Version, json_mode: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "version": version.number,
        "at": version.at.isoformat(timespec="seconds").removesuffix("+00:00") + "Z",
        "by": version.by,
        "change": version.change,
        "parts": [],
        "breaking": int(version.is_deletion),
    }
    former = None if before is None else before.definition
    latter = version.definition
    if former is not None and latter is not None:
        change = find_change(former, latter, json_mode)
        row |= {"parts": change.find_parts(), "breaking": change.breaking}
    return row
