"""Origins: which stored properties the values in a pipeline come from, after stages renamed them.

The shape of a value has the origins of its parts: `{"": {("db.people", "")}}` is a document of a
collection, `{"doc.boss": {("db.people", "")}}` has one in it. A list has the shape of its items.
What a stage overwrote may still be in a shape: that names too much, never too little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

StoredPath = tuple[str, str]  # a namespace and a path
Shape = Mapping[str, frozenset[StoredPath]]

WHOLE: Final = ""  # the path of a document itself
SOMEWHERE: Final = "*"  # the path of a value whose origin in a document is not known
NO_ORIGIN: Final[Shape] = {}
StageVariables = Mapping[str, Shape]  # of expressions, the current document among them
NO_VARIABLES: Final[StageVariables] = {}

_MAX_PARTS: Final = 64  # of a shape; each `$set` of `$$ROOT` doubles their number


def set_document(document: Shape, variables: StageVariables = NO_VARIABLES) -> StageVariables:
    """Return the variables with this document as the current one."""
    return {**variables, "ROOT": document, "CURRENT": document}


def find_value(text: str, variables: StageVariables) -> Shape:
    """Return the shape of `$path` or `$$variable.path`."""
    name, _, path = text[2:].partition(".") if text[:2] == "$$" else ("CURRENT", "", text[1:])
    return enter_path(variables.get(name, NO_ORIGIN), path) if text[:1] == "$" else NO_ORIGIN


def shape_documents(*namespaces: str) -> Shape:
    """Return the shape of documents of these namespaces."""
    return {"": frozenset((namespace, WHOLE) for namespace in namespaces)}


def enter_path(shape: Shape, path: str) -> Shape:
    """Return the shape of a part of a value."""
    steps = [step for step in path.split(".") if step and not step.isdigit()]
    if not steps:
        return shape
    origins = {
        (namespace, _extend(prefix, steps[length:]))
        for length in range(len(steps) + 1)
        for namespace, prefix in shape.get(".".join(steps[:length]), ())
    }
    below = f"{'.'.join(steps)}."
    parts = {name.removeprefix(below): one for name, one in shape.items() if name.startswith(below)}
    return {"": frozenset(origins), **parts} if origins or parts else NO_ORIGIN


def _extend(path: str, steps: list[str]) -> str:
    return SOMEWHERE if path == SOMEWHERE else ".".join([path, *steps] if path else steps)


def put_part(shape: Shape, path: str, value: Shape) -> Shape:
    """Return the shape after an assignment."""
    steps = ".".join(step for step in path.split(".") if not step.isdigit())
    kept = {name: one for name, one in shape.items() if not f"{name}.".startswith(f"{steps}.")}
    return merge_shapes(kept, {f"{steps}.{name}".rstrip("."): one for name, one in value.items()})


def merge_shapes(*shapes: Shape) -> Shape:
    """Return the shape of a value that may be any of these."""
    merged: dict[str, frozenset[StoredPath]] = {}
    for shape in shapes:
        for name, origins in shape.items():
            merged[name] = merged.get(name, frozenset()) | origins
    return merged if len(merged) <= _MAX_PARTS else flatten_shape(merged)


def flatten_shape(*shapes: Shape) -> Shape:
    """Return the shape of a value that depends on all of these, somehow."""
    origins = {origin for shape in shapes for part in shape.values() for origin in part}
    named = frozenset((namespace, path or SOMEWHERE) for namespace, path in origins)
    return {"": named} if named else NO_ORIGIN
