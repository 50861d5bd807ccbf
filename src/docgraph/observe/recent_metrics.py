"""Recent metrics and GraphQL operations, in bounded files that all workers share."""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from docgraph.observe import prometheus
from docgraph.observe.engine_events import OperationFinished
from docgraph.observe.event import Event
from docgraph.observe.metric_list import SECONDS

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.samples import Sample


INTERVAL: Final = 30.0  # seconds between two points
MAX_POINTS: Final = 61  # half an hour
MAX_SERIES: Final = 2_000
_EARLY: Final = 0.9  # of the interval: the clocks of workers do not tick together
_LEFT_OUT: Final = ("docgraph_info", "docgraph_mcp_call_duration_seconds")
_NOT_NEEDED: Final = ("_sum", "_count", "_created")  # of a histogram: its buckets are enough


class MetricsPoint(msgspec.Struct):
    """The values at one time (in seconds), by sample as `/metrics` writes it."""

    at: float
    values: dict[str, float]


class MetricsHistory:
    """The values of the last half hour, in a directory that all workers share.

    Whichever worker comes first records a point; it reads the merged metrics of all of them. The
    first point has all values, each later one those that have changed since. A point that is too
    old is merged into the next one. `collect` returns the current metrics. The methods block: call
    them in a thread.
    """

    def __init__(
        self,
        directory: Path,
        collect: Callable[[], Iterable[Family]] = prometheus.collect,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = directory / "metrics-history.json"
        self._collect = collect
        self._now = now

    def load(self) -> list[MetricsPoint]:
        """Return the points, the oldest first."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[MetricsPoint])
        except (FileNotFoundError, msgspec.DecodeError):
            return []  # the next point writes the file again

    def record(self) -> None:
        """Add the current values, unless another worker has just done so."""
        with self._lock():
            points, now = self.load(), self._now()
            if points and 0 <= now - points[-1].at < INTERVAL * _EARLY:
                return
            values = dict(_find_values(self._collect()))
            latest: dict[str, float] = {}
            for point in points:
                latest |= point.values
            changed = {name: value for name, value in values.items() if latest.get(name) != value}
            points.append(MetricsPoint(now, changed))
            while len(points) > MAX_POINTS:
                oldest = points.pop(0)
                points[0].values = oldest.values | points[0].values
            save_json(self._path, points)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        fd = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def save_json(path: Path, content: object) -> None:
    """Write a file that only its owner can read; readers see all of it or the previous one."""
    fresh = path.with_suffix(".new")
    with open(fresh, "wb", opener=partial(os.open, mode=0o600)) as file:
        file.write(msgspec.json.encode(content))
    fresh.replace(path)


def _find_values(families: Iterable[Family]) -> Iterator[tuple[str, float]]:
    """Return the first `MAX_SERIES` samples with their values."""
    left = MAX_SERIES
    for family in families:
        if family.name in _LEFT_OUT:
            continue
        for sample in family.samples:
            if family.type == "histogram" and sample.name.endswith(_NOT_NEEDED):
                continue
            if not left:
                return
            left -= 1
            yield _render_name(sample), sample.value


def _render_name(sample: Sample) -> str:
    if not sample.labels:
        return sample.name
    labels = ",".join(f'{name}="{_escape(value)}"' for name, value in sample.labels.items())
    return f"{sample.name}{{{labels}}}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


MAX_OPERATIONS: Final = 200  # of a worker in a window
MAX_TEXT: Final = 2_000  # characters; the rest of a longer query is not read
_MAX_NAME: Final = 100  # characters
WINDOW: Final = 900.0  # seconds
OTHERS: Final = "other operations"
_FILES: Final = "operations-"
_HIDDEN: Final = "…"
# As GraphQL reads it: a quote in a comment begins no string.
_TEXTS: Final = r'"""(?:\\"""|(?!""").)*(?:"""|$)|"(?:[^"\\\n\r]|\\[^\n\r])*"?|#[^\n\r]*'
_WORD: Final = re.compile(_TEXTS + r"|[_A-Za-z]\w*|-?\d[\w.+-]*|\.{3}|[^\s,]", re.DOTALL)
# Cheap enough for the event loop: most literals, so that equal operations are counted together.
_FREQUENT: Final = re.compile(_TEXTS + r"|(?<!\w)-?\d[\w.+-]*", re.DOTALL)
_NAMED: Final = re.compile(r"\s*(?:query|mutation|subscription)\s+([_A-Za-z]\w*)")
_SPACE: Final = re.compile(r" (?=[():!\]])|(?<=[(\[$@]) ")
_OperationKey = tuple[str, str, str]


class OperationTally(msgspec.Struct):
    """An operation of an app; unnamed ones are distinguished by their texts.

    `times` counts durations by bucket, `slowest` (in seconds) and `at` are those of `text`.
    """

    app: str
    operation: str
    text: str = ""
    count: int = 0
    failed: int = 0
    times: list[int] = msgspec.field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    slowest: float = 0.0
    at: float = 0.0

    def merge(self, other: OperationTally) -> None:
        self.count += other.count
        self.failed += other.failed
        self.times = [count + more for count, more in zip(self.times, other.times, strict=True)]
        if other.slowest >= self.slowest:
            self.slowest, self.at, self.text = other.slowest, other.at, other.text


_Saved = tuple[float, list[OperationTally]]


class OperationStatistics:
    """Counts, times and the slowest text of each operation, without literals.

    Each worker counts its own operations in two windows, the current quarter of an hour and the one
    before it, and saves them to a file in `directory`. Any worker merges the files.
    """

    def __init__(self, directory: Path, worker: int, now: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._path = directory / f"{_FILES}{worker}.json"
        self._now = now
        self._lock = threading.Lock()
        self._begun = now()
        self._current: dict[_OperationKey, OperationTally] = {}
        self._previous: dict[_OperationKey, OperationTally] = {}

    def count(self, event: Event) -> None:
        """Count an operation that has ended; a listener of events."""
        if not isinstance(event, OperationFinished):
            return
        with self._lock:
            if not 0 <= self._now() - self._begun < WINDOW:
                self._rotate()
            text, name = _mask(event.text[:MAX_TEXT])
            named = (event.operation or name)[:_MAX_NAME]
            key = (event.app, named, "" if named else text)
            tally = self._current.get(key) or self._add(key)
            tally.count += 1
            tally.failed += not event.ok
            tally.times[bisect_left(SECONDS, event.duration)] += 1
            if event.duration >= tally.slowest and tally.operation != OTHERS:
                tally.slowest, tally.at, tally.text = event.duration, self._now(), text

    def save(self) -> None:
        """Write the tallies of this worker for the others; it blocks."""
        with self._lock:
            self._rotate()
            tallies = deepcopy([*self._previous.values(), *self._current.values()])
        for tally in tallies:
            tally.text = strip_literals(tally.text)
        save_json(self._path, (self._now(), tallies))

    def load(self) -> list[OperationTally]:
        """Return the operations of all workers; it blocks."""
        merged: dict[_OperationKey, OperationTally] = {}
        for path in sorted(self._directory.glob(f"{_FILES}*.json")):
            try:
                at, tallies = msgspec.json.decode(path.read_bytes(), type=_Saved)
            except msgspec.DecodeError:
                continue  # its worker writes it again
            if self._now() - at < 2 * WINDOW:  # else of a worker that has ended
                _merge(merged, tallies)
        return list(merged.values())

    def _rotate(self) -> None:
        passed = self._now() - self._begun
        if 0 <= passed < WINDOW:
            return
        self._previous = self._current if passed < 2 * WINDOW else {}
        self._current, self._begun = {}, self._now()

    def _add(self, key: _OperationKey) -> OperationTally:
        if len(self._current) >= MAX_OPERATIONS:
            key = ("", OTHERS, "")
        return self._current.setdefault(key, OperationTally(key[0], key[1]))


def _merge(merged: dict[_OperationKey, OperationTally], tallies: Iterable[OperationTally]) -> None:
    for tally in tallies:
        key = (tally.app, tally.operation, "" if tally.operation else tally.text)
        counted = merged.get(key)
        if counted is None:
            merged[key] = tally
        else:
            counted.merge(tally)


@lru_cache(maxsize=MAX_OPERATIONS)
def _mask(text: str) -> tuple[str, str]:
    """Return a query without most literals, and the name of its first operation, if it has one."""
    masked = _FREQUENT.sub(lambda literal: "" if literal[0][0] == "#" else _HIDDEN, text)
    named = _NAMED.match(masked)
    return masked, named[1] if named else ""


def strip_literals(query: str) -> str:
    """Return a query in one line, with `…` in place of each literal; names and variables remain."""
    words = [word for word in _WORD.findall(query[:MAX_TEXT]) if word[0] != "#"]
    shown: list[str] = []
    definitions: list[bool] = []  # for each open parenthesis: variables are defined in it
    is_default = False
    for number, (word, following) in enumerate(zip_longest(words, words[1:], fillvalue="")):
        if word == "(":
            definitions.append(following == "$")
        elif word == ")" and definitions:
            definitions.pop()
        is_default = word == "=" or (is_default and word not in ("$", ")"))
        is_type = bool(definitions) and definitions[-1] and not is_default
        is_name = not definitions or is_type or following == ":" or words[number - 1] in ("$", "@")
        is_word = word[0] == "_" or word[0].isalpha()
        is_shown = word[0] not in '"-0123456789' and (is_name or not is_word)
        shown.append(word if is_shown else _HIDDEN)
    return _SPACE.sub("", " ".join(shown))[:MAX_TEXT]
