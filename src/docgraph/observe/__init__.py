"""Observability: events, and the logging, metrics and tracing that receive them.

All code calls `emit` with an event of `docgraph.observe.events`, and nothing else. Only the server
imports `observe.log` and `observe.prometheus`: the first imports structlog, and the second loads
prometheus_client after `prepare_multiprocess` has set its environment variable.

The listeners of this event bus are the one piece of state that all parts of a process share: code
that emits an event should not need to be passed an object for it. `emit` never raises. It never
blocks because listeners must not (the log passes its lines to a thread). It may be called from any
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from docgraph.observe.event import Event, Level
from docgraph.observe.events import ObserverFailed

__all__ = [
    "Event",
    "Level",
    "Listener",
    "emit",
    "leaving_out",
    "subscribe",
    "subscribe_each",
    "unsubscribe",
]

Listener = Callable[[Event], None]
Wants = Callable[[type[Event]], bool]


FindListener = Callable[[type[Event]], Listener | None]


class _Listeners:
    """The listeners in order, and by kind of event; a kind is looked up at its first event."""

    def __init__(
        self,
        known: tuple[tuple[object, FindListener], ...] = (),
        left_out: frozenset[type[Event]] = frozenset(),
    ) -> None:
        self.known = known
        self.left_out = left_out
        self.by_kind: dict[type[Event], tuple[Listener, ...]] = {}

    def collect(self, kind: type[Event]) -> tuple[Listener, ...]:
        heard = () if kind in self.left_out else self.known
        listeners = (find(kind) for _, find in heard)
        wanting = self.by_kind[kind] = tuple(
            listener for listener in listeners if listener is not None
        )
        return wanting


# Replaced as a whole: another thread may be iterating over it.
_listeners = _Listeners()


def subscribe(listener: Listener, wants: Wants = lambda kind: True) -> None:
    """Call `listener` with every event of a kind that it wants; it must not block."""
    subscribe_each(listener, lambda kind: listener if wants(kind) else None)


def subscribe_each(owner: object, find: FindListener) -> None:
    """Call what `find` returns for a kind with its events; `unsubscribe` the owner."""
    global _listeners  # noqa: PLW0603 - see the module's docstring
    _listeners = _Listeners((*_listeners.known, (owner, find)), _listeners.left_out)


def unsubscribe(owner: object) -> None:
    """Undo `subscribe` of a listener, or `subscribe_each`; an unknown one is no error."""
    global _listeners  # noqa: PLW0603 - see the module's docstring
    others = tuple(listener for listener in _listeners.known if listener[0] != owner)
    _listeners = _Listeners(others, _listeners.left_out)


@contextmanager
def leaving_out(kinds: Collection[type[Event]]) -> Iterator[None]:
    """Suppress these kinds in this block: the work that follows it emits them."""
    global _listeners  # noqa: PLW0603 - see the module's docstring
    before = _listeners.left_out
    _listeners = _Listeners(_listeners.known, before.union(kinds))
    try:
        yield
    finally:
        _listeners = _Listeners(_listeners.known, before)


def emit(event: Event) -> None:
    """Call all listeners; the failure of one is emitted as an event of its own."""
    listeners, kind = _listeners, type(event)
    heard = listeners.by_kind.get(kind)
    for listener in listeners.collect(kind) if heard is None else heard:
        try:
            listener(event)
        except Exception as error:
            if not isinstance(event, ObserverFailed):  # a failed report is not reported again
                emit(ObserverFailed(event=event.name, error=error))
