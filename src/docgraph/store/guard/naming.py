"""Whether a pipeline or a schema names a property that is hidden.

What only names a hidden property does not show it, but whether it works, and what becomes of it,
answers questions. For indexes see `indexing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from docgraph.store.guard.rows import Paths

__all__ = ["find_named", "find_property"]


def find_named(value: Any, hidden: Paths) -> str | None:
    """The hidden path that a pipeline names, in an expression, a key or a text that may be a name.

    Also below something else (`$$ROOT.password`, `fullDocument.password`).
    """
    return next((found for text in _texts(value) if (found := _find_inside(text, hidden))), None)


def find_property(schema: Any, hidden: Paths) -> str | None:
    """The hidden path whose property a JSON schema names: it nests them, each by its own name."""
    last = {path[-1]: ".".join(path) for path in hidden}
    return next((last[text] for text in _texts(schema) if text in last), None)


def _texts(value: Any) -> Iterable[str]:
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            pending += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            pending += one


def _find_inside(text: str, hidden: Paths) -> str | None:
    steps = tuple(step for step in text.lstrip("$").split(".") if not step.isdigit())
    for path in hidden:
        length = len(path)
        if any(steps[at : at + length] == path for at in range(len(steps) - length + 1)):
            return ".".join(path)
    return None
