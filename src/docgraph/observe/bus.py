"""Passes events from the code that emits them to listeners: `emit`, `subscribe`, `unsubscribe`.

The listeners are the one piece of state that a process has for all of its parts: code that emits
an event should not need to be handed an object for it. `emit` never raises; it never blocks
because listeners must not (the log hands its lines to a thread). It may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable

from docgraph.observe.events import Event, ObserverFailed

__all__ = ["Listener", "emit", "subscribe", "unsubscribe"]

Listener = Callable[[Event], None]

# Replaced as a whole, never changed in place: another thread may just walk through it.
_listeners: tuple[Listener, ...] = ()


def subscribe(listener: Listener) -> None:
    """Call `listener` with every event from now on; it must return at once."""
    global _listeners  # noqa: PLW0603 - see the module's docstring
    _listeners = (*_listeners, listener)


def unsubscribe(listener: Listener) -> None:
    """Undo `subscribe`; a listener that is not there is no error."""
    global _listeners  # noqa: PLW0603 - see the module's docstring
    _listeners = tuple(known for known in _listeners if known != listener)


def emit(event: Event) -> None:
    """Call all listeners; the failure of one is emitted as an event of its own."""
    for listener in _listeners:
        try:
            listener(event)
        except Exception as error:
            if not isinstance(event, ObserverFailed):  # a failed report is not reported again
                emit(ObserverFailed(event=event.name, error=error))
