"""Shared answers of live queries: equal queries of equal callers have one execution.

An answer is current until something that it depends on changes. Then its listeners are notified,
and the first of them that runs again executes for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol


class LiveAnswer(NamedTuple):
    """The JSON of an answer, and its hash.

    `has_errors`: something could not be read. `untrackable`: why its changes cannot be noticed.
    """

    content: bytes
    digest: bytes
    has_errors: bool = False
    untrackable: str = ""

    @classmethod
    def build(
        cls, content: bytes, *, has_errors: bool = False, untrackable: str = ""
    ) -> LiveAnswer:
        digest = blake2b(content, digest_size=16).digest()
        return cls(content, digest, has_errors, untrackable)

    @property
    def is_lasting(self) -> bool:
        """Whether it holds until a change; otherwise it has to be executed again."""
        return not self.has_errors and not self.untrackable


class AnswerListener(Protocol):
    """A live query."""

    shared: SharedAnswer | None

    def mark_changed(self) -> None:
        """Run again soon: the answer may have changed."""


_MAX_BYTES: Final = 64 * 1024 * 1024  # of the answers that are retained

OnChange = Callable[[], None]
# Executes; calls the function when the answer is outdated. The result stops that.
Execute = Callable[[OnChange], Awaitable[tuple[LiveAnswer, Callable[[], None]]]]


@dataclass(eq=False, slots=True)
class SharedAnswer:
    """An answer, or its execution, with its listeners."""

    key: Hashable
    writes: object  # counters of this instance's writes before the execution
    listeners: set[AnswerListener] = field(default_factory=set)
    execution: asyncio.Task[LiveAnswer] | None = None
    release: Callable[[], None] | None = None
    is_outdated: bool = False
    size: int = 0  # bytes of the answer, while it is retained


@dataclass(eq=False)
class SharedAnswers:
    """The current answers of this process, by the key that equal queries have."""

    max_bytes: int = _MAX_BYTES
    count_writes: Callable[[], object] = lambda: 0
    _current: dict[Hashable, SharedAnswer] = field(default_factory=dict)
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._current)

    async def read(
        self, key: Hashable, listener: AnswerListener, execute: Execute
    ) -> tuple[LiveAnswer, bool]:
        """Return the current answer, and whether it was executed for this listener.

        A new listener may have written something that the watch does not know yet: it shares an
        answer only if this instance has written nothing since.
        """
        shared = self._current.get(key)
        if shared and listener.shared is None and shared.writes != self.count_writes():
            self._hide(shared)
            shared = None
        is_own = shared is None
        if shared is None:
            shared = self._current[key] = SharedAnswer(key, self.count_writes())
            shared.execution = asyncio.create_task(self._execute(shared, execute))
            shared.execution.add_done_callback(_retrieve)
        self._join(shared, listener)
        assert shared.execution is not None  # noqa: S101 - it is set where it is built
        answer = await asyncio.shield(shared.execution)
        if self._current.get(key) is not shared:
            shared.execution = None  # no other reader gets this answer
        return answer, is_own

    def leave(self, listener: AnswerListener) -> None:
        """Stop listening; an answer without listeners is dropped."""
        shared, listener.shared = listener.shared, None
        if shared is None:
            return
        shared.listeners.discard(listener)
        if not shared.listeners:
            self._drop(shared)
            if shared.execution is not None and not shared.execution.done():
                shared.execution.cancel()

    def _join(self, shared: SharedAnswer, listener: AnswerListener) -> None:
        if listener.shared is not shared:
            shared.listeners.add(listener)
            self.leave(listener)
            listener.shared = shared

    async def _execute(self, shared: SharedAnswer, execute: Execute) -> LiveAnswer:
        try:
            answer, release = await execute(lambda: self._expire(shared))
        except BaseException:
            self._drop(shared)
            raise
        if shared.listeners and not shared.is_outdated:
            shared.release = release
        else:
            release()
        if not answer.is_lasting:
            self._hide(shared)
            return answer
        if self._current.get(shared.key) is shared:
            shared.size = len(answer.content)
            self._bytes += shared.size
        while self._bytes > self.max_bytes:  # the oldest answers are executed again
            self._hide(next(other for other in self._current.values() if other.size))
        return answer

    def _expire(self, shared: SharedAnswer) -> None:
        """Notify the listeners: the answer may have changed."""
        if not shared.is_outdated:
            self._drop(shared)
            for listener in tuple(shared.listeners):
                listener.mark_changed()

    def _hide(self, shared: SharedAnswer) -> None:
        """Let the next reader execute again; changes are still reported."""
        if self._current.get(shared.key) is shared:
            del self._current[shared.key]
            self._bytes -= shared.size
            shared.size = 0
        if shared.execution is not None and shared.execution.done():
            shared.execution = None

    def _drop(self, shared: SharedAnswer) -> None:
        shared.is_outdated = True
        self._hide(shared)
        if shared.release is not None:
            release, shared.release = shared.release, None
            release()


def _retrieve(execution: asyncio.Task[LiveAnswer]) -> None:
    """Retrieve the error of the task: asyncio would log it if no listener is left."""
    if not execution.cancelled():
        execution.exception()
