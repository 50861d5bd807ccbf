"""What docgraph says about itself: events, and the log and the metrics that are fed from them.

Everybody calls `emit` with one of `docgraph.observe.events`, and nothing else. `observe.log` and
`observe.metrics` are imported by the server alone: the first brings structlog with it, and the
second reads the environment that `prepare_multiprocess` sets when it is imported.
"""

from docgraph.observe.bus import Listener, emit, leaving_out, subscribe, unsubscribe
from docgraph.observe.event import Event, Level

__all__ = ["Event", "Level", "Listener", "emit", "leaving_out", "subscribe", "unsubscribe"]
