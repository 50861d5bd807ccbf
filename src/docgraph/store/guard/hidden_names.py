"""Hidden properties: find their names in a pipeline or a schema.

A pipeline that only names a hidden property does not show it. But whether it works, and its result,
answer questions about the property. For indexes see `indexing`.
"""

from __future__ import annotations

from typing import Any

from docgraph.store.guard.shield import Paths
from docgraph.store.guard.steps import walk


def find_named(value: Any, hidden: Paths) -> str | None:
    """Return the hidden path that a pipeline names, in an expression, a key or a string.

    The path can be below another one (`$$ROOT.password`, `fullDocument.password`).
    """
    found = (_find_inside(one, hidden) for one in walk(value, keys=True) if isinstance(one, str))
    return next(filter(None, found), None)


def find_property(schema: Any, hidden: Paths) -> str | None:
    """Return the hidden path that a JSON schema names: it nests properties by their own names."""
    last = {path[-1]: ".".join(path) for path in hidden}
    texts = (one for one in walk(schema, keys=True) if isinstance(one, str))
    return next((last[text] for text in texts if text in last), None)


def _find_inside(text: str, hidden: Paths) -> str | None:
    steps = tuple(step for step in text.lstrip("$").split(".") if not step.isdigit())
    for path in hidden:
        length = len(path)
        if any(steps[at : at + length] == path for at in range(len(steps) - length + 1)):
            return ".".join(path)
    return None
