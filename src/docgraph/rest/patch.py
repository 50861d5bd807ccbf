"""PATCH bodies: build the update, and apply the same update in memory.

Operators are used unchanged, all other keys are put into `$set`. An update is applied in memory
only if the whole document is checked before it is written (app definitions, metadata, collections
with a schema). Updates whose result cannot be predicted there are rejected.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import islice, pairwise
from typing import Any, Final

from docgraph.codec.bson_types import Decimal128, Int64, ObjectId
from docgraph.codec.equality import equality_key
from docgraph.exchange.data import Document
from docgraph.exchange.errors import BodyTooLarge, RequestError
from docgraph.rest.etags import ETAG
from docgraph.rest.flatten import (
    CURRENT_DATE,
    Expansion,
    find_index,
    resolve_date,
    set_path,
    split_path,
)
from docgraph.store.guard.write_effects import read_update

_INT32, _INT64 = 1 << 31, 1 << 63
_EACH: Final = frozenset({"$each", "$position", "$slice"})


def _find(document: Document, path: str) -> tuple[Any, str, bool]:
    """Return the container of the value, its key, and whether the value exists."""
    *way, last = split_path(path)
    container: Any = document
    for name in way:
        container = _step(container, name)
    return container, last, _has(container, last)


def _step(container: Any, name: str) -> Any:
    if not _has(container, name):
        return None
    return container[int(name)] if isinstance(container, list) else container[name]


def _has(container: Any, name: str) -> bool:
    if isinstance(container, dict):
        return name in container
    index = find_index(name)
    return isinstance(container, list) and index is not None and index < len(container)


def _get(document: Document, path: str, default: Any = None) -> Any:
    container, last, is_there = _find(document, path)
    return _step(container, last) if is_there else default


def _put(document: Document, path: str, value: Any) -> None:
    set_path(document, split_path(path), value)


def _calculate(operator: str, work: Callable[[Any, Any], Any]) -> Callable[..., None]:
    def apply(document: Document, path: str, operand: Any) -> None:
        current = _get(document, path, 0)
        for value in (operand, current):
            if isinstance(value, bool) or not isinstance(value, int | float | Decimal128):
                raise RequestError(f"{operator} of '{path}' needs numbers")
        _put(document, path, _combine(work, current, operand))

    return apply


def _combine(work: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if isinstance(left, Decimal128) or isinstance(right, Decimal128):
        try:
            return Decimal128(work(*(_to_decimal(number) for number in (left, right))))
        except ArithmeticError:
            raise RequestError("the result of an update is no decimal of 34 digits") from None
    result = work(left, right)
    if isinstance(result, float):
        return result
    if isinstance(left, Int64) or isinstance(right, Int64) or not -_INT32 <= result < _INT32:
        if not -_INT64 <= result < _INT64:
            raise RequestError("the result of an update is out of the range of an integer")
        return Int64(result)
    return int(result)


def _to_decimal(value: Any) -> Any:
    return (
        value.to_decimal() if isinstance(value, Decimal128) else Decimal128(str(value)).to_decimal()
    )


def _keep(operator: str, is_better: Callable[[Any, Any], bool]) -> Callable[..., None]:
    def apply(document: Document, path: str, operand: Any) -> None:
        _, _, is_there = _find(document, path)
        if not is_there:
            _put(document, path, operand)
            return
        current = _get(document, path)
        if not _is_comparable(current, operand):
            raise RequestError(f"{operator} of '{path}' cannot compare what is stored with it")
        if is_better(operand, current):
            _put(document, path, operand)

    return apply


def _is_comparable(left: Any, right: Any) -> bool:
    for kinds in ((int, float), (str,), (datetime,)):
        if isinstance(left, kinds) and isinstance(right, kinds):
            return not isinstance(left, bool) and not isinstance(right, bool)
    return False


def _list_at(document: Document, path: str, operator: str) -> list[Any]:
    """Return a copy of the array at the path; a new one if there is none."""
    current = _get(document, path, [])
    if not isinstance(current, list):
        raise RequestError(f"{operator} of '{path}' needs an array")
    return list(current)


def _items(operand: Any, operator: str, allowed: frozenset[str]) -> tuple[list[Any], Document]:
    """Return the elements of an operand, which may be in `$each` along with modifiers."""
    if not isinstance(operand, Mapping) or "$each" not in operand:
        return [operand], {}
    items = operand["$each"]
    if not isinstance(items, list) or not operand.keys() <= allowed:
        raise RequestError(f"{operator} takes {', '.join(sorted(allowed))} here")
    return items, {key: value for key, value in operand.items() if key != "$each"}


def _push(document: Document, path: str, operand: Any) -> None:
    array = _list_at(document, path, "$push")
    items, modifiers = _items(operand, "$push", _EACH)
    for value in modifiers.values():
        if isinstance(value, bool) or not isinstance(value, int):
            raise RequestError("$position and $slice of $push take whole numbers")
    position = modifiers.get("$position", len(array))
    array[position:position] = items
    size = modifiers.get("$slice")
    if size is not None:
        array = array[:size] if size >= 0 else array[size:]
    _put(document, path, array)


def _add_to_set(document: Document, path: str, operand: Any) -> None:
    array = _list_at(document, path, "$addToSet")
    items, _ = _items(operand, "$addToSet", frozenset({"$each"}))
    keys = set(map(equality_key, array))  # comparing each with each would take quadratic time
    for item in items:
        key = equality_key(item)
        if key not in keys:
            keys.add(key)
            array.append(item)
    _put(document, path, array)


def _pop(document: Document, path: str, operand: Any) -> None:
    if isinstance(operand, bool) or operand not in (1, -1):
        raise RequestError("$pop takes 1 or -1")
    if _find(document, path)[2]:
        array = _list_at(document, path, "$pop")
        _put(document, path, array[:-1] if operand == 1 else array[1:])


def _pull(document: Document, path: str, operand: Any) -> None:
    if isinstance(operand, Mapping):
        raise RequestError(
            "$pull with a condition cannot be used here, since the whole document is checked "
            "before it is written",
            hint="$pull a plain value, or use $pullAll",
        )
    _remove(document, path, [operand], "$pull")


def _pull_all(document: Document, path: str, operand: Any) -> None:
    if not isinstance(operand, list):
        raise RequestError("$pullAll takes an array")
    _remove(document, path, operand, "$pullAll")


def _remove(document: Document, path: str, values: list[Any], operator: str) -> None:
    if not _find(document, path)[2]:
        return
    array = _list_at(document, path, operator)
    keys = set(map(equality_key, values))
    _put(document, path, [element for element in array if equality_key(element) not in keys])


def _rename(document: Document, path: str, operand: Any) -> None:
    if not isinstance(operand, str):
        raise RequestError("$rename takes the new name of a field")
    container, last, is_there = _find(document, path)
    if not is_there:
        return
    if not isinstance(container, dict):
        raise RequestError(f"$rename cannot move '{path}' out of an array")
    _put(document, operand, container.pop(last))


def _unset(document: Document, path: str, _: Any) -> None:
    container, last, is_there = _find(document, path)
    if is_there and isinstance(container, dict):
        del container[last]
    elif is_there:
        container[int(last)] = None  # as the database does: the others keep their positions


OPERATORS: Final[Mapping[str, Callable[[Document, str, Any], None]]] = {
    "$addToSet": _add_to_set,
    CURRENT_DATE: lambda document, path, kind: _put(document, path, resolve_date(kind)),
    "$inc": _calculate("$inc", lambda left, right: left + right),
    "$max": _keep("$max", lambda new, old: bool(new > old)),
    "$min": _keep("$min", lambda new, old: bool(new < old)),
    "$mul": _calculate("$mul", lambda left, right: left * right),
    "$pop": _pop,
    "$pull": _pull,
    "$pullAll": _pull_all,
    "$push": _push,
    "$rename": _rename,
    "$set": _put,
    "$unset": _unset,
}


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
    """Return the document after the update.

    It is for documents that are checked before they are written. The operators do what the database
    does. Updates that need the database (conditions of `$pull`, `$bit`, positions such as `$[]`)
    are rejected by the callers.
    """
    patched, expansion = copy.deepcopy(document), Expansion()
    for operator, fields in update.items():
        apply = OPERATORS.get(operator)
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


def _check_conflicts(update: Mapping[str, Any]) -> None:
    """Reject two changes of one path, or of a path and one below it."""
    paths_written = (change.path for change in read_update(update) if change.path is not None)
    changed = list(islice(paths_written, _MAX_PATHS + 1))
    if len(changed) + _count_compared(update) > _MAX_PATHS:
        raise BodyTooLarge(
            f"the update changes more than {_MAX_PATHS} paths; each value of $addToSet and "
            "$pullAll counts as one",
            hint="PUT the whole document, use $pull with $in, or split the request",
        )
    paths = sorted(path.split(".") for path in changed)
    for shorter, longer in pairwise(paths):
        if longer[: len(shorter)] == shorter:
            raise RequestError(
                f"the update changes '{'.'.join(shorter)}' and '{'.'.join(longer)}' "
                "at the same time"
            )


def _count_compared(update: Mapping[str, Any]) -> int:
    """Return how many values the update compares with each element of an array."""
    added, removed = (update.get(operator) for operator in ("$addToSet", "$pullAll"))
    lists = list(removed.values()) if isinstance(removed, Mapping) else []
    for operand in added.values() if isinstance(added, Mapping) else ():
        lists.append(operand.get("$each") if isinstance(operand, Mapping) else None)
    return sum(len(values) for values in lists if isinstance(values, list))
