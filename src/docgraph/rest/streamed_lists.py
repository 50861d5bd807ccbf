"""Lists of documents as JSON or CSV: encoded as they arrive, sent whole or while they are read.

CSV: up to `MAX_SAMPLE` documents, nothing is sent before the list is complete, so an error can
still be the response. A longer list that is not complete by then is sent while it is read. An error
ends the connection before the last chunk, so that no client takes the list for complete. The
database never waits for the client: the text, which has a limit, is buffered as that of other
responses is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final

from docgraph.codec import JsonMode, encode
from docgraph.codec.csv_table import (
    CSV,
    MAX_SAMPLE,
    CsvCells,
    CsvTable,
    FoundColumns,
    NamedColumns,
    render_disposition,
)
from docgraph.exchange import Answer, Body, Document, Stream
from docgraph.exchange.errors import AnswerTooLarge
from docgraph.exchange.request import Offload
from docgraph.exchange.response import HeaderList
from docgraph.runtime.native import NativeProgram, find_native
from docgraph.runtime.tasks import cancel_until_over
from docgraph.store.driver.portions import PORTION, LargePortion, RawTake, Take
from docgraph.store.guard.shown import Shown, is_hidden_whole

VARY: Final = ("Vary", "Accept")
# Of a portion: other requests run in between.
_PARTS: Final = 16
_MAX_TOGETHER: Final = 64  # documents
_NO_COLUMNS: Final = b"\r\n"  # a body without a byte would have no type
_CHUNK: Final = 128 * 1024  # bytes that are sent, and perhaps compressed, together


class CsvList:
    """A bounded list of documents as CSV; the last document stays available."""

    media_type: ClassVar[str] = CSV

    def __init__(self, table: CsvTable, most_bytes: int, offload: Offload) -> None:
        self._table = table
        self._most_bytes = most_bytes
        self._offload = offload
        self._last: Document = {}

    @property
    def receiver(self) -> Take:
        return self.add

    async def find_last(self) -> Document:
        return self._last

    @property
    def count(self) -> int:
        return self._table.count

    async def add(self, documents: list[Document]) -> None:
        """Encode further documents; raise `AnswerTooLarge` if they do not fit."""
        step = min(_MAX_TOGETHER, len(documents) // _PARTS + 1)
        for start in range(0, len(documents), step):
            if start:
                await asyncio.sleep(0)
            some = documents[start : start + step]
            if isinstance(documents, LargePortion):
                await self._offload(self._table.add, some)
            else:
                self._table.add(some)
            check_size(self._table.size, self._most_bytes)
        self._last = documents[-1] if documents else self._last

    def render(self) -> bytes:
        return self._table.drain() or _NO_COLUMNS


class CsvExport(CsvList):
    """A list that is sent while it is read, unless `is_whole`: the chunks of a `Stream`."""

    _work: asyncio.Task[Any]

    def __init__(
        self, table: CsvTable, most_bytes: int, offload: Offload, *, is_whole: bool
    ) -> None:
        super().__init__(table, most_bytes, offload)
        self._is_whole = is_whole
        self._chunks = bytearray()
        self._news = asyncio.Event()

    async def add(self, documents: list[Document]) -> None:
        """Encode further documents, and send them if the list is a long one."""
        await super().add(documents)
        if self.count > MAX_SAMPLE and not self._is_whole:
            self._chunks += self._table.drain()
            self._news.set()

    async def answer(self, read: Coroutine[Any, Any, Any], headers: HeaderList) -> Answer:
        """Return the response to a read that passes its documents to `add`; raise its error."""
        self._work = asyncio.create_task(read, name="csv")
        self._work.add_done_callback(self._finish)
        try:
            await self._news.wait()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if self._work.done():
            self._work.result()
            text = bytes(self._chunks) + self._table.drain()
            return Body(200, text or _NO_COLUMNS, CSV, headers)
        return Stream(self, media_type=CSV, headers=headers, is_bounded=True)

    def _finish(self, work: asyncio.Task[Any]) -> None:
        if not work.cancelled():
            work.exception()  # retrieved: the list may be replaced by another response
        self._news.set()

    def __aiter__(self) -> CsvExport:
        return self

    async def __anext__(self) -> bytes:
        """Return the next chunk; raise the error of the read."""
        while not self._chunks:
            if self._work.done():
                self._work.result()
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        await asyncio.sleep(0)  # let other requests run
        chunk = bytes(self._chunks[:_CHUNK])
        del self._chunks[:_CHUNK]
        return chunk

    async def aclose(self) -> None:
        await cancel_until_over([self._work])


def build_table(cells: CsvCells, keys: Mapping[str, Any] | None, shown: Shown | None) -> CsvTable:
    """Return the table of a page; its columns are those of `keys`, if that includes fields.

    A key that is hidden from the caller is no column.
    """
    paths = _find_paths(keys or {})
    if not any(_is_included(value) for path, value in paths.items() if path != "_id"):
        return FoundColumns(cells)
    if not any(path.startswith("_id.") for path in paths):
        paths = {"_id": 1, **paths}
    named = [
        path.removesuffix(".$") for path, value in paths.items() if value or isinstance(value, dict)
    ]
    return NamedColumns(
        cells, [path for path in named if not (shown and is_hidden_whole(path, shown))]
    )


def _find_paths(keys: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the paths of a projection, which may be nested: `{"a": {"b": 1}}` is `a.b`."""
    paths: dict[str, Any] = {}
    for key, value in keys.items():
        path = f"{prefix}{key}"
        is_nested = isinstance(value, dict) and not any(name[:1] == "$" for name in value)
        paths |= _find_paths(value, f"{path}.") if is_nested else {path: value}
    return paths


