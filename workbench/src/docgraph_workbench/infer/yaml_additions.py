"""Additions to a YAML text that a user wrote: existing lines and comments stay.

The result is parsed again and compared. A file to which nothing can be added in this way is left
unchanged, with a clear message.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from docgraph import StartupError
from docgraph.tools.data import JsonMode, to_json
from docgraph.tools.installation import ConfigNode, read_yaml, render_block, to_plain

Entries = Mapping[str, Mapping[str, Any]]
_INDENT: Final = 2


def add_entries(text: str, entries: Entries, file: Path) -> str:
    """Return the text with entries added below its top-level keys; new keys come last."""
    if not entries:
        return text
    plain: dict[str, Any] = {
        key: to_json(dict(value), JsonMode.STANDARD) for key, value in entries.items()
    }
    if file.suffix == ".json":
        merged = merge_entries(orjson.loads(text), plain)
        return orjson.dumps(merged, option=orjson.OPT_INDENT_2).decode() + "\n"
    existing = read_yaml(text, file.name)
    if existing is None:
        raise StartupError(f"{file} is not valid YAML", hint="`docgraph apps check` says where")
    merged = merge_entries(to_plain(existing) or {}, plain)
    added = _add_lines(text, existing, plain)
    after = read_yaml(added, file.name)
    if after is None or to_plain(after) != merged:
        raise StartupError(
            f"{file} is written in a way that nothing can be added to",
            hint="write it with one key in each line; nothing was changed",
        )
    return added


def merge_entries(existing: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mappings with the entries added below their keys."""
    merged = dict(existing)
    for key, value in added.items():
        merged[key] = {**(merged.get(key) or {}), **value}
    return merged


def _add_lines(text: str, existing: ConfigNode, added: Mapping[str, Any]) -> str:
    lines = text.splitlines()
    keys = existing.value if isinstance(existing.value, Mapping) else {}
    starts = {key: node.place.line - 1 for key, node in keys.items()}
    for key in sorted(starts, key=lambda key: -starts[key]):  # bottom up: positions stay valid
        if key in added:
            end = _find_end(lines, starts[key], starts.values())
            _extend(lines, starts[key], end, key, keys[key], added[key])
    new = {key: value for key, value in added.items() if key not in starts}
    tail = render_block(new).splitlines() if new else []
    return "\n".join([*lines, *tail]) + "\n"


def _find_end(lines: list[str], start: int, starts: Any) -> int:
    """Return where the entry that begins at `start` ends: before what belongs to the next one."""
    end = min((other for other in starts if other > start), default=len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return end


def _extend(
    lines: list[str], start: int, end: int, key: str, node: ConfigNode, added: Mapping[str, Any]
) -> None:
    children = node.value if isinstance(node.value, Mapping) else {}
    columns = {child.place.column for child in children.values()}
    is_block = bool(children) and all(child.place.line - 1 > start for child in children.values())
    if is_block and len(columns) == 1:
        margin = " " * (columns.pop() - 1)
        lines[end:end] = [f"{margin}{line}" for line in render_block(added).splitlines()]
        return
    plain = to_plain(node) or {}
    lines[start:end] = render_block({key: {**plain, **added}}).splitlines()
