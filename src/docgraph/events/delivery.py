"""Delivery (fan-out): from the events of a source to the logs of the channels that they concern.

Each event is decided once per row filter, shaped once per shape and encoded once per format. The
cost grows with those who receive it, and not with those who listen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Final

from docgraph.events.audiences import Audience, Audiences, Channel
from docgraph.events.change_record import ChangeRecord, EventVisibility
from docgraph.events.encoded_event import EncodedEvent, Rendering, build_error, build_notice
from docgraph.events.event_log import LogBudget
from docgraph.events.event_shapes import EventShape, ShapedEvent, Shapes
from docgraph.exchange import DocgraphError
from docgraph.exchange.close_reason import TOO_SLOW
from docgraph.exchange.errors import Overloaded, StoreUnavailable
from docgraph.observe import emit
from docgraph.observe.engine_events import StreamStageFailed, StreamTold
from docgraph.runtime import cancel_until_over

_ROOM_PAUSE: Final = 0.01
_ROOM_PAUSES: Final = 25  # while a burst waits for clients that read as fast as they can
_ROOM_REST: Final = 1.0  # seconds after such a wait in vain before the next one
_WITHOUT_PAUSE: Final = 32  # events that are delivered without a pause …
_SIZE_WITHOUT_PAUSE: Final = 65_536  # … and bytes; beyond them, clients are notified
_WAVE: Final = 1000  # channels that are notified without a pause
_MAX_LATE: Final = 2_000  # events of a shape whose stages fail or take long
_MAX_LATE_SIZE: Final = 32 << 20  # bytes of such events, of a source
_LATE_AT_ONCE: Final = 2  # such shapes that use the database
_LATE_PORTION: Final = 50
_LATE_PAUSE: Final = 1.0  # seconds, during an outage of the database
_FINISH_SECONDS: Final = 3.0
_JOINT: Final = 8  # shapes that wait for the database at the same time
_RETRIED: Final = (StoreUnavailable, Overloaded)


@dataclass(slots=True)
class Prepared:
    """An event as the receivers see it; `result` is what their stages made of it."""

    record: ChangeRecord
    visibility: EventVisibility
    receivers: list[Channel]
    result: ShapedEvent = None
    _notices: dict[Rendering, EncodedEvent] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The bytes of the encoded event, in all formats."""
        return sum(notice.size for notice in self._notices.values())

    def render(self, rendering: Rendering) -> EncodedEvent:
        """Return the encoded event, the same for all receivers with this rendering."""
        notice = self._notices.get(rendering)
        if notice is None:
            token = self.record.token
            if isinstance(self.result, DocgraphError):
                notice = build_error(self.record.show(self.visibility), rendering, token)
            else:
                assert self.result is not None  # noqa: S101 - removed events are not prepared
                notice = build_notice(self.result, rendering, token)
            self._notices[rendering] = notice
        return notice