def _is_included(value: Any) -> bool:
    return isinstance(value, int | float) and bool(value)


def csv_headers(name: str) -> HeaderList:
    """Return the headers of a CSV response: a browser saves it, and caches know its other form."""
    return [("Content-Disposition", render_disposition(name)), VARY]


DecodeDocuments = Callable[[list[bytes]], Awaitable[list[Document]]]

_RAW: Final = frozenset({bytes})


class JsonList:
    """A bounded list of documents as JSON; the last document stays available.

    Documents are encoded as they arrive, and not stored. With the native extension, documents are
    not decoded where it can render them as they are. Nothing is sent before the list is complete,
    so an error in between can still be the response.
    """

    media_type: ClassVar[str] = "application/json"

    def __init__(
        self, mode: JsonMode, most_bytes: int, offload: Offload, decode: DecodeDocuments
    ) -> None:
        self._mode = mode
        self._decode = decode
        self._program = find_program(mode)
        self._offload = offload
        self._most_bytes = most_bytes
        self._texts: list[bytes] = []  # lists, too
        self._size = 0
        self.count = 0
        self._last: Document | bytes = {}

    @property
    def receiver(self) -> Take:
        return self.add if self._program is None else RawTake(self.add)

    async def find_last(self) -> Document:
        last = self._last
        return (await self._decode([last]))[0] if isinstance(last, bytes) else last

    async def add(self, documents: list[Any]) -> None:
        """Encode further documents; raise `AnswerTooLarge` if they do not fit."""
        if not documents:
            return
        self._last = documents[-1]
        text = await self._render(documents) if type(self._last) is bytes else None
        if text is None:
            documents = await self._open(documents)
            text = await encode_found(documents, documents, self._mode, self._offload)
        self._size += len(text) - bool(self._texts)
        check_size(self._size, self._most_bytes)
        self._texts.append(text)
        self.count += len(documents)

    async def _render(self, documents: list[Any]) -> bytes | None:
        """Return the JSON of documents that are not decoded; None if they must be."""
        native = find_native()
        if native is None or self._program is None or not _RAW.issuperset(map(type, documents)):
            return None
        render, left = self._program.render_list, max(0, self._most_bytes - self._size)
        try:
            if max(map(len, documents)) > PORTION:
                text: bytes = await self._offload(render, documents, (), left)
                return text
            return render(documents, (), left)
        except native.misfit:
            return None

    async def _open(self, documents: list[Any]) -> list[Document]:
        raw = [document for document in documents if type(document) is bytes]
        if not raw:
            return documents
        decoded = await self._decode(raw)
        if len(raw) == len(documents):
            return decoded
        remaining = iter(decoded)
        return [next(remaining) if type(document) is bytes else document for document in documents]

    def render(self) -> bytes:
        """Return the JSON and release its parts."""
        texts, self._texts = self._texts, []
        if len(texts) == 1:
            return texts[0]
        parts: list[bytes | memoryview] = []
        for text in texts:
            parts += [b"," if parts else b"[", memoryview(text)[1:-1]]
        return b"".join([*parts, b"]"]) if parts else b"[]"


@lru_cache(maxsize=len(JsonMode))
def find_program(mode: JsonMode) -> NativeProgram | None:
    """Return the output program of whole documents, if the native extension has one."""
    native = find_native()
    try:
        return None if native is None else native.build_whole(mode.value, [])
    except ValueError:
        return None  # it does not know this mode


async def encode_found(
    content: Any, documents: list[Document], mode: JsonMode, offload: Offload
) -> bytes:
    """Return the JSON of a value made from found documents; large ones are encoded in a thread."""
    if isinstance(documents, LargePortion):
        text: bytes = await offload(encode, content, mode)
        return text
    return encode(content, mode)


def check_size(size: int, most_bytes: int) -> None:
    """Reject a response that is too large."""
    if size > most_bytes:
        raise AnswerTooLarge(
            f"the answer exceeds {most_bytes >> 20} MiB",
            hint="ask for fewer documents (pagesize), or for less of each (keys)",
        )
