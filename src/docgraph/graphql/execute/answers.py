"""Answers that are kept encoded, within one bound for all plans of a process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable

from docgraph.graphql.errors import FieldFailure
from docgraph.runtime import LoadingCache

__all__ = ["Answer", "Answers"]

MAX_BYTES = 32 * 1024 * 1024
_LEAST = 1024  # bytes that the smallest entry counts for

Answer = bytes | FieldFailure


class Answers:
    """Encoded answers, at most so many bytes of them; the least recently used goes first.

    A key names its plan without holding it, so that an app lives no longer for having been asked.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, Answer] = OrderedDict()
        self._loading: LoadingCache[Hashable, Answer] = LoadingCache(0)
        self.size = 0

    async def get(self, key: Hashable, load: Callable[[Hashable], Awaitable[Answer]]) -> Answer:
        """The answer that is kept, or made now, once for all who wait."""
        answer = self._kept.get(key)
        if answer is None:
            answer = await self._loading.get(key, load)
            self._keep(key, answer)
        else:
            self._kept.move_to_end(key)
        return answer

    async def close(self) -> None:
        """Give up what is being made."""
        await self._loading.close()

    def _keep(self, key: Hashable, answer: Answer) -> None:
        if key in self._kept or _size(answer) > self._max_bytes:
            return
        self._kept[key] = answer
        self.size += _size(answer)
        while self.size > self._max_bytes:
            self.size -= _size(self._kept.popitem(last=False)[1])


def _size(answer: Answer) -> int:
    return max(len(answer), _LEAST) if isinstance(answer, bytes) else _LEAST
