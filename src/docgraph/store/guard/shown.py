"""Shown properties: what a permission shows of documents, and filters on anything else.

A permission has `{"email": 0}` (everything but) or `{"name": 1}` (nothing but). A caller cannot
query properties that are not shown: the number of matches, or their order, answers a question just
as a read would. A filter whose paths are not certain counts as a query for hidden properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bson import DBRef, Regex

from docgraph.exchange.data import Document
from docgraph.store.guard.stage_checks import has_key

Shown = Mapping[str, int]
Paths = tuple[tuple[str, ...], ...]
_Tree = dict[str, "_Tree"]  # the steps of paths; an empty one ends a path

LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
HARMLESS: Final = frozenset({"$comment"})
# They use whole documents, or everything that an index contains: the properties are not known.
# (In lower case for `has_key`.)
OPAQUE: Final = frozenset({"$expr", "$where", "$jsonschema", "$text"})
# Callers may query one by its exact value: the path and `If-Match` of a request do the same.
_ASKED_ANYWAY: Final = frozenset({"_id", "_etag"})
_ARRAY: Final = {"$type": "array"}
_EQUALITIES: Final = frozenset({"$eq", "$in"})
_COMPARISONS: Final = frozenset({"$gt", "$lt"})
_NOTHING: Final = object()


def project(documents: Iterable[Document], shown: Shown) -> list[Document]:
    """Return the documents without what is 0, or with only what is 1, as MongoDB's `$project` does.

    Paths go through objects, arrays, and arrays of arrays. `build_projection` is the same for a
    pipeline: both must show the same, or one API reveals what another one hides.
    """
    if not any(shown.values()):
        return hide(documents, map(_listed_path, shown))
    tree = _build_tree(map(_listed_path, shown))
    return [_keep(document, tree) for document in documents]


def hide(documents: Iterable[Document], paths: Iterable[tuple[str, ...]]) -> list[Document]:
    """Return the documents without the properties at these paths."""
    tree = _build_tree(paths)
    return [_drop(document, tree) for document in documents]


def build_projection(shown: Shown, below: str = "") -> Document:
    """Return the operand of a `$project` that shows the same, of documents or of a part `below`."""
    prefix = f"{below}." if below else ""
    paths = shorten_paths(map(_listed_path, shown))
    keeps = any(shown.values())
    projection: Document = {f"{prefix}{'.'.join(path)}": int(keeps) for path in paths}
    if keeps and not below and not any(path[0] == "_id" for path in paths):
        projection["_id"] = 0  # which MongoDB would show by default
    return projection


def shorten_paths(paths: Iterable[tuple[str, ...]]) -> Paths:
    """Return each path once, and none below another: MongoDB accepts neither."""
    unique = dict.fromkeys(paths)
    return tuple(
        path
        for path in unique
        if not any(path[:length] in unique for length in range(1, len(path)))
    )


def _listed_path(key: str) -> tuple[str, ...]:
    return tuple(key.split("."))


def _build_tree(paths: Iterable[tuple[str, ...]]) -> _Tree:
    tree: _Tree = {}
    for path in shorten_paths(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    return tree


def _keep(value: Any, tree: _Tree) -> Any:
    """Return the parts of the value at the paths; `_NOTHING` if no path leads into it."""
    if isinstance(value, list):
        elements = (_keep(element, tree) for element in value)
        return [element for element in elements if element is not _NOTHING]
    fields = _fields_of(value)
    if fields is None:
        return _NOTHING
    result = {}
    for key, inner in fields.items():
        if key in tree:
            kept = _keep(inner, tree[key]) if tree[key] else inner
            if kept is not _NOTHING:
                result[key] = kept
    return result


def _drop(value: Any, tree: _Tree) -> Any:
    if isinstance(value, list):
        return [_drop(element, tree) for element in value]
    fields = _fields_of(value)
    if fields is None or tree.keys().isdisjoint(fields):
        return value
    return {
        key: _drop(inner, tree[key]) if key in tree else inner
        for key, inner in fields.items()
        if tree.get(key) != {}
    }


def _fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of an object; the driver decodes one with `$ref` to a type of its own."""
    if isinstance(value, DBRef):
        return value.as_doc()
    return value if isinstance(value, dict) else None


