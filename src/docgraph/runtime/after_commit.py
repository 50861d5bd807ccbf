"""After-commit work: follow-ups of the writes in a transaction, merged and run once.

After a transaction, listeners are notified of each of its writes. Their follow-up of a single write
(a raised version, revoked tokens) would repeat the same command a thousand times. Inside
`AfterCommit.enter` it is recorded, and `finish` runs it once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable
from contextvars import Context, ContextVar

Work = Callable[[Collection[str]], Awaitable[None]]


class AfterCommit:
    """Deferred work by key, each with all items that it has to process."""

    def __init__(self) -> None:
        self._noted: dict[Hashable, tuple[Work, dict[str, None]]] = {}

    def enter(self, context: Context) -> None:
        """Record the work that is requested in that context."""
        context.run(_present.set, self)

    def defer(self, key: Hashable, items: Collection[str], work: Work) -> None:
        """Defer work; work with the same key is merged."""
        _, noted = self._noted.setdefault(key, (work, {}))
        noted.update(dict.fromkeys(items))

    async def finish(self) -> None:
        """Run all of it; an error does not stop the rest, and is raised at the end."""
        first: Exception | None = None
        for work, items in self._noted.values():
            try:
                await work(tuple(items))
            except Exception as error:  # it is raised below
                first = first or error
        if first is not None:
            raise first


_present: ContextVar[AfterCommit | None] = ContextVar("gathering", default=None)


async def gather(key: Hashable, items: Collection[str], work: Work) -> None:
    """Await `work(items)`; while work is deferred, once for the items of all callers."""
    present = _present.get()
    if present is None:
        await work(items)
    else:
        present.defer(key, items, work)