class LateShapes:
    """Delivers events of shapes whose stages fail or take long, without delaying others."""

    def __init__(
        self, deliver: Callable[[EventShape, Sequence[Prepared]], Awaitable[None]]
    ) -> None:
        self._deliver = deliver
        self._waiting: dict[EventShape, deque[Prepared]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(_LATE_AT_ONCE)
        self._size = 0  # bytes of all events that wait or are delivered

    def has(self, shape: EventShape) -> bool:
        return shape in self._waiting

    def add(self, shape: EventShape, some: Sequence[Prepared]) -> None:
        """Add events; end the clients of the shape that is too far behind, or has most bytes."""
        waiting = self._waiting.get(shape)
        if waiting is None:
            waiting = self._waiting[shape] = deque()
            task = asyncio.create_task(self._run(shape, waiting), name="late events")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        waiting.extend(some)
        self._size += _sum_sizes(some)
        if len(waiting) > _MAX_LATE:
            self._drop(waiting)
        while self._size > _MAX_LATE_SIZE and any(self._waiting.values()):
            self._drop(max(self._waiting.values(), key=_sum_sizes))

    def _drop(self, waiting: deque[Prepared]) -> None:
        for channel in find_channels(list(waiting)):
            channel.log.end(TOO_SLOW)
        self._size -= _sum_sizes(waiting)
        waiting.clear()

    async def _run(self, shape: EventShape, waiting: deque[Prepared]) -> None:
        some: list[Prepared] = []
        try:
            while waiting:
                async with self._turns:
                    some = [waiting.popleft() for _ in range(min(len(waiting), _LATE_PORTION))]
                    try:
                        await self._deliver_again(shape, some)
                    finally:
                        self._size -= _sum_sizes(some)
        except Exception as error:  # nothing awaits this task: clients would not notice
            for channel in find_channels([*some, *waiting]):
                channel.fail(error)
            self._size -= _sum_sizes(waiting)
        finally:
            del self._waiting[shape]

    async def _deliver_again(self, shape: EventShape, some: Sequence[Prepared]) -> None:
        while True:
            try:
                return await self._deliver(shape, some)
            except _RETRIED:
                await asyncio.sleep(_LATE_PAUSE)

    async def finish(self) -> None:
        """Wait a moment until nothing is left."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_FINISH_SECONDS)

    async def close(self) -> None:
        """Drop the remaining events."""
        await cancel_until_over(tuple(self._tasks))


class Delivery:
    """Prepares events, appends them to logs and notifies the readers in waves."""

    def __init__(self, audiences: Audiences, shapes: Shapes, budget: LogBudget) -> None:
        self._audiences = audiences
        self._shapes = shapes
        self._budget = budget
        self._waves = Fanout(self._publish_all)
        self._pending: dict[Channel, None] = {}  # with events that are not published yet
        self._count = 0  # events appended without a pause
        self._size = 0  # bytes not published yet
        self._waited_at = 0.0  # when room was awaited in vain
        self._late = LateShapes(self._deliver_late)

    async def prepare(
        self, records: Sequence[ChangeRecord], only: Channel | None = None
    ) -> list[Prepared]:
        """Return the events as the channels receive them, in order; it uses the database.

        `only`: for a client of this channel that has missed them.
        """
        audience = None if only is None else only.audience
        decisions = await self._audiences.decide(records, audience)
        jobs: dict[EventShape, list[Prepared]] = {}
        for record, decision in zip(records, decisions, strict=True):
            for visibility, audiences in decision.items():
                groups = await self._group(record, visibility, audiences)
                if only is not None:
                    groups = {only.shape: [only]} if only.shape in groups else {}
                for shape, receivers in groups.items():
                    jobs.setdefault(shape, []).append(Prepared(record, visibility, receivers))
        await self._shape_all(jobs, is_live=only is None)
        prepared = [event for some in jobs.values() for event in some if event.result is not None]
        prepared.sort(key=lambda event: event.record.position)
        return prepared

    async def _group(
        self, record: ChangeRecord, visibility: EventVisibility, audiences: set[Audience]
    ) -> dict[EventShape, list[Channel]]:
        """Return the channels of these audiences whose first conditions the event meets."""
        groups: dict[EventShape, list[Channel]] = {}
        met: set[EventShape] | None = None
        for audience in audiences:
            shapes = audience.plain
            if audience.indexed:
                if met is None:
                    met = await self._shapes.match(record, visibility)
                shapes = shapes | (met & audience.indexed)
            for shape in shapes:
                groups.setdefault(shape, []).extend(audience.channels[shape])
        return groups

    async def _shape_all(self, jobs: dict[EventShape, list[Prepared]], *, is_live: bool) -> None:
        by_database = [item for item in jobs.items() if item[0].plan.stages]
        for shape, some in jobs.items():
            if not shape.plan.stages:
                await self._shape(shape, some)
        for start in range(0, len(by_database), _JOINT):
            joint = by_database[start : start + _JOINT]
            shape_one = self._shape_promptly if is_live else self._shape
            await asyncio.gather(*(shape_one(shape, some) for shape, some in joint))

    async def _shape_promptly(self, shape: EventShape, some: list[Prepared]) -> None:
        """Run the stages, unless they fail or take long: others must not wait for that."""
        if not self._late.has(shape):
            try:
                await self._shape(shape, some, promptly=True)
            except _RETRIED:
                raise
            except DocgraphError:
                pass  # it is found below which events cause it
            else:
                return
        self._late.add(shape, some)

    async def _shape(
        self, shape: EventShape, some: Sequence[Prepared], *, promptly: bool = False
    ) -> None:
        shown = [(event.record, event.visibility) for event in some]
        try:
            results = await self._shapes.run(shape, shown, promptly=promptly)
        except _RETRIED:
            raise
        except DocgraphError as error:
            if promptly:
                raise
            for channel in find_channels(some):  # it concerns all events: the stages cannot run
                channel.fail(error)
            return
        for event, result in zip(some, results, strict=True):
            event.result = result

    async def _deliver_late(self, shape: EventShape, some: Sequence[Prepared]) -> None:
        await self._shape(shape, some)
        await self.append([event for event in some if event.result is not None])

    async def append(self, prepared: Sequence[Prepared]) -> None:
        """Append events to the logs of their receivers; these are notified soon."""
        for event in prepared:
            if isinstance(event.result, DocgraphError) and event.receivers:
                asked = event.receivers[0].subscription
                emit(StreamStageFailed(asked.db, asked.collection, asked.uri, event.result))
            await self._make_room(event)
            for channel in event.receivers:
                channel.append(event.render(channel.rendering))
                self._pending[channel] = None
            self._count += 1
            self._size += event.size
            is_much = self._size >= _SIZE_WITHOUT_PAUSE
            self._waves.flush() if is_much else self._waves.plan()
            if is_much or self._count >= _WITHOUT_PAUSE:
                self._count = 0
                await asyncio.sleep(0)  # a batch of events must not block the event loop

    async def _make_room(self, event: Prepared) -> None:
        """Wait a moment for readers that would lose an event, and never long for slow ones."""
        pressed = _find_pressed(event, event.receivers)
        if not pressed:
            return
        for channel in pressed:
            self.publish(channel)
            channel.log.wake_readers()
        is_resting = monotonic() - self._waited_at < _ROOM_REST
        for _ in range(1 if is_resting else _ROOM_PAUSES):
            pressed = _find_pressed(event, pressed)
            if not pressed:
                return
            await asyncio.sleep(_ROOM_PAUSE)
        self._waited_at = monotonic()

    def publish(self, channel: Channel) -> None:
        """Publish the pending events of a channel immediately."""
        self._pending.pop(channel, None)
        try:
            told = channel.log.publish()
        except Exception as error:  # a wave may belong to no client: they would not notice
            channel.fail(error)
            return
        for notice in told:
            emit(StreamTold(len(channel.log.readers), notice.find_lag()))
        self._budget.enforce()

    def _publish_all(self) -> None:
        self._size = 0
        for channel in list(self._pending)[:_WAVE]:
            self.publish(channel)
        if self._pending:
            self._waves.plan()

    async def finish(self) -> None:
        """Wait a moment for events whose stages fail or take long."""
        await self._late.finish()

    async def close(self) -> None:
        """Cancel the remaining work."""
        self._waves.stop()
        await self._late.close()


def _sum_sizes(some: Iterable[Prepared]) -> int:
    return sum(event.record.size for event in some)


def find_channels(some: Sequence[Prepared]) -> list[Channel]:
    """Return the channels that receive one of the events."""
    return list({channel: None for event in some for channel in event.receivers})


def _find_pressed(event: Prepared, channels: Sequence[Channel]) -> list[Channel]:
    return [
        channel
        for channel in channels
        if channel.log.is_pressed_by(event.render(channel.rendering))
    ]


_REST: Final = 4.0  # times the duration of the wave …
_LONGEST_REST: Final = 0.05  # … in seconds
_SHORTEST_REST: Final = 0.002  # a shorter rest is skipped: timers are not that exact


class Fanout:
    """Calls `deliver` at the end of this turn of the event loop, or at the end of a rest.

    Change events fan out in waves; each wave delivers all events since the previous one. Writing
    ten events to a client costs about as much as writing one. A rest follows each wave, in
    proportion to its duration, so that many clients of a busy stream do not block the event loop.
    With few clients there is no rest, and each event is delivered as it comes.
    """

    def __init__(
        self, deliver: Callable[[], object], *, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._deliver = deliver
        self._clock = clock
        self._rested_at = 0.0
        self._due: asyncio.Handle | None = None

    def plan(self) -> None:
        """Schedule a wave for new events."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            rest = self._rested_at - self._clock()
            self._due = (
                loop.call_later(rest, self.flush) if rest > 0 else loop.call_soon(self.flush)
            )

    def flush(self) -> None:
        """Start a wave immediately, even during a rest."""
        self.stop()
        begun = self._clock()
        self._deliver()
        # Runs after the clients that the wave has woken: their work counts as a part of it.
        asyncio.get_running_loop().call_soon(self._rest, begun)

    def _rest(self, begun: float) -> None:
        now = self._clock()
        rest = min(_REST * (now - begun), _LONGEST_REST)
        self._rested_at = now + rest if rest >= _SHORTEST_REST else now

    def stop(self) -> None:
        """Cancel the scheduled wave."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