def is_shown(path: str, shown: Shown) -> bool:
    """Check if nothing at the path, below it or around it is hidden."""
    steps = _split(path)
    if not steps:
        return False  # an operator: its paths are not known
    if any(shown.values()):
        # Every step counts: with `a.b` shown, `a.0.b` is not, whether `0` is a name or a position.
        steps = path.split(".")
        return any(steps[: len(name)] == name for name in _listed(shown))
    return not any(_overlap(steps, _split(key)) for key in shown)


def is_partly_shown(path: str, shown: Shown) -> bool:
    """Check if a part of the value at the path is hidden and a part is shown."""
    steps = _split(path)
    return any(len(steps) < len(name) and name[: len(steps)] == steps for name in _listed(shown))


def is_hidden_whole(path: str, shown: Shown) -> bool:
    """Check if nothing of the value at the path is, or could be, shown."""
    if any(shown.values()):
        return not any(_overlap(path.split("."), name) for name in _listed(shown))
    steps = _split(path)
    return any(steps[: len(name)] == name for name in map(_split, shown))


def asks_for_hidden(filter: Any, shown: Shown, *, besides: frozenset[str] = frozenset()) -> bool:
    """Check if a filter could reveal something hidden; paths in `besides` are allowed."""
    if not isinstance(filter, Mapping):
        return True
    return any(
        _asks(key, condition, shown, besides)
        for key, condition in filter.items()
        if key not in besides
    )


def _asks(key: str, condition: Any, shown: Shown, besides: frozenset[str]) -> bool:
    if key in LOGICAL:
        return not isinstance(condition, list | tuple) or any(
            asks_for_hidden(branch, shown, besides=besides) for branch in condition
        )
    if key in HARMLESS:
        return False
    if key in _ASKED_ANYWAY and _is_equality(condition):
        return False
    if key == "$expr":
        return not _compares_shown(condition, shown)
    return not is_shown(key, shown) or has_key(condition, OPAQUE)


def _is_equality(condition: Any) -> bool:
    if not isinstance(condition, Mapping):
        return not _is_pattern(condition)
    if condition.get("$not") == _ARRAY:  # conditions on etags exclude arrays of them
        condition = {key: operand for key, operand in condition.items() if key != "$not"}
    elif condition.keys() == {"$not"}:
        return isinstance(condition["$not"], Mapping) and _is_equality(condition["$not"])
    if condition.keys() <= _EQUALITIES:
        values = (
            operand if operator == "$in" and isinstance(operand, list | tuple) else [operand]
            for operator, operand in condition.items()
        )
        return not any(_is_pattern(value) for several in values for value in several)
    return not any(key[:1] == "$" for key in condition)


def _is_pattern(value: Any) -> bool:
    """Check for a regular expression in any of its forms: it matches more than one value."""
    return isinstance(value, Regex | re.Pattern) or (
        isinstance(value, Mapping) and any(key[:1] == "$" for key in value)
    )


def _compares_shown(expression: Any, shown: Shown) -> bool:
    """Check for `{"$gt": ["$name", {"$literal": …}]}`, which pagination uses for some types."""
    match expression:
        case {**only} if len(only) == 1 and only.keys() <= _COMPARISONS:
            match next(iter(only.values())):
                case [str(path), {"$literal": _, **rest}] if not rest:
                    return path[:1] == "$" and path[:2] != "$$" and is_shown(path[1:], shown)
    return False


def _listed(shown: Shown) -> list[list[str]]:
    return [key.split(".") for key in shown]


def _split(path: str) -> list[str]:
    """Return the steps of a path without array positions (`a.0.b`, `a.$.b`), none of operators."""
    first, *rest = path.split(".")
    if first[:1] == "$":
        return []
    return [first, *(step for step in rest if not step.isdigit() and step[:1] != "$")]


def _overlap(left: list[str], right: list[str]) -> bool:
    length = min(len(left), len(right))
    return left[:length] == right[:length]
