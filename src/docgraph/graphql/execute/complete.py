"""Completing values: from documents to response objects, all documents of a selection together.

Valid documents pass through the block's generated function. When it fails, the block is examined
value by value, with errors.

With the native extension, documents need not be decoded: such a document is `bytes`, as the
database sent it, and the output program of the block renders it. The object that is completed from
it is `bytes`, too: its JSON. Both pass through joins and lists like others. If a value does not
match the schema, or the extension cannot render it, the documents are decoded and completed as
above. The answer is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from docgraph.graphql.errors import Damaged, FieldFailure
from docgraph.graphql.execute.examine import MISFITS, examine, examine_object, finish_leaf
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.plan.leaves import build_strict
from docgraph.graphql.plan.plan_tree import Block, Fetch, Introspection
from docgraph.runtime import allocations
from docgraph.runtime.allocations import embed_json
from docgraph.runtime.native import NativeProgram, find_native

_PORTION: Final = 1024 * 1024  # bytes of documents that are rendered in one turn of the event loop
_COPIES: Final = 2  # of its response that a request may have as JSON
_RAW: Final = frozenset({bytes})


class CompletedValues(NamedTuple):
    """Completed values, with `damaged` if some of them are `Damaged`; bytes are JSON.

    `are_lists`: each is the JSON of a list of them.
    """

    items: list[Any]
    damaged: bool = False
    are_lists: bool = False

    @classmethod
    def checked(cls, items: list[Any]) -> CompletedValues:
        """Return values of which some may be damaged."""
        return cls(items, any(type(item) is Damaged for item in items))


def complete_block(
    block: Block, documents: Sequence[Any], columns: Sequence[CompletedValues]
) -> CompletedValues:
    """Return the objects of a block; `columns` has the values of each column per document."""
    if block.failure is not None:
        return CompletedValues([Damaged(None, block.failure)] * len(documents), damaged=True)
    lists: list[list[Any]] = []
    is_damaged = False
    for column in columns:
        lists.append(column.items)
        is_damaged = is_damaged or column.damaged
    if not is_damaged:
        try:
            return CompletedValues(block.project(documents, *lists))
        except MISFITS:
            pass  # a value does not match the schema: the slow path finds out which
    rows = zip(*lists, strict=True) if lists else ((),) * len(documents)
    return CompletedValues.checked(
        [
            examine_object(block, document, iter(row))
            for document, row in zip(documents, rows, strict=True)
        ]
    )


def complete_values(column: Fetch | Introspection, values: Sequence[Any]) -> CompletedValues:
    """Complete values that are returned unchanged, such as those of `BsonDocument`."""
    serialize = column.serialize if isinstance(column, Fetch) else None
    show = serialize or _as_it_is
    try:
        return CompletedValues([build_strict(column.type, show)(value) for value in values])
    except MISFITS:
        finish = finish_leaf(show, column.position)
        examined = [examine(column.type, value, finish, column.position) for value in values]
        return CompletedValues.checked(examined)


def _as_it_is(value: Any) -> Any:
    if isinstance(value, FieldFailure):
        raise TypeError  # what it says is found out by the slow path
    return value


async def view(
    documents: Sequence[Any], names: Iterable[str], run: Run, source: Fetch
) -> Sequence[Any]:
    """Return the documents with at least these fields, for code that reads no others.

    The empty name is the whole document.
    """
    if not run.is_raw or bytes not in map(type, documents):  # all are decoded
        return documents
    wanted = list(names)
    if "" in wanted or not _RAW.issuperset(map(type, documents)):
        return await open_documents(documents, run, source)
    decoded = run.store.reads.decode_fields(documents, wanted)
    return await open_documents(documents, run, source) if decoded is None else decoded


async def open_documents(documents: Sequence[Any], run: Run, source: Fetch) -> list[Any]:
    """Return the documents, decoded."""
    raw = [document for document in documents if type(document) is bytes]
    db, collection = source.mapping.db, source.mapping.collection
    decoded = iter(await run.store.reads.decode(db, collection, raw, run.exchange.deadline))
    return [next(decoded) if type(document) is bytes else document for document in documents]


async def render_objects(
    program: NativeProgram | None,
    documents: Sequence[Any],
    columns: Sequence[CompletedValues],
    run: Run,
    ends: Sequence[int] | None,
) -> CompletedValues | None:
    """Return the JSON of all objects, or of the lists that end there; None if the program cannot.

    All blocks of a request together may have a few times the size of its response: many fields
    may share a value, which is one object in Python and a copy in each JSON text.
    """
    native = find_native()
    if program is None or native is None or any([column.damaged for column in columns]):
        return None
    size = native.measure(documents)
    if size is None:
        return None  # some are decoded
    texts = [_encode(column) for column in columns]
    most = run.limits.response_bytes
    limit = min(most, _COPIES * most - run.rendered_bytes)
    is_small = size <= _PORTION
    are_lists = ends is not None and is_small
    try:
        if ends is not None and is_small:
            items = program.render_lists(documents, ends, texts, limit)
        elif is_small:
            items = program.render_each(documents, texts, limit)
        else:
            items = await _render_portions(program, documents, texts, limit)
    except native.misfit:
        return None
    run.rendered_bytes += sum(map(len, items))
    return CompletedValues(items, are_lists=are_lists)


async def _render_portions(
    program: NativeProgram, documents: Sequence[Any], columns: Sequence[list[bytes]], limit: int
) -> list[bytes]:
    """Render a portion at a time; other requests run in between."""
    items: list[bytes] = []
    start = size = written = 0
    for end, document in enumerate(documents, 1):
        size += len(document)
        if size < _PORTION and end < len(documents):
            continue
        portion_columns = [column[start:end] for column in columns]
        portion = program.render_each(documents[start:end], portion_columns, limit - written)
        written += sum(map(len, portion))
        items += portion
        start, size = end, 0
        if end < len(documents):
            await asyncio.sleep(0)
    return items


def _encode(column: CompletedValues) -> list[bytes]:
    """Return the JSON of each value; a value that parents share is encoded once."""
    if _RAW.issuperset(map(type, column.items)):
        return column.items
    texts = {
        number: item if type(item) is bytes else allocations.dumps(item, embed_json)
        for number, item in {id(item): item for item in column.items}.items()
    }
    return [texts[id(item)] for item in column.items]
