"""Values as YAML in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from docgraph.config.scalars import resolve_scalar

__all__ = ["render_value"]

# Texts that stand for themselves everywhere, in lists and mappings too.
_PLAIN: Final = re.compile(r"[\w/.$][\w/.$-]*", re.ASCII)


def render_value(value: Any) -> str:
    """A value that reads back as itself."""
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
    if _PLAIN.fullmatch(text) and resolve_scalar(text) == text:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _render_float(value: float) -> str:
    special = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}
    return special.get(repr(value), repr(value))
