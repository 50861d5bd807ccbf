"""Shapes: what the stages of a stream make of the events that a listener can see.

The first conditions of the stages often compare a property with a value of the caller. They are
evaluated in memory, by an index from values to shapes. Only the rest needs the database: one
command for many events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.events.change_record import ChangeRecord, EventVisibility
from docgraph.events.event_log import FilterSlots
from docgraph.events.row_index import DecisionSample, RowIndex, is_indexable
from docgraph.exchange import DocgraphError, Document, Subscription
from docgraph.exchange.data import CollectionName, Filter
from docgraph.store import Store
from docgraph.store.exact import to_bytes
from docgraph.store.guard.event_stages import AFTER, BEFORE
from docgraph.store.guard.fence import find_unsafe, split_leading
from docgraph.store.guard.shown import Shown, is_shown
from docgraph.store.streams import StreamView
from docgraph.variables.resolvers import fill_moments, has_moments

Visible = tuple[ChangeRecord, EventVisibility]
ShapedEvent = Document | None | DocgraphError

_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_NEVER: Final = frozenset({"to", BEFORE})


@dataclass(frozen=True, slots=True)
class ShapePlan:
    """The stages of a subscription: conditions for the source and for the index, and the rest."""

    shared: Sequence[Filter]
    condition: Filter | None
    stages: Sequence[Filter]
    before: bool = False  # events have the document before the change


def plan_shape(subscription: Subscription, view: StreamView, *, is_past: bool = False) -> ShapePlan:
    """Divide the stages; `is_past`: the cursor is for this subscription alone.

    A cursor that is shared applies conditions that are the same in every request. With a row filter
    it applies none: a change that moves a document into the rows of a listener is an insertion for
    that listener only. Stages compare strings by their bytes, whatever the collation of the
    collection is: so do the change streams of the database.
    """
    conditions, rest = split_leading(subscription.stages)
    constant = {to_bytes(written) for written in subscription.constant}
    hiding = view.hiding[1:]  # the first one removes parts that records never show
    shared: list[Filter] = []
    indexed: list[Filter] = []
    others: list[Filter] = []
    for condition in conditions:
        is_safe = view.row is None and find_unsafe(condition) is None
        if has_moments(condition) or not _is_visible(condition, view, subscription.shown):
            others.append(condition)
        elif is_safe and (is_past or to_bytes(condition) in constant):
            shared.append(condition)
        elif is_indexable(condition):
            indexed.append(condition)
        else:
            others.append(condition)
    stages = [*hiding, *([{"$match": {"$and": others}}] if others else []), *rest]
    by_index = {"$and": indexed} if indexed else None
    return ShapePlan(shared, by_index, stages, before=subscription.before)


def _is_visible(condition: Filter, view: StreamView, shown: Shown | None) -> bool:
    """Check if hiding properties changes nothing that the condition compares."""
    for key, value in condition.items():
        if key in _LOGICAL:
            if not isinstance(value, list | tuple) or not all(
                isinstance(branch, Mapping) and _is_visible(branch, view, shown) for branch in value
            ):
                return False
        elif not _is_visible_path(key, view, shown):
            return False
    return True


def _is_visible_path(path: str, view: StreamView, shown: Shown | None) -> bool:
    root, _, rest = path.partition(".")
    if root in _NEVER or root[:1] == "$":
        return False
    if root == "operationType" or not (view.hidden or shown):
        return True
    hidden = {".".join(steps): 0 for steps in view.hidden}
    return (
        root == AFTER
        and bool(rest)
        and is_shown(rest, hidden)
        and (not shown or is_shown(rest, shown))
    )


@dataclass(eq=False, slots=True)
class EventShape:
    """Equal stages with equal values; without stages, events are delivered as they are."""

    key: bytes
    plan: ShapePlan
    has_moments: bool
    users: int = 0


@dataclass(eq=False)
class Shapes:
    """The shapes of one source."""

    _store: Store
    _place: CollectionName
    _slots: FilterSlots
    _sample: DecisionSample
    _index: RowIndex = field(default_factory=RowIndex)
    _known: dict[bytes, EventShape] = field(default_factory=dict)

    async def check(self, plan: ShapePlan) -> None:
        """Let the database parse new stages; raise its error."""
        if plan.stages and _identify(plan) not in self._known:
            db, collection = self._place
            stages = fill_moments(plan.stages)
            await self._store.streams.pipelines.check_stages(db, stages, collection=collection)

    def acquire(self, plan: ShapePlan) -> EventShape:
        """Return the shape of this plan; raise `Overloaded` if there are too many."""
        key = _identify(plan)
        shape = self._known.get(key)
        if shape is None:
            if plan.stages:
                self._slots.acquire()
            shape = self._known[key] = EventShape(key, plan, has_moments(plan.stages))
            if plan.condition is not None:
                self._index.add(shape, plan.condition)
        shape.users += 1
        return shape

    def release(self, shape: EventShape) -> None:
        """Subtract a user of the shape; drop the shape after the last one."""
        shape.users -= 1
        if not shape.users:
            del self._known[shape.key]
            self._index.remove(shape)
            if shape.plan.stages:
                self._slots.release()

    async def match(self, record: ChangeRecord, visibility: EventVisibility) -> set[Any]:
        """Return the shapes with a condition that the event meets."""
        if record.is_exact and self._sample.is_trusted:
            return self._index.match(record.show(visibility))
        db, collection = self._place
        shapes = [shape for shape in self._known.values() if shape.plan.condition is not None]
        results = await self._store.streams.pipelines.match_documents(
            db,
            [record.show_raw(visibility)],
            [shape.plan.condition for shape in shapes if shape.plan.condition is not None],
            collection=collection,
        )
        return {
            shape
            for shape, positions in zip(shapes, results, strict=True)
            if positions == frozenset({0})
        }

    async def run(
        self, shape: EventShape, shown: Sequence[Visible], *, promptly: bool = False
    ) -> Sequence[ShapedEvent]:
        """Return what the stages make of each event, None if they remove it, or the error.

        `promptly`: raise the error if they fail on any event or take long.
        """
        if not shape.plan.stages:
            return [
                record.show(visibility, before=shape.plan.before) for record, visibility in shown
            ]
        db, collection = self._place
        stages = fill_moments(shape.plan.stages) if shape.has_moments else shape.plan.stages
        return await self._store.streams.pipelines.run_stages(
            db,
            [record.show_raw(visibility, before=shape.plan.before) for record, visibility in shown],
            stages,
            collection=collection,
            promptly=promptly,
        )


def _identify(plan: ShapePlan) -> bytes:
    parts = {"condition": plan.condition, "stages": plan.stages}
    return to_bytes({**parts, "before": plan.before})
