"""Merge the values of `mergeRequest` into writes: documents, operators, pipelines.

They override those of the caller wherever these are: at the same path, below it, or in an object
around it, whose other properties stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from docgraph.exchange import Document, Write, WriteKind
from docgraph.store.guard.write_effects import list_operations

Values = Mapping[str, Any]
Change = tuple[str, str, Any]  # operator, path, operand


def merge_into(write: Write, values: Values) -> Write:
    """Return the write with these values in every document, or in `$set`."""
    if write.kind is WriteKind.DELETE:
        return write
    if write.pipeline is not None:
        stages = ({"$set": _merge_stage(path.split("."), value)} for path, value in values.items())
        return replace(write, pipeline=(*write.pipeline, *stages))
    if write.update is not None:
        return replace(write, update=_merge_update(write.update, values))
    return replace(write, documents=tuple(_merge(one, values) for one in write.documents))


def _merge_stage(steps: Sequence[str], value: Any, around: str = "") -> Document:
    """Build the value for `$set` in a stage; non-objects on the path are replaced by objects.

    A plain path would apply to the elements of arrays, and set nothing in an empty one.
    """
    first, *rest = steps
    if not rest:
        return {first: {"$literal": value}}
    here = f"{around}.{first}" if around else f"${first}"
    is_object = {"$eq": [{"$type": here}, "object"]}
    kept = {"$cond": [is_object, here, {}]}
    return {first: {"$mergeObjects": [kept, _merge_stage(rest, value, here)]}}


def _merge(document: Document, values: Values) -> Document:
    merged = dict(document)
    for path, value in values.items():
        for key in [key for key in merged if key != path and _is_inside(key, [path])]:
            del merged[key]
        holder = merged
        *steps, last = path.split(".")
        for step in steps:
            inner = holder.get(step)
            holder[step] = holder = dict(inner) if isinstance(inner, dict) else {}
        holder[last] = value
    return merged


def _is_inside(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(f"{place}.") for place in places)


# --- operators ------------------------------------------------------------------------------------


def _merge_update(update: Document, values: Values) -> Document:
    """Return the operators with the values in `$set`, except those in an object of the caller.

    The database rejects two changes of one path, or of a path and one below it, in one update.
    """
    merged = {key: fields for key, fields in update.items() if not isinstance(fields, Mapping)}
    changes = [
        change for operation in list_operations(update) for change in _give_way(operation, values)
    ]
    held = {path for operator, path, _ in changes if operator == "$set"}
    changes += [("$set", *one) for one in values.items() if not _is_inside(one[0], held)]
    for operator, path, operand in changes:
        merged.setdefault(operator, {})[path] = operand
    return merged


def _give_way(change: Change, values: Values) -> Iterator[Change]:
    """Yield the parts of the caller's change that remain next to the values.

    Changes at the same path or below it are dropped; an object around it receives the value.
    """
    operator, path, operand = change
    if _is_inside(path, values):
        return
    below = {
        place.removeprefix(f"{path}."): value
        for place, value in values.items()
        if place.startswith(f"{path}.")
    }
    match operator:
        case "$rename" if not below and _is_inside(str(operand), values):
            yield "$unset", path, ""  # it would be moved to the path of a value
        case _ if not below:
            yield change
        case "$set":
            yield "$set", path, _merge(operand if isinstance(operand, dict) else {}, below)
        case "$unset":
            yield "$set", path, _merge({}, below)
        case "$setOnInsert" if isinstance(operand, dict):
            # Only its parts: the stored object keeps its other properties.
            for key, one in operand.items():
                yield from _give_way((operator, f"{path}.{key}", one), values)
