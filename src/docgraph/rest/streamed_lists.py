"""JSON lists of documents: encode documents as they arrive, without storing them.

With the native extension, documents are not decoded where it can render them as they are. Nothing
is sent before the list is complete, so an error in between can still be the response.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, ClassVar, Final

from docgraph.codec import JsonMode, encode
from docgraph.exchange import Document
from docgraph.exchange.errors import AnswerTooLarge
from docgraph.exchange.request import Offload
from docgraph.runtime.native import NativeProgram, find_native
from docgraph.store.driver.portions import PORTION, LargePortion, RawTake, Take

DecodeDocuments = Callable[[list[bytes]], Awaitable[list[Document]]]

_RAW: Final = frozenset({bytes})


class JsonList:
    """A bounded list of documents as JSON; the last document stays available."""

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
        """What receives the documents of a read."""
        return self.add if self._program is None else RawTake(self.add)

    async def find_last(self) -> Document:
        """Return the last document."""
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
        raw = [one for one in documents if type(one) is bytes]
        if not raw:
            return documents
        decoded = await self._decode(raw)
        if len(raw) == len(documents):
            return decoded
        found = iter(decoded)
        return [next(found) if type(one) is bytes else one for one in documents]

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
    content: Any, found: list[Document], mode: JsonMode, offload: Offload
) -> bytes:
    """Return the JSON of a value made from found documents; large ones are encoded in a thread."""
    if isinstance(found, LargePortion):
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
