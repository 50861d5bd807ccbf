"""Prometheus metrics of all workers: open, collect, render.

With several workers the parent calls `prepare_multiprocess` before it starts them, and each of them
calls `join_multiprocess`. Each process then writes its numbers to files in that directory, and the
process that answers `/metrics` adds them up. Call `forget_process` for a process that has ended:
its counts remain, its gauges are removed.

prometheus_client reads the environment when it is imported; importing this module does not import
it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

    from docgraph.observe.meters import Meters

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

# One per process, like the values of prometheus_client.
_meters: Meters | None = None


def prepare_multiprocess(directory: Path) -> None:
    """Let this process and its children share metrics in `directory`, starting from zero."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for stale in directory.glob("*.db"):
        stale.unlink()
    join_multiprocess(directory)


def join_multiprocess(directory: Path) -> None:
    """Let this process count in the `directory` that another one has prepared."""
    if "prometheus_client" in sys.modules:
        raise RuntimeError("metrics of several processes are prepared before anything is counted")
    os.environ[VARIABLE] = str(directory)


def share_metrics(directory: Path) -> None:
    """Count in `directory` together with other processes, unless this one counts already."""
    directory.mkdir(mode=0o700, exist_ok=True)
    if "prometheus_client" not in sys.modules:
        join_multiprocess(directory)


def open_metrics(version: str, lane: str = "python") -> None:
    """Start to count the events of this process; call `close_metrics` at the end.

    `lane` names what renders documents as JSON: `native` or `python`.
    """
    global _meters  # noqa: PLW0603 - one per process
    from docgraph.observe.meters import Meters

    close_metrics()
    _meters = Meters(version, lane, shared=VARIABLE in os.environ)


def close_metrics() -> None:
    """Stop counting; a second call does nothing."""
    global _meters  # noqa: PLW0603 - one per process
    if _meters is not None:
        _meters.close()
        _meters = None


def forget_process(pid: int) -> None:
    """Remove the gauges of an ended process from the sums; the parent calls it."""
    if VARIABLE in os.environ:
        from docgraph.observe.meters import mark_process_dead

        mark_process_dead(pid)  # type: ignore[no-untyped-call]


def collect() -> Iterator[Family]:
    """Collect the current metrics; none before `open_metrics`. As slow as `render`."""
    return iter(()) if _meters is None else _meters.collect()


def render() -> bytes:
    """Render all metrics in the text format; empty before `open_metrics`.

    With several workers this reads files of all of them: do not call it on the event loop.
    """
    return b"" if _meters is None else _meters.render()
