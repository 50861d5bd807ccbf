"""The plans that are kept, each no longer than the part of an app that it is for.

A plan lives with its visible app, so an app that was replaced, deleted or pushed out of its cache
takes its plans along. What is held here is only their order of use, which bounds their number over
all apps, and it holds nothing alive.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from weakref import ref

from docgraph.graphql.apps.app import VisibleApp
from docgraph.graphql.plan.plan import Plan

__all__ = ["PlanKey", "Plans"]

PlanKey = tuple[bool, str | None, str]
"""Whether introspection is allowed, the name of the operation, the text."""


class Plans:
    """At most `size` plans of all apps together; the least recently used goes first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._used: OrderedDict[ref[Plan], PlanKey] = OrderedDict()
        # The collector may call from anywhere, even in the middle of a change of `_used`.
        self._gone: deque[ref[Plan]] = deque()

    def get(self, app: VisibleApp, key: PlanKey) -> Plan | None:
        """The plan, which is the youngest again, or None."""
        plan: Plan | None = app.plans.get(key)
        if plan is not None:
            self._used.move_to_end(ref(plan))
        return plan

    def put(self, app: VisibleApp, key: PlanKey, plan: Plan) -> None:
        """Keep a plan of an app; the oldest one of any app goes when there is no room."""
        self._sweep()
        replaced: Plan | None = app.plans.get(key)
        if replaced is not None:
            self._used.pop(ref(replaced))
        app.plans[key] = plan
        self._used[ref(plan, self._gone.append)] = key
        if len(self._used) > self._size:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest, key = self._used.popitem(last=False)
        plan = oldest()
        if plan is not None:
            del plan.app.plans[key]

    def _sweep(self) -> None:
        """Forget those that went with their apps."""
        while self._gone:
            self._used.pop(self._gone.popleft(), None)

    def __len__(self) -> int:
        self._sweep()
        return len(self._used)
