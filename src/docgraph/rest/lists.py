"""Documents that become the JSON of an answer as they come, so that they need not be kept.

Nothing of it is sent before it is complete: an error on the way is still the answer.
"""

from __future__ import annotations

from docgraph.codec import JsonMode, encode
from docgraph.exchange import Document
from docgraph.exchange.errors import AnswerTooLarge

__all__ = ["JsonList", "check_size"]


class JsonList:
    """A list of documents as JSON, which has a bound; the last document is kept, too."""

    def __init__(self, mode: JsonMode, most_bytes: int) -> None:
        self._mode = mode
        self._most_bytes = most_bytes
        self._texts: list[bytes] = []  # lists, too
        self._size = 0
        self.count = 0
        self.last: Document = {}

    async def add(self, documents: list[Document]) -> None:
        """Write down further documents; `AnswerTooLarge` when they do not fit any more."""
        if not documents:
            return
        text = encode(documents, self._mode)
        self._size += len(text) - bool(self._texts)
        check_size(self._size, self._most_bytes)
        self._texts.append(text)
        self.count += len(documents)
        self.last = documents[-1]

    def render(self) -> bytes:
        """The JSON; what was gathered for it is given away."""
        texts, self._texts = self._texts, []
        if len(texts) == 1:
            return texts[0]
        parts: list[bytes | memoryview] = []
        for text in texts:
            parts += [b"," if parts else b"[", memoryview(text)[1:-1]]
        return b"".join([*parts, b"]"]) if parts else b"[]"


def check_size(size: int, most_bytes: int) -> None:
    """Refuse an answer that is too large."""
    if size > most_bytes:
        raise AnswerTooLarge(
            f"the answer exceeds {most_bytes >> 20} MiB",
            hint="ask for fewer documents (pagesize), or for less of each (keys)",
        )
