"""Decision sample: compare one in many decisions of the row index with those of the database.

Both must always decide the same. If they ever differ, the index is not used any more, and the
database decides about all row filters of the source.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from docgraph.exchange.errors import DocgraphError
from docgraph.observe import emit
from docgraph.observe.stream_events import StreamIndexWrong, StreamSampled

Filter = Mapping[str, Any]
# Of `DocumentPipelines.match_documents`, for one database and collation.
Match = Callable[
    [Sequence[Mapping[str, Any]], Sequence[Filter]],
    Awaitable[Sequence[frozenset[int] | DocgraphError]],
]

_EVERY: Final = 1000  # one of this many images is compared
_MAX_FILTERS: Final = 250  # that match, and as many that do not


class DecisionSample:
    """The sample of one source; `is_trusted` until the index has decided wrongly."""

    def __init__(self, db: str, collection: str, match: Match, every: int = _EVERY) -> None:
        self.is_trusted = True
        self._place = (db, collection)
        self._match = match
        self._every = every
        self._left = random.randrange(every)  # before the next one  # noqa: S311 - no secret

    def choose(self, images: int) -> int | None:
        """Count the images of a batch; return the position of the one to compare, if it is due."""
        if self._left >= images:
            self._left -= images
            return None
        chosen, self._left = self._left, self._every
        return chosen

    async def compare(
        self,
        image: Mapping[str, Any],
        filters: Mapping[Any, Filter],
        matched: Collection[Any],
    ) -> bool:
        """Compare the decision about an image; return whether the index is still trusted.

        `filters` are those of the index, `matched` the keys of those that match by its decision.
        Compare before the decision is used. A database that does not answer shows nothing about
        the index.
        """
        chosen = self._choose_filters(filters, matched)
        try:
            found = await self._match([image], [filters[key] for key in chosen])
        except DocgraphError:
            found = []
        pairs = [
            (key in matched, bool(positions))
            for key, positions in zip(chosen, found, strict=False)
            if not isinstance(positions, DocgraphError)
        ]
        is_same = all(by_index == by_database for by_index, by_database in pairs)
        emit(StreamSampled(("same" if is_same else "different") if pairs else "failed"))
        if not is_same and self.is_trusted:
            self.is_trusted = False
            emit(StreamIndexWrong(*self._place))
        return self.is_trusted

    def _choose_filters(self, filters: Mapping[Any, Filter], matched: Collection[Any]) -> list[Any]:
        chosen: list[Any] = []
        for some in ([*matched], [key for key in filters if key not in matched]):
            chosen += random.sample(some, min(len(some), _MAX_FILTERS))
        return chosen
