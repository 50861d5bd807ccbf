"""What follows many writes at once is done once for all of them, not for each of them again.

After a transaction every write of it is told to those who follow writes. What they do for a single
one (a raised version, tokens that end) would be the same command a thousand times; inside
`Gathering.enter` it is noted, and done by `finish`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable
from contextvars import Context, ContextVar

__all__ = ["Gathering", "gather"]

Work = Callable[[Collection[str]], Awaitable[None]]


class Gathering:
    """The works that are put off, each with all that it is to be done for."""

    def __init__(self) -> None:
        self._noted: dict[Hashable, tuple[Work, dict[str, None]]] = {}

    def enter(self, context: Context) -> None:
        """Note what is asked for in that context."""
        context.run(_present.set, self)

    def note(self, key: Hashable, items: Collection[str], work: Work) -> None:
        """Put a work off; of the same key it is one."""
        _, noted = self._noted.setdefault(key, (work, {}))
        noted.update(dict.fromkeys(items))

    async def finish(self) -> None:
        """Do all of it; what fails does not keep the rest from being done, and is raised."""
        first: Exception | None = None
        for work, items in self._noted.values():
            try:
                await work(tuple(items))
            except Exception as error:  # it is raised below
                first = first or error
        if first is not None:
            raise first


_present: ContextVar[Gathering | None] = ContextVar("gathering", default=None)


async def gather(key: Hashable, items: Collection[str], work: Work) -> None:
    """Await `work(items)`; while works are gathered, once with the items of all that asked."""
    present = _present.get()
    if present is None:
        await work(items)
    else:
        present.note(key, items, work)
