"""Introspection cache: encoded answers, with one bound for all plans of a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable

from docgraph.graphql.errors import FieldFailure
from docgraph.runtime import LoadingCache, LruDict

MAX_BYTES = 32 * 1024 * 1024
_LEAST = 1024  # bytes that the smallest entry counts for

IntrospectionAnswer = bytes | FieldFailure


class IntrospectionCache:
    """Encoded answers, bounded in bytes (LRU).

    A key names its plan without a reference, so that an app lives no longer because of its answers.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: LruDict[Hashable, IntrospectionAnswer] = LruDict(max_bytes // _LEAST + 1)
        self._loading: LoadingCache[Hashable, IntrospectionAnswer] = LoadingCache(0)
        self.size = 0

    async def get(
        self, key: Hashable, load: Callable[[Hashable], Awaitable[IntrospectionAnswer]]
    ) -> IntrospectionAnswer:
        """Return the cached answer, or build it now, once for all waiting requests."""
        answer = self._kept.get(key)
        if answer is None:
            answer = await self._loading.get(key, load)
            if self._kept.peek(key) is None and _size(answer) <= self._max_bytes:
                self._kept.put(key, answer)
                self.size += _size(answer)
                while self.size > self._max_bytes:
                    self.size -= _size(self._kept.pop_oldest()[1])
        return answer

    async def close(self) -> None:
        """Cancel answers in progress."""
        await self._loading.close()


def _size(answer: IntrospectionAnswer) -> int:
    return max(len(answer), _LEAST) if isinstance(answer, bytes) else _LEAST
