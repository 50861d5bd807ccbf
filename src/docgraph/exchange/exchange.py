"""One request on its way down the staircase and its answer on the way up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from docgraph.exchange.account import Account
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.parsed import Parsed
from docgraph.exchange.request import Request
from docgraph.exchange.response import Answer

__all__ = ["Admission", "Exchange", "Permission", "Transaction", "Visit", "transaction_of"]

_NO_DEADLINE = Deadline()


def _stay() -> None:
    """An exchange that no connection made holds no place."""


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

    async def admit_entry(self, exchange: Exchange) -> Answer | None:
        """Judge a request of a batch; raises what refuses it. An answer takes the service's place.

        Its caller is that of the batch.
        """
        ...

    async def serve_entry(self, exchange: Exchange) -> Answer:
        """The answer of the service to an admitted request of a batch; raises why there is none."""
        ...

    async def finish_entry(self, exchange: Exchange) -> Answer | None:
        """The answer of a request of a batch as interceptors leave it."""
        ...


class Visit(Protocol):
    """What limits for callers count of a request; it has to `end`, whatever becomes of that."""

    def identify(self, account: Account | None) -> None:
        """Count it by its user and roles, now that they are known; raises `TooManyRequests`."""
        ...

    def count_entries(self, number: int, account: Account | None) -> None:
        """Count a batch as so many requests, itself included; raises `TooManyRequests`."""
        ...

    def end(self, exchange: Exchange) -> None:
        """Give back what it holds, and tell the caller what is left."""
        ...


class Transaction(Protocol):
    """Reads and writes that count together or not at all; the store makes and understands it.

    `kept` is for what is too expensive to be made anew when the transaction is tried again.
    """

    kept: dict[Any, Any]

    @property
    def is_open(self) -> bool:
        """Whether it can still be used; after a failure what is read is what is stored."""
        ...


@dataclass(slots=True)
class Exchange:
    """Stages return values; the pipeline puts them here. `attributes` belong to plugins.

    `is_renewal`: the request was admitted before, and is only judged again. `is_entry`: it came in
    a batch, whose caller is its caller; `transaction` is then what it reads and writes in.
    """

    request: Request
    id: str
    started: float = field(default_factory=time.perf_counter)
    deadline: Deadline = _NO_DEADLINE
    service: str = ""
    route: tuple[str, ...] | None = None  # the segments that the service is bound to
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
    visit: Visit | None = None
    is_renewal: bool = False
    is_entry: bool = False
    transaction: Transaction | None = None
    entries: int = 0  # how many requests a batch holds
    leave_queue: Callable[[], None] = _stay  # for what is counted and bounded in another way

    @property
    def roles(self) -> tuple[str, ...]:
        """The caller's roles; an anonymous caller has none."""
        return self.account.roles if self.account else ()


def transaction_of(exchange: Exchange | None) -> Transaction | None:
    """What reads that belong to the exchange are made in, where there is something."""
    return None if exchange is None else exchange.transaction
