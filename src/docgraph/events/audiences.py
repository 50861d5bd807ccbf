"""Audiences: groups of listeners with the same row filter, and what each may see of events.

Most row filters compare properties with values of the caller. An index finds the audiences of an
event by the values of its document (`row_index.py`); the database decides about all other filters,
hundreds at a time. The cost of an event therefore does not grow with the number of listeners.

The listeners of an audience with the same stages and format read from one channel.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from docgraph.events.change_record import ChangeRecord, EventVisibility
from docgraph.events.encoded_event import EncodedEvent, Rendering
from docgraph.events.event_log import EventLog, FilterSlots
from docgraph.events.event_shapes import EventShape
from docgraph.events.row_index import DecisionSample, RowIndex, is_indexable
from docgraph.exchange import DocgraphError, Document, Subscription
from docgraph.exchange.close_reason import FAILED, HISTORY_LOST, CloseReason
from docgraph.exchange.data import CollectionName, Filter
from docgraph.exchange.errors import ResumePointLost
from docgraph.observe import emit
from docgraph.observe.engine_events import StreamFailed
from docgraph.store import Store
from docgraph.store.change_stream import ResumeToken
from docgraph.store.exact import to_bytes
from docgraph.store.guard.event_stages import AFTER, BEFORE, OF_COLLECTIONS
from docgraph.variables.resolvers import fill_moments, has_moments

Portion = tuple[list[EncodedEvent], ResumeToken]


class _Source(Protocol):
    @property
    def position(self) -> str: ...

    def flush(self, channel: Channel) -> None: ...

    def release(self, channel: Channel) -> None: ...

    def read_portion(self, channel: Channel, token: ResumeToken) -> Awaitable[Portion]: ...


@dataclass(eq=False, slots=True)
class Channel:
    """An audience, a shape and a rendering; all its clients read from one log.

    Clients have everything up to `start`: the channel was opened after those events.
    """

    _source: _Source
    key: bytes
    subscription: Subscription
    audience: Audience
    shape: EventShape
    rendering: Rendering
    log: EventLog
    users: int = 0
    start: str = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.log.floor

    @property
    def position(self) -> str:
        """The token up to which all events are published, or published by the next `flush`."""
        return max(self._source.position, self.start)

    def append(self, notice: EncodedEvent) -> None:
        """Append an event to the log, unless it happened before the channel was opened."""
        if notice.token > self.start:
            self.log.append(notice)

    def flush(self) -> None:
        self._source.flush(self)

    def release(self) -> None:
        """Subtract a client that has left."""
        self.users -= 1
        self._source.release(self)

    async def read_portion(self, token: ResumeToken) -> Portion:
        return await self._source.read_portion(self, token)

    def find_ending(self, error: Exception) -> CloseReason:
        """Return the close reason for an error that ends the stream; the error itself is logged."""
        asked = self.subscription
        emit(StreamFailed(asked.db, asked.collection, asked.uri, error))
        return HISTORY_LOST if isinstance(error, ResumePointLost) else FAILED

    def fail(self, error: Exception) -> None:
        """End the channel for all its clients because of an error."""
        if self.log.ending is None:
            self.log.end(self.find_ending(error))


AudienceDecision = dict[EventVisibility, set["Audience"]]

EVERYONE: Final = b""


@dataclass(eq=False, slots=True)
class Audience:
    """The listeners with one row filter, by the shape of what they receive."""

    key: bytes
    row: Filter | None
    has_moments: bool
    has_slot: bool = False
    channels: dict[EventShape, list[Channel]] = field(default_factory=dict)
    plain: set[EventShape] = field(default_factory=set)  # which may concern any event
    # Which concern events that an index finds.
    indexed: set[EventShape] = field(default_factory=set)

    def add(self, channel: Channel) -> None:
        shape = channel.shape
        self.channels.setdefault(shape, []).append(channel)
        (self.plain if shape.plan.condition is None else self.indexed).add(shape)

    def remove(self, channel: Channel) -> None:
        shape = channel.shape
        self.channels[shape].remove(channel)
        if not self.channels[shape]:
            del self.channels[shape]
            self.plain.discard(shape)
            self.indexed.discard(shape)

    def fail(self, error: Exception) -> None:
        """End all channels, since the row filter fails."""
        for channels in self.channels.values():
            for channel in channels:
                channel.fail(error)


@dataclass(eq=False)
class Audiences:
    """The audiences of one source."""

    _store: Store
    _place: CollectionName
    _slots: FilterSlots
    _sample: DecisionSample
    images: bool
    _index: RowIndex = field(default_factory=RowIndex)
    _known: dict[bytes, Audience] = field(default_factory=dict)
    _searched: dict[Audience, None] = field(default_factory=dict)  # the database decides about them
    collation: Mapping[str, Any] | None = None

    async def check(self, row: Filter) -> None:
        """Let the database parse a new filter about which it will decide; raise its error."""
        is_indexed = self.collation is None and not has_moments(row) and is_indexable(row)
        if is_indexed or to_bytes(row) in self._known:
            return
        db, collection = self._place
        (result,) = await self._store.streams.pipelines.match_documents(
            db, [], [fill_moments(row)], collation=self.collation, collection=collection
        )
        if isinstance(result, DocgraphError):
            raise result

    def find(self, row: Filter | None) -> Audience:
        """Return the audience with this row filter; raise `Overloaded` if there are too many."""
        key = EVERYONE if row is None else to_bytes(row)
        audience = self._known.get(key)
        if audience is None:
            audience = Audience(key, row, has_moments(row))
            by_database = self.collation is not None or audience.has_moments
            by_database = by_database or not self._sample.is_trusted
            if row is not None and (by_database or not self._index.add(audience, row)):
                if self._sample.is_trusted:
                    self._slots.acquire()
                    audience.has_slot = True
                self._searched[audience] = None
            self._known[key] = audience
        return audience

    def release(self, audience: Audience) -> None:
        """Forget an audience that has no channels."""
        if audience.channels or self._known.get(audience.key) is not audience:
            return
        del self._known[audience.key]
        self._index.remove(audience)
        self._searched.pop(audience, None)
        if audience.has_slot:
            self._slots.release()

    async def decide(
        self, records: Sequence[ChangeRecord], only: Audience | None = None
    ) -> list[AudienceDecision]:
        """Return the audiences that can see each event, and how; only that of `only`, if given."""
        decisions: list[AudienceDecision] = [{} for _ in records]
        await self._compare_sample(records)
        searched = [audience for audience in self._searched if only in (None, audience)]
        admitted = await self._search(dict(enumerate(records)), searched)
        inexact = {n: record for n, record in enumerate(records) if _has_inexact_image(record)}
        if inexact:  # only then all audiences are visited: an event costs what it reaches
            others = [
                audience
                for audience in ([only] if only is not None else self._known.values())
                if audience.row is not None and audience not in self._searched
            ]
            for place, audiences in (await self._search(inexact, others)).items():
                admitted.setdefault(place, set()).update(audiences)
        for number, (record, decision) in enumerate(zip(records, decisions, strict=True)):
            if record.kind in OF_COLLECTIONS:
                decision[EventVisibility.WHOLE] = {only} if only else set(self._known.values())
                continue
            sides = [
                self._match(record, side) | admitted.get((number, side), set())
                for side in (BEFORE, AFTER)
            ]
            self._add(decision, *sides)
            everyone = self._known.get(EVERYONE)
            if everyone is not None:
                decision.setdefault(EventVisibility.WHOLE, set()).add(everyone)
            if only is not None:
                decisions[number] = {
                    visibility: {only} for visibility, seen in decision.items() if only in seen
                }
        return decisions

    async def _compare_sample(self, records: Sequence[ChangeRecord]) -> None:
        """Compare one in many decisions of the index with the database's, before it is used."""
        if not len(self._index):
            return
        exact = [record for record in records if record.find_image(AFTER) is not None]
        chosen = self._sample.choose(len(exact))
        if chosen is None:
            return
        filters = {each: each.row or {} for each in self._known.values() if each in self._index}
        image = exact[chosen].find_image(AFTER) or {}
        matched = self._index.match(image)
        if await self._sample.compare(exact[chosen].raw[AFTER], filters, matched):
            return
        for audience in self._known.values():
            if audience.row is not None:
                self._searched[audience] = None
            self._index.remove(audience)

    def _match(self, record: ChangeRecord, side: str) -> set[Any]:
        """Return the audiences of the index that may see this image."""
        if not len(self._index) or _has_inexact_image(record):
            return set()
        image = record.find_image(side)
        return set() if image is None else self._index.match(image)

    def _add(self, decision: AudienceDecision, before: set[Any], after: set[Any]) -> None:
        if not self.images:
            parts = {EventVisibility.FOUND: after}
        else:
            parts = {
                EventVisibility.WHOLE: after & before,
                EventVisibility.ENTERED: after - before,
                EventVisibility.LEFT: before - after,
            }
        decision |= {visibility: some for visibility, some in parts.items() if some}

    async def _search(
        self, records: Mapping[int, ChangeRecord], audiences: Sequence[Audience]
    ) -> dict[tuple[int, str], set[Audience]]:
        """Return the audiences whose filters admit each image, as the database decides."""
        admitted: dict[tuple[int, str], set[Audience]] = {}
        images: list[Document] = []
        places: list[tuple[int, str]] = []
        for number, record in records.items() if audiences else ():
            for side in (BEFORE, AFTER):
                if record.has_image(side):
                    images.append(record.raw[side])
                    places.append((number, side))
        if not images:
            return admitted
        db, collection = self._place
        filters = [
            fill_moments(each.row) if each.has_moments else each.row or {} for each in audiences
        ]
        results = await self._store.streams.pipelines.match_documents(
            db, images, filters, collation=self.collation, collection=collection
        )
        for audience, result in zip(audiences, results, strict=True):
            if isinstance(result, DocgraphError):
                audience.fail(result)
                continue
            for position in result:
                admitted.setdefault(places[position], set()).add(audience)
        return admitted


def _has_inexact_image(record: ChangeRecord) -> bool:
    """Return whether only the database can compare a document of the event."""
    return any(
        record.has_image(side) and record.find_image(side) is None for side in (BEFORE, AFTER)
    )
