"""Exchange: one request with its response and caller; and subscriptions to change streams."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline, keep_place
from docgraph.exchange.errors import DocgraphError
from docgraph.exchange.parsed import Parsed
from docgraph.exchange.request import Account, Request
from docgraph.exchange.response import Answer

_NO_DEADLINE = Deadline()


class RowFilters(dict[str, Mapping[str, Any]]):
    """Row filters by `<db>.<collection>`.

    `unnamed`: a rule that filters rows does not name these in its `readFilters` (decision 58), like
    the collection of a request with a plain `readFilter`.
    """

    unnamed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Permission:
    """The rule that admitted the request, and its resolved conditions.

    `read_filters` are the row filters by `<db>.<collection>` that every read has to pass to the
    store; `read_filter` is the plain one of the rule, for `@dbPermissions`. `namespace` is the
    collection that the request itself addresses; `write_filter`, `merge_request` and
    `project_response` apply to it. `properties` is the whole `mongo` block of the rule.
    `variables` are the `@…` expressions in the row filters.
    """

    rule: str
    read_filter: Mapping[str, Any] | None = None
    read_filters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    namespace: str | None = None
    write_filter: Mapping[str, Any] | None = None
    merge_request: Mapping[str, Any] | None = None
    project_response: Mapping[str, int] | None = None
    variables: frozenset[str] = frozenset()


class Admission(Protocol):
    """Authentication and authorization for long responses and for the requests of a batch."""

    async def readmit(
        self, exchange: Exchange, *, is_counted: bool = False, is_renewal: bool = True
    ) -> Exchange:
        """Authorize the request again as if it came now; raise the error that rejects it.

        `is_counted`: it counts in the limits of its caller; end its `visit` in any case. Without
        `is_renewal` it has credentials that were not checked before.
        """

    async def admit_entry(self, exchange: Exchange) -> Answer | None:
        """Authorize a request of a batch; raise its rejection. A response replaces the service's.

        The batch's caller is its caller.
        """

    async def serve_entry(self, exchange: Exchange) -> Answer:
        """Return the service's response to an admitted request of a batch; raise its error."""

    async def finish_entry(self, exchange: Exchange) -> Answer | None:
        """Return the response to a request of a batch after the interceptors."""


class Visit(Protocol):
    """Rate limit accounting of one request; call `end` in every case."""

    def identify(self, account: Account | None) -> None:
        """Count the request for its user and roles; raise `TooManyRequests`."""

    def count_entries(self, number: int, account: Account | None) -> None:
        """Count a batch as that many requests, itself included; raise `TooManyRequests`."""

    def end(self, exchange: Exchange) -> None:
        """Release its places, and add the rest of the quota to the response."""


class Transaction(Protocol):
    """Reads and writes that are applied together or not at all; created by the store.

    `kept` is for values that are too expensive to build again when the transaction is retried.
    """

    kept: dict[Any, Any]

    @property
    def is_open(self) -> bool:
        """Whether it can still be used; after a failure, reads see the stored data."""


class _WithMatch:
    """Caches what the rule book has found, with its causes; a copy of the exchange has none."""

    __slots__ = ("rule_match",)

    rule_match: Any


@dataclass(slots=True, weakref_slot=True)
class Exchange(_WithMatch):
    """One request with its response; the pipeline stores the results of its stages here.

    `attributes` belong to plugins. `is_renewal`: the request was admitted before and is only
    authorized again. `is_entry`: it came in a batch, whose caller is its caller; `transaction` is
    then the transaction of the batch.
    """

    request: Request
    id: str
    started: float = field(default_factory=time.perf_counter)
    deadline: Deadline = _NO_DEADLINE
    service: str = ""
    route: tuple[str, ...] | None = None  # the segments that the service is bound to
    app: str = ""  # the GraphQL app, if one was requested
    operation: str = ""  # the stored operation of the app, if one was named
    error: str = ""  # the code of the error that became the response
    rejection: DocgraphError | None = None  # why it is rejected, for interceptors of that
    account: Account | None = None
    parsed: Parsed | None = None  # the request as the service will execute it
    permission: Permission | None = None
    answer: Answer | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    admission: Admission | None = None
    visit: Visit | None = None
    is_renewal: bool = False
    is_entry: bool = False
    transaction: Transaction | None = None
    entries: int = 0  # how many requests a batch has
    leave_queue: Callable[[], None] = keep_place  # for work that is bounded in another way
    # The same for a wait only: after it, the request waits for a place again.
    outside_queue: Callable[[], AbstractAsyncContextManager[None]] = nullcontext

    @property
    def is_authorized_later(self) -> bool:
        """Whether it opens a WebSocket whose messages are authorized one by one."""
        is_socket, parsed = self.request.connection.is_websocket, self.parsed
        return is_socket and parsed is not None and parsed.is_authorized_later

    @property
    def roles(self) -> tuple[str, ...]:
        """The caller's roles; an anonymous caller has none."""
        return self.account.roles if self.account else ()


@contextmanager
def releasing_rate_limit(exchange: Exchange) -> Iterator[None]:
    """End the `visit`, which counts in rate limits, of a request that is rejected."""
    try:
        yield
    except BaseException:
        if exchange.visit is not None:
            exchange.visit.end(exchange)
        raise


def transaction_of(exchange: Exchange | None) -> Transaction | None:
    """Return the transaction for reads of the exchange, if there is one."""
    return None if exchange is None else exchange.transaction


@dataclass(frozen=True, slots=True)
class NotifyWhen:
    """The events of a cursor that one client wants: `value` is at `path`, or in it."""

    path: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """A stream as one client sees it, with the variables of the request and its permissions.

    `row` and `shown` are the `readFilter` and `projectResponse` of the permission. `images`: the
    database stores documents as they were before and after a change. `with_ids`: events have their
    resume token and their time. `constant`: conditions of the first stages that are the same in
    every request. `before`: events have the document before the change. `row` and `stages` contain
    marks in place of the current time (`@now`).

    The REST API parses which stream is requested, and its permissions; `events` has the cursors and
    the connections. The two do not import each other and share these values.
    """

    db: str
    collection: str
    uri: str
    stages: tuple[Document, ...]
    json_mode: str
    row: Mapping[str, Any] | None = None
    shown: Mapping[str, int] | None = None
    images: bool = False
    with_ids: bool = False
    notify_when: NotifyWhen | None = None
    constant: tuple[Document, ...] = ()
    before: bool = False


# Returns the subscription that the same request would get now; raises its rejection.
Renew = Callable[[], Awaitable[Subscription]]


class WatchedIsGone(Exception):
    """Raised when the collection no longer exists: the stream itself reports it, and ends."""


class Snapshot(Protocol):
    """The documents that a client gets before the events, all at one cluster time."""

    async def open(self) -> Any:
        """Find the documents; return their cluster time. Raise if there are too many."""

    async def read(self, count: int) -> list[Document] | None:
        """Return the next documents, about so many; None when all were read."""


class EventStreams(Protocol):
    """Answers requests for change streams; it owns the cursors and connections."""

    async def answer(
        self,
        exchange: Exchange,
        subscription: Subscription,
        renew: Renew,
        snapshot: Snapshot | None = None,
    ) -> Answer:
        """Open a WebSocket or server-sent events; raise the error that rejects the request."""
