"""PATCH bodies: build the update, and apply the same update in memory.

Operators are used unchanged, all other keys are put into `$set`. An update is applied in memory
only if the whole document is checked before it is written (app definitions, metadata, collections
with a schema). Updates whose result cannot be predicted there are rejected.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import islice, pairwise
from typing import Any

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange.data import Document
from docgraph.exchange.errors import BodyTooLarge, RequestError
from docgraph.rest.writes.etags import ETAG
from docgraph.rest.writes.flatten import (
    CURRENT_DATE,
    Expansion,
    find_index,
    resolve_date,
    set_path,
    split_path,
)
from docgraph.rest.writes.update_operators import OPERATORS
from docgraph.store.guard.write_effects import read_update

# The database goes through the keys of a document, or the elements of an array, once for each of
# them, and cannot be interrupted.
_MAX_PATHS = 500
_REMOVING = frozenset({"$unset", "$pop", "$pull", "$pullAll"})  # they create nothing


def build_update(body: Mapping[str, Any], etag: ObjectId) -> Document:
    """Return the operators of a body; they also renew the etag."""
    update = {key: value for key, value in body.items() if key[:1] == "$"}
    given = update.get("$set", {})
    if not isinstance(given, dict):
        raise RequestError("wrong $set operator, it is not an object")
    plain = {key: value for key, value in body.items() if key[:1] != "$"}
    update["$set"] = {**given, **plain, ETAG: etag}
    _check_conflicts(update)
    return update


def build_pipeline(stages: list[Document], etag: ObjectId) -> tuple[Document, ...]:
    """Return the stages of a body, and a last stage that renews the etag."""
    return (*stages, {"$set": {ETAG: etag}})


def apply_update(document: Document, update: Mapping[str, Any]) -> Document:
    """Return the document after the update."""
    patched, expansion = copy.deepcopy(document), Expansion()
    for operator, fields in update.items():
        apply = _APPLIED.get(operator)
        if apply is None:
            raise RequestError(
                f"{operator} cannot be used here, since the whole document is checked before it is "
                "written",
                hint="use $set, $unset or plain keys, or PUT the whole document",
            )
        if not isinstance(fields, Mapping):
            raise RequestError(f"wrong {operator} operator, it is not an object")
        for path, operand in fields.items():
            written = operand if operator == "$rename" else path
            if isinstance(written, str) and "." in written and operator not in _REMOVING:
                expansion.reserve(patched, split_path(written))
            apply(patched, path, operand)
    return patched


def _set(document: Document, path: str, value: Any) -> None:
    set_path(document, split_path(path), value)


def _set_date(document: Document, path: str, kind: Any) -> None:
    set_path(document, split_path(path), resolve_date(kind))


def _unset(document: Document, path: str, _: Any) -> None:
    *way, last = split_path(path)
    container: Any = document
    for name in way:
        container = _step(container, name)
    if isinstance(container, dict):
        container.pop(last, None)
    elif isinstance(container, list) and _step(container, last) is not None:
        container[int(last)] = None  # as the database does: the others keep their positions


def _step(container: Any, name: str) -> Any:
    if isinstance(container, dict):
        return container.get(name)
    index = find_index(name)
    if isinstance(container, list) and index is not None and index < len(container):
        return container[index]
    return None


_APPLIED = {**OPERATORS, "$set": _set, "$unset": _unset, CURRENT_DATE: _set_date}


def _check_conflicts(update: Mapping[str, Any]) -> None:
    """Reject two changes of one path, or of a path and one below it."""
    paths_written = (one.path for one in read_update(update) if one.path is not None)
    found = list(islice(paths_written, _MAX_PATHS + 1))
    if len(found) + _count_compared(update) > _MAX_PATHS:
        raise BodyTooLarge(
            f"the update changes more than {_MAX_PATHS} paths; each value of $addToSet and "
            "$pullAll counts as one",
            hint="PUT the whole document, use $pull with $in, or split the request",
        )
    paths = sorted(path.split(".") for path in found)
    for shorter, longer in pairwise(paths):
        if longer[: len(shorter)] == shorter:
            raise RequestError(
                f"the update changes '{'.'.join(shorter)}' and '{'.'.join(longer)}' "
                "at the same time"
            )


def _count_compared(update: Mapping[str, Any]) -> int:
    """The values that are compared with each element of an array, one by one."""
    added, removed = (update.get(operator) for operator in ("$addToSet", "$pullAll"))
    lists = list(removed.values()) if isinstance(removed, Mapping) else []
    for one in added.values() if isinstance(added, Mapping) else ():
        lists.append(one.get("$each") if isinstance(one, Mapping) else None)
    return sum(len(one) for one in lists if isinstance(one, list))
