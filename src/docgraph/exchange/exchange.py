"""One request on its way down the staircase and its answer on the way up."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from docgraph.exchange.account import Account
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.parsed import Parsed
from docgraph.exchange.request import Request
from docgraph.exchange.response import Answer

__all__ = ["Admission", "Exchange", "Permission"]

_NO_DEADLINE = Deadline()


@dataclass(frozen=True, slots=True)
class Permission:
    """What admitted the request, and the conditions it was admitted under, resolved.

    `read_filters` are the row filters by `<db>.<collection>` that every read has to pass to the
    store; `read_filter` is the plain one of the rule, for `@dbPermissions`. `namespace` is the
    collection that the request itself addresses, the one that `write_filter`, `merge_request` and
    `project_response` are about. `properties` is the whole `mongo` block of the rule. With
    `is_momentary` the row filters have the time in them: the next request gets others.
    """

    rule: str
    read_filter: Mapping[str, Any] | None = None
    read_filters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    namespace: str | None = None
    write_filter: Mapping[str, Any] | None = None
    merge_request: Mapping[str, Any] | None = None
    project_response: Mapping[str, int] | None = None
    is_momentary: bool = False


class Admission(Protocol):
    """Who calls, and whether they may: asked again while an answer goes on for long."""

    async def readmit(self, exchange: Exchange) -> Exchange:
        """The same request, judged as if it came now; raises what would refuse it."""
        ...


@dataclass(slots=True)
class Exchange:
    """Stages return values; the pipeline puts them here. `attributes` belong to plugins.

    `is_renewal`: the request was admitted before, and is only judged again.
    """

    request: Request
    id: str
    started: float = field(default_factory=time.perf_counter)
    deadline: Deadline = _NO_DEADLINE
    service: str = ""
    app: str = ""  # the GraphQL app, where one was asked
    operation: str = ""  # the stored operation of the app, where one was named
    error: str = ""  # the code of the error that became the answer
    account: Account | None = None
    parsed: Parsed | None = None  # the request as the service will carry it out
    permission: Permission | None = None
    answer: Answer | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    admission: Admission | None = None
    is_renewal: bool = False

    @property
    def roles(self) -> tuple[str, ...]:
        """The caller's roles; an anonymous caller has none."""
        return self.account.roles if self.account else ()
