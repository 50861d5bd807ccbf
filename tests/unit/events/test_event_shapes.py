"""Where the conditions of a stream are evaluated: what is hidden decides about no event."""

from __future__ import annotations

from typing import Any, cast

import pytest

from docgraph.events.event_log import FilterSlots
from docgraph.events.event_shapes import ShapePlan, Shapes, plan_shape
from docgraph.events.row_index import DecisionSample
from docgraph.exchange import Document, Subscription
from docgraph.exchange.errors import Overloaded
from docgraph.store.streams import StreamView

HIDING = {"$unset": "fullDocument.secret"}
OPEN = StreamView(None, ({}, HIDING), ())
PLAIN = StreamView(None, (), ())
HIDDEN = StreamView(None, ({}, HIDING), (("secret",),))


def plan(condition: Any, view: StreamView = OPEN, shown: Any = None, **more: Any) -> ShapePlan:
    asked = Subscription("d", "c", "all", ({"$match": condition},), "STANDARD", shown=shown, **more)
    return plan_shape(asked, view)


def late(*conditions: Document) -> list[Document]:
    return [HIDING, {"$match": {"$and": list(conditions)}}]


A, B = {"fullDocument.a": 1}, {"fullDocument.b": 2}


@pytest.mark.parametrize("condition", [A, {"$or": [A, B]}, {"operationType": "insert"}])
@pytest.mark.parametrize(
    ("view", "shown"),
    [(OPEN, None), (HIDDEN, None), (OPEN, {"secret": 0}), (OPEN, {"a": 1, "b": 1})],
)
def test_conditions_on_what_the_caller_sees_are_evaluated_in_memory(
    condition: Document, view: StreamView, shown: Any
) -> None:
    found = plan(condition, view, shown)

    assert (found.condition, found.stages) == ({"$and": [condition]}, [HIDING])


@pytest.mark.parametrize(
    "condition",
    [
        {"fullDocument.secret": 1},
        {"fullDocument.secret.part": 1},
        {"fullDocument": {"secret": 1}},
        {"documentKey._id": 1},
        {"ns.coll": "c"},
        {"$or": [A, {"fullDocument.secret": 1}]},
        {"$nor": [{"$or": [{"fullDocument.secret": 1}]}]},
        {"$or": A},
        {"$or": [1]},
    ],
)
@pytest.mark.parametrize(("view", "shown"), [(HIDDEN, None), (OPEN, {"secret": 0})])
def test_conditions_on_what_is_hidden_are_evaluated_after_it_was_hidden(
    condition: Document, view: StreamView, shown: Any
) -> None:
    found = plan(condition, view, shown)

    assert (found.condition, list(found.shared)) == (None, [])
    assert found.stages == late(condition)


@pytest.mark.parametrize(
    "condition", [{"fullDocumentBeforeChange.a": 1}, {"to.db": "d"}, {"$expr": "$fullDocument.a"}]
)
def test_conditions_on_parts_that_depend_on_the_listener_are_evaluated_late(
    condition: Document,
) -> None:
    found = plan(condition)

    assert (found.condition, found.stages) == (None, late(condition))


def test_conditions_that_are_the_same_in_every_request_are_those_of_the_cursor() -> None:
    """Unless there is a row filter: what enters the rows of a listener is an insertion for it."""
    found = plan({"$and": [A, B]}, constant=(A,))
    assert (list(found.shared), found.condition) == ([A], {"$and": [B]})
    rows = StreamView({"owner": "eve"}, ({}, HIDING), ())
    found = plan({"$and": [A, B]}, rows, constant=(A,))
    assert (list(found.shared), found.condition) == ([], {"$and": [A, B]})


def test_a_shape_takes_one_slot_until_its_last_user_leaves() -> None:
    """The database decides about shapes with stages, so that their number is bounded."""
    slots = FilterSlots(1)
    shapes = Shapes(cast("Any", None), ("d", "c"), slots, cast("DecisionSample", None))
    first = shapes.acquire(plan({"to.db": "d"}))
    assert shapes.acquire(plan({"to.db": "d"})) is first
    with pytest.raises(Overloaded):
        shapes.acquire(plan({"to.db": "e"}))
    shapes.release(first)
    with pytest.raises(Overloaded):
        shapes.acquire(plan({"to.db": "e"}))

    shapes.release(first)
    second = shapes.acquire(plan({"to.db": "e"}))
    plain = shapes.acquire(plan_shape(Subscription("d", "c", "all", (), "STANDARD"), PLAIN))
    assert (slots.count, second.users, plain.users) == (1, 1, 1)
