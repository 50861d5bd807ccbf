"""Documents in which a name occurs twice.

The database compares the first of the values, and drivers return the last one. A join that assigns
documents to parents by their values would give such a document to another parent. So documents that
were found by `$in` are marked if the compared name occurs twice in them, and the database assigns
them. `_id` occurs once: the database ensures that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from docgraph.exchange.data import Document
from docgraph.store.driver.lenient_decode import find_end, size_of

_CONTAINERS: Final = frozenset({0x03, 0x04})
_ARRAY: Final = 0x04
_HEAD: Final = 4
ComparedPaths = Sequence[Sequence[str]]

_KIND: Final = rb"[\x01-\x13\x7f\xff]"


class AmbiguousDocument(dict[str, Any]):
    """A document in which a name that its filter compares occurs twice."""


def mark_repeated(reply: Document, payload: bytes | memoryview, command: Document) -> None:
    """Mark the documents of a decoded response in which a compared name occurs twice."""
    paths = find_compared(command.get("filter"))
    batch = reply.get("cursor", {}).get("firstBatch") if paths else None
    if not isinstance(batch, list) or not batch:
        return
    data = bytes(payload)
    if not any(_count(data, path[0]) > len(batch) for path in paths):
        return  # each document has the name once: the filter found it by that
    for number, start in enumerate(_find_documents(data)):
        if any(_is_repeated(data, start, path) for path in paths):
            batch[number] = AmbiguousDocument(batch[number])


def mark_document(document: Document, data: bytes | memoryview, paths: ComparedPaths) -> Document:
    """Return the document, marked if one of the compared names occurs twice in it."""
    raw = bytes(data)
    is_marked = any(is_ambiguous(raw, path) for path in paths)
    return AmbiguousDocument(document) if is_marked else document


def is_ambiguous(document: Any, path: Sequence[str]) -> bool:
    """Check if a name of the path occurs twice in a document, which may not be decoded."""
    if type(document) is not bytes:
        return type(document) is AmbiguousDocument
    return _count(document, path[0]) > 1 and _is_repeated(document, 0, path)


def find_compared(filter_: Any) -> ComparedPaths:
    """Return the paths that a filter compares with `$in`."""
    paths: list[Sequence[str]] = []
    for key, condition in filter_.items() if isinstance(filter_, Mapping) else ():
        if key == "$and" and isinstance(condition, list | tuple):  # else the database rejects it
            paths += (path for part in condition for path in find_compared(part))
        elif key != "_id" and isinstance(condition, Mapping) and "$in" in condition:
            paths.append(key.split("."))
    return paths


def _count(data: bytes, name: str) -> int:
    """Return how often the name may occur, at any level."""
    return len(re.findall(_KIND + re.escape(name.encode()) + rb"\0", data))


def _find_documents(data: bytes) -> Iterator[int]:
    start = 0
    for wanted in (b"cursor", b"firstBatch"):
        start = next(value for name, _, value in _walk(data, start) if name == wanted)
    return (value for _, _, value in _walk(data, start))


def _is_repeated(data: bytes, start: int, path: Sequence[str]) -> bool:
    """Check if a name of the path occurs twice in the document that begins there."""
    name, *rest = path
    values = [(kind, value) for key, kind, value in _walk(data, start) if key == name.encode()]
    if len(values) != 1 or not rest:
        return len(values) > 1
    kind, value = values[0]
    if kind not in _CONTAINERS:
        return False
    inner = [(kind, value)] if kind != _ARRAY else [entry[1:] for entry in _walk(data, value)]
    return any(_is_repeated(data, place, rest) for kind, place in inner if kind in _CONTAINERS)


def _walk(data: bytes, start: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, type and position of each value of a document that the driver could decode."""
    position, end = start + _HEAD, start + int.from_bytes(data[start : start + _HEAD], "little") - 1
    while position < end:
        stop = find_end(data, position + 1)
        yield data[position + 1 : stop], data[position], stop + 1
        position = stop + 1 + size_of(data[position], data, stop + 1)
