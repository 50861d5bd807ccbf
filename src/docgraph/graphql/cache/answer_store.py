"""Store of cached answers: bounded by bytes, the least recently used answer is dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from docgraph.graphql.freshness.change_watch import ChangeWatch, WatchMark, WatchRegistration
from docgraph.graphql.freshness.dependency import Dependency
from docgraph.observe import emit
from docgraph.observe.engine_events import CacheDropped, CacheSize
from docgraph.runtime import Generations
from docgraph.runtime.clock import elapsed
from docgraph.runtime.shared_memory import find_write_slot

_MAX_MARKS: Final = 1 << 17  # of requests that were missed once, in two generations

_ENTRY_BYTES: Final = 1_000  # an answer, its key and its registration, without their contents
_LARGEST_SHARE: Final = 8  # an answer needs at most one part of so many


@dataclass(eq=False, slots=True)
class CachedAnswer:
    """A finished answer, and the writes of this instance that it includes."""

    content: bytes
    databases: frozenset[str]
    writes: tuple[tuple[int, int], ...]  # slots with their numbers; see `Generations`
    stored: float
    size: int = 0
    is_used: bool = False
    registration: WatchRegistration | None = None


@lru_cache(maxsize=1024)
def _find_slots(namespaces: frozenset[str]) -> tuple[frozenset[str], tuple[int, ...]]:
    """Return the databases of collections, and the slots that count writes to both."""
    databases = frozenset(name.partition(".")[0] for name in namespaces)
    return databases, tuple(sorted(map(find_write_slot, namespaces | databases)))


class AnswerStore:
    """The cached answers of one process."""

    def __init__(
        self,
        watch: ChangeWatch,
        generations: Generations,
        max_bytes: int,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self.bytes = 0
        self._watch = watch
        self._generations = generations
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[bytes, CachedAnswer] = OrderedDict()
        self._admission = AnswerAdmission(self._find_capacity)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: bytes, max_age: int | None) -> tuple[CachedAnswer, float] | None:
        """Return an answer that is not outdated, and its age in seconds."""
        entry = self._entries.get(key)
        if entry is None or not all(map(self._watch.is_current, entry.databases)):
            return None
        age = self._clock() - entry.stored
        if not self._generations.has_no_writes_since(entry.writes):
            self._drop(key, entry, "written")
            return None
        if max_age is not None and age >= max_age:
            self._drop(key, entry, "expired")
            return None
        self._entries.move_to_end(key)
        entry.is_used = True
        return entry, age

    def is_first(self, key: bytes) -> bool:
        """Return whether a request is neither stored nor was missed before, not long ago."""
        return key not in self._entries and self._admission.mark(key)

    def begin(self, key: bytes) -> Sequence[int]:
        """Return the write counters, before the execution of an answer that will be stored."""
        self._admission.remove(key)
        return self._generations.copy_writes()

    def _find_capacity(self) -> int:
        """Return about how many answers there is room for."""
        mean = self.bytes // len(self._entries) if self._entries else 2 * _ENTRY_BYTES
        return self._max_bytes // mean

    def put(
        self,
        key: bytes,
        content: bytes,
        mark: WatchMark,
        writes: Sequence[int],
        dependencies: Sequence[Dependency],
    ) -> bool:
        """Store an answer unless it is too large, or outdated since `mark` and `writes`."""
        databases, slots = _find_slots(
            frozenset([dependency.namespace for dependency in dependencies])
        )
        seen = tuple([(slot, writes[slot]) for slot in slots])
        entry = CachedAnswer(content, databases, seen, self._clock())
        if not databases or not self._generations.has_no_writes_since(seen):
            return False
        on_change = partial(self._drop, key, entry, "changed")
        entry.registration = self._watch.register(mark, dependencies, on_change)
        if entry.registration is None:
            return False
        entry.size = len(content) + entry.registration.bytes + _ENTRY_BYTES
        if entry.size > self._max_bytes // _LARGEST_SHARE:
            self._release(entry)
            return False
        if (previous := self._entries.get(key)) is not None:
            self._remove(key, previous, "evicted")
        self._entries[key] = entry
        self.bytes += entry.size
        while self.bytes > self._max_bytes:
            oldest = next(iter(self._entries))
            self._remove(oldest, self._entries[oldest], "evicted")
        emit(CacheSize(self.bytes))
        return True

    def _drop(self, key: bytes, entry: CachedAnswer, reason: str) -> None:
        if self._entries.get(key) is entry:
            self._remove(key, entry, reason)
            emit(CacheSize(self.bytes))

    def _remove(self, key: bytes, entry: CachedAnswer, reason: str) -> None:
        if entry.is_used:
            self._admission.mark(key)
        del self._entries[key]
        self.bytes -= entry.size
        self._release(entry)
        emit(CacheDropped(reason))

    def _release(self, entry: CachedAnswer) -> None:
        """Forget its dependencies; without the reference, no cycle is left to be collected."""
        registration, entry.registration = entry.registration, None
        if registration is not None:
            registration.release()


class AnswerAdmission:
    """Cache admission: an answer is stored at the second miss of its request within a while.

    Recording what an answer depends on costs more than an answer is worth that no one requests
    again. So the first miss of a request leaves a mark (a hash of its key, in two generations), and
    the next one removes the mark and is stored. An answer that was used leaves a mark when it is
    dropped.

    `capacity` returns for how many answers there is room: an answer is evicted after so many
    others, so older marks are worth nothing.
    """

    def __init__(self, capacity: Callable[[], int]) -> None:
        self._capacity = capacity
        self._room = 0  # for marks in one generation
        self._recent: set[int] = set()
        self._previous: set[int] = set()

    def mark(self, key: bytes) -> bool:
        """Leave a mark for the next miss with this key; return whether there was none."""
        code = hash(key)
        if code in self._recent or code in self._previous:
            return False
        if len(self._recent) >= self._room:
            self._room = min(self._capacity(), _MAX_MARKS) // 2
            self._recent, self._previous = set(), self._recent
        self._recent.add(code)
        return True

    def remove(self, key: bytes) -> None:
        code = hash(key)
        self._recent.discard(code)
        self._previous.discard(code)
