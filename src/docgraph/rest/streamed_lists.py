"""JSON lists of documents: encode documents as they arrive, without storing them.

Nothing is sent before the list is complete, so an error in between can still be the response.
"""

from __future__ import annotations

from typing import Any, ClassVar

from docgraph.codec import JsonMode, encode
from docgraph.exchange import Document
from docgraph.exchange.errors import AnswerTooLarge
from docgraph.exchange.request import Offload
from docgraph.store.driver.portions import LargePortion


class JsonList:
    """A bounded list of documents as JSON; the last document stays available."""

    media_type: ClassVar[str] = "application/json"

    def __init__(self, mode: JsonMode, most_bytes: int, offload: Offload) -> None:
        self._mode = mode
        self._offload = offload
        self._most_bytes = most_bytes
        self._texts: list[bytes] = []  # lists, too
        self._size = 0
        self.count = 0
        self.last: Document = {}

    async def add(self, documents: list[Document]) -> None:
        """Encode further documents; raise `AnswerTooLarge` if they do not fit."""
        if not documents:
            return
        text = await encode_found(documents, documents, self._mode, self._offload)
        self._size += len(text) - bool(self._texts)
        check_size(self._size, self._most_bytes)
        self._texts.append(text)
        self.count += len(documents)
        self.last = documents[-1]

    def render(self) -> bytes:
        """Return the JSON and release its parts."""
        texts, self._texts = self._texts, []
        if len(texts) == 1:
            return texts[0]
        parts: list[bytes | memoryview] = []
        for text in texts:
            parts += [b"," if parts else b"[", memoryview(text)[1:-1]]
        return b"".join([*parts, b"]"]) if parts else b"[]"


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
