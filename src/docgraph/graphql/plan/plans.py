"""Plan cache: bounded over all apps; a plan lives no longer than its visible app.

A plan is stored with its visible app, so an app that was replaced, deleted or evicted from its
cache takes its plans along. This module stores only their order of use, which bounds their number
over all apps, with weak references.
"""

from __future__ import annotations

from collections import deque
from weakref import ref

from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.plan.plan import Plan
from docgraph.runtime import LruDict

PlanKey = tuple[bool, str | None, str]
"""Whether introspection is allowed, the name of the operation, the text."""


class Plans:
    """At most `size` plans of all apps together (LRU)."""

    def __init__(self, size: int) -> None:
        self._used: LruDict[ref[Plan], PlanKey] = LruDict(size)
        # The garbage collector may call from anywhere, even in the middle of a change of `_used`.
        self._gone: deque[ref[Plan]] = deque()

    def get(self, app: VisibleApp, key: PlanKey) -> Plan | None:
        """Return the plan and mark it as used, or None."""
        plan: Plan | None = app.plans.get(key)
        if plan is not None:
            self._used.get(ref(plan))
        return plan

    def put(self, app: VisibleApp, key: PlanKey, plan: Plan) -> None:
        """Add a plan of an app; evict the least recently used one of any app if necessary."""
        self._sweep()
        replaced: Plan | None = app.plans.get(key)
        if replaced is not None:
            self._used.pop(ref(replaced))
        app.plans[key] = plan
        dropped = self._used.put(ref(plan, self._gone.append), key)
        if dropped is not None and (oldest := dropped[0]()) is not None:
            del oldest.app.plans[dropped[1]]

    def _sweep(self) -> None:
        """Drop the entries of plans that were freed with their apps."""
        while self._gone:
            self._used.pop(self._gone.popleft())

    def __len__(self) -> int:
        self._sweep()
        return len(self._used)
