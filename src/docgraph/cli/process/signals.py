"""Signals that come before the server takes them itself."""

from __future__ import annotations

import signal
from types import FrameType

__all__ = ["end_start_by_signals"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def end_start_by_signals() -> None:
    """Let a signal end the start in order, with 0: whoever stops a server has not seen it fail."""
    for one in _SIGNALS:
        signal.signal(one, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    for one in _SIGNALS:
        signal.signal(one, signal.SIG_IGN)  # what has been started is stopped in peace
    raise SystemExit(0)
