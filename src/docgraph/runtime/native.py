"""The native extension `docgraph_native`, if it is installed: from BSON to JSON without objects."""

from __future__ import annotations

import os
from typing import Any, Final


def _load() -> Any:
    if os.environ.get("DOCGRAPH_NATIVE", "").lower() == "off":
        return None
    try:
        import docgraph_native  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError:
        return None
    return docgraph_native


native: Final = _load()
Misfit: type[Exception] = ValueError if native is None else native.Misfit
Program = Any


def build_program(fields: list[Any], mode: str) -> Program | None:
    """Build an output program; None if the extension is missing or cannot render such fields."""
    if native is None:
        return None
    try:
        return native.Program(fields, str(mode))
    except ValueError:
        return None
