"""YAML rendering of values, in one line or in several."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.config.parse import resolve_scalar

# Texts that need no quotes anywhere, in lists and mappings too.
_PLAIN: Final = re.compile(r"[\w/.$][\w/.$-]*", re.ASCII)
# Texts for docgraph, but other types for the many tools that still use YAML 1.1.
_OLD: Final = re.compile(r"y|n|yes|no|on|off|[0-9][0-9_]*", re.IGNORECASE)

_WIDTH: Final = 96


def render_block(value: Mapping[str, Any], width: int = _WIDTH) -> str:
    """Render a mapping that parses to the same value; values that fit are on one line."""
    return "".join(f"{line}\n" for line in _render_lines(value, width))


def _render_lines(value: Any, width: int) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _render_entry(f"{_render_text(str(key))}:", item, width)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            lines = _render_entry("", item, width)
            yield from (f"{'  ' if number else '- '}{line}" for number, line in enumerate(lines))
    else:
        yield render_value(value)


def _render_entry(key: str, value: Any, width: int) -> Iterator[str]:
    line = f"{key} {render_value(value)}".lstrip()
    if len(line) <= width or not isinstance(value, Mapping | list | tuple):
        yield line
        return
    if key:
        yield key
    yield from (f"  {line}" if key else line for line in _render_lines(value, width))


def render_value(value: Any) -> str:
    """Render a value that parses to the same value."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_render_text(str(k))}: {render_value(v)}" for k, v in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(render_value(item) for item in value)}]"
    if isinstance(value, str):
        return _render_text(value)
    if isinstance(value, float):
        return _render_float(value)
    return json.dumps(value)


def _render_text(text: str) -> str:
    if _PLAIN.fullmatch(text) and resolve_scalar(text) == text and not _OLD.fullmatch(text):
        return text
    return f'"{"".join(_escape(character) for character in text)}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    # Not the surrogate pairs of JSON, which YAML rejects.
    return f"\\U{ord(character):08x}"


def _render_float(value: float) -> str:
    special = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}
    return special.get(repr(value), repr(value))
