"""Observability: events, and the logging, metrics and tracing that receive them.

All code calls `emit` with an event of `docgraph.observe.events`, and nothing else. Only the server
imports `observe.log` and `observe.prometheus`: the first imports structlog, and the second loads
prometheus_client after `prepare_multiprocess` has set its environment variable.
"""

from docgraph.observe.bus import Listener, emit, leaving_out, subscribe, unsubscribe
from docgraph.observe.event import Event, Level

__all__ = ["Event", "Level", "Listener", "emit", "leaving_out", "subscribe", "unsubscribe"]
