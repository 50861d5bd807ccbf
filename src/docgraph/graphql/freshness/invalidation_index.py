"""Invalidation index: which registrations a change of the database concerns.

A change event shows the new state of a document, and a deletion only its `_id`. A dependency with
keys is found by the values of one of its paths, its anchor. The rules:

- An insertion concerns the dependencies whose keys the new document has.
- An update concerns those that contain the `_id`, those whose anchor has a value of the document as
  it is now, and, if it touches the path of an anchor, all of that anchor: its previous value is not
  known. Other paths of a dependency decide nothing here, since the document may be newer than the
  event, and another event may have changed them.
- A deletion concerns those that contain the `_id`, and the open ones. So does an update whose
  document no longer exists.
- A replacement is a deletion and an insertion.
- Every change of the collection concerns a dependency without keys, and every other event concerns
  all dependencies.

Most answers are dropped before anything changes, so a registration waits until the next change
before its keys are entered into the tables (`flush`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from sys import getsizeof
from typing import Final, NamedTuple

from docgraph.codec.equality import EqualityKey, candidate_keys
from docgraph.exchange import Document
from docgraph.exchange.data import FieldPath
from docgraph.graphql.freshness.change_facts import ChangeFacts, is_touched, split_path
from docgraph.graphql.freshness.dependency import Dependency
from docgraph.runtime import LruDict

_ENTRY_BYTES: Final = 200  # of an entry in sets and tables, without its key
_BASE_BYTES: Final = 500  # of a registration
_KEPT_COLLECTIONS: Final = 1_000  # without dependents, whose counts are remembered
_KEPT_PATHS: Final = 100
_ID: Final = "_id"


@dataclass(eq=False, slots=True)
class Registration:
    """A listener that is notified once, when one of its dependencies changes."""

    dependencies: tuple[Dependency, ...]
    on_change: Callable[[], None]
    bytes: int = 0  # that the index needs for it
    anchors: list[_Anchored] = field(default_factory=list, repr=False)


class _Anchored(NamedTuple):
    """A dependency with keys, and the path that finds it."""

    registration: Registration
    dependency: Dependency
    path: str

    def is_met(self, document: Document) -> bool:
        """Return whether a document has the keys of the dependency."""
        return all(
            not values.isdisjoint(candidate_keys(document, tuple(path.split("."))))
            for path, values in self.dependency.keys.items()
            if path != self.path
        )


class _Table(dict[EqualityKey, "_Anchored | dict[int, _Anchored]"]):
    """Dependencies by keys: nearly always one for each key, which needs no table of its own."""

    __slots__ = ()

    def add(self, keys: frozenset[EqualityKey], anchored: _Anchored) -> None:
        """Add a dependency under all of its keys."""
        if self.keys().isdisjoint(keys):
            self.update(dict.fromkeys(keys, anchored))
            return
        for key in keys:
            entry = self.get(key)
            if entry is None:
                self[key] = anchored
            elif isinstance(entry, dict):
                entry[id(anchored)] = anchored
            else:
                self[key] = {id(entry): entry, id(anchored): anchored}

    def remove(self, keys: frozenset[EqualityKey], anchored: _Anchored) -> None:
        for key in keys:
            entry = self.get(key)
            if isinstance(entry, dict):
                entry.pop(id(anchored), None)
            if entry is anchored or entry == {}:
                del self[key]

    def find(self, key: EqualityKey) -> Iterable[_Anchored]:
        entry = self.get(key)
        if entry is None:
            return ()
        return entry.values() if isinstance(entry, dict) else (entry,)


@dataclass(slots=True)
class _Anchor:
    """The dependencies that are found by the values of one path."""

    path: tuple[str, ...]
    steps: FieldPath
    table: _Table = field(default_factory=_Table)

    def find(self, document: Document) -> Iterator[_Anchored]:
        """Return the dependencies with a value of the document."""
        for key in set(candidate_keys(document, self.path)):
            yield from self.table.find(key)

    def list_all(self) -> Iterator[_Anchored]:
        for key in self.table:
            yield from self.table.find(key)


@dataclass(slots=True)
class _Collection:
    """The dependencies on one collection; `touches` counts the events that changed a path."""

    touches: Counter[str]
    members: dict[int, _Anchored] = field(default_factory=dict)  # all of them
    whole: dict[int, _Anchored] = field(default_factory=dict)
    opened: dict[int, _Anchored] = field(default_factory=dict)
    ids: _Table = field(default_factory=_Table)
    anchors: dict[str, _Anchor] = field(default_factory=dict)

    def add(self, registration: Registration, dependency: Dependency) -> _Anchored:
        """Add a dependency; return it with its anchor."""
        anchored = _Anchored(registration, dependency, self._choose(dependency.keys))
        self.members[id(anchored)] = anchored
        if not anchored.path:
            self.whole[id(anchored)] = anchored
            return anchored
        if dependency.is_open:
            self.opened[id(anchored)] = anchored
        if anchored.path != _ID:  # which has the ids among its keys
            self.ids.add(dependency.ids, anchored)
        anchor = self.anchors.get(anchored.path)
        if anchor is None:
            path = tuple(anchored.path.split("."))
            anchor = self.anchors[anchored.path] = _Anchor(path, split_path(anchored.path))
        anchor.table.add(dependency.keys[anchored.path], anchored)
        return anchored

    def remove(self, anchored: _Anchored) -> None:
        for members in (self.members, self.whole, self.opened):
            members.pop(id(anchored), None)
        if anchored.path:
            if anchored.path != _ID:
                self.ids.remove(anchored.dependency.ids, anchored)
            table = self.anchors[anchored.path].table
            table.remove(anchored.dependency.keys[anchored.path], anchored)
            if not table:
                del self.anchors[anchored.path]

    def _choose(self, keys: Mapping[str, frozenset[Hashable]]) -> str:
        """Return the path to find a dependency by: rarely touched, with few others; none: empty."""
        if _ID in keys:
            return _ID  # which never changes
        if len(keys) == 1:
            return next(iter(keys))
        return min(keys, key=lambda path: (*self._weigh(path, keys[path]), path), default="")

    def _weigh(self, path: str, values: frozenset[Hashable]) -> tuple[int, int]:
        table = self.anchors[path].table if path in self.anchors else _Table()
        owners = sum(1 + len([*table.find(value)]) for value in values)
        return self.touches[path], owners

    def find(self, facts: ChangeFacts) -> Iterator[_Anchored]:
        if facts.operation not in _RULES:
            yield from self.members.values()
            return
        yield from self.whole.values()
        yield from _RULES[facts.operation](self, facts)

    def find_inserted(self, facts: ChangeFacts) -> Iterator[_Anchored]:
        """Return the dependencies whose keys a new document has."""
        if facts.document is None:
            yield from self.members.values()
            return
        for anchor in self.anchors.values():
            yield from (
                anchored
                for anchored in anchor.find(facts.document)
                if anchored.is_met(facts.document)
            )

    def find_deleted(self, facts: ChangeFacts) -> Iterator[_Anchored]:
        """Return the dependencies on a deleted document, and the open ones."""
        yield from self.find_containing(facts.id)
        yield from self.opened.values()

    def find_containing(self, id_: Hashable) -> Iterator[_Anchored]:
        """Return the dependencies that contain the document, or name its `_id`."""
        yield from self.ids.find(id_)
        if _ID in self.anchors:
            yield from self.anchors[_ID].table.find(id_)

    def find_replaced(self, facts: ChangeFacts) -> Iterator[_Anchored]:
        """Return the dependencies that a replaced document concerns: deletion and insertion."""
        yield from self.find_deleted(facts)
        yield from self.find_inserted(facts)

    def find_updated(self, facts: ChangeFacts) -> Iterator[_Anchored]:
        """Return the dependencies that an updated document concerns."""
        yield from self.find_containing(facts.id)
        if facts.document is None:
            yield from self.opened.values()
        for path, anchor in self.anchors.items():
            if path == _ID:
                continue  # it never changes
            if is_touched(anchor.steps, facts.touched):
                self.touches[path] += 1
                yield from anchor.list_all()
            elif facts.document is not None:
                yield from anchor.find(facts.document)


_RULES: Final[Mapping[str, Callable[[_Collection, ChangeFacts], Iterator[_Anchored]]]] = {
    "insert": _Collection.find_inserted,
    "update": _Collection.find_updated,
    "replace": _Collection.find_replaced,
    "delete": _Collection.find_deleted,
}


class InvalidationIndex:
    """Finds the registrations that a change concerns; it does no I/O."""

    def __init__(self) -> None:
        self._collections: dict[str, _Collection] = {}
        self._touches: LruDict[str, Counter[str]] = LruDict(_KEPT_COLLECTIONS)
        self._registrations: dict[int, Registration] = {}
        self._waiting: dict[int, Registration] = {}  # they are not in the tables yet
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._registrations)

    @property
    def namespaces(self) -> frozenset[str]:
        """The collections with dependents."""
        return frozenset(self._collections).union(
            dependency.namespace
            for registration in self._waiting.values()
            for dependency in registration.dependencies
        )

    def add(
        self, dependencies: Iterable[Dependency], on_change: Callable[[], None]
    ) -> Registration:
        """Call a function, which must not raise, once when one of the dependencies changes."""
        registration = Registration(tuple(dependencies), on_change)
        registration.bytes = _BASE_BYTES + sum(map(_measure, registration.dependencies))
        self.bytes += registration.bytes
        self._registrations[id(registration)] = self._waiting[id(registration)] = registration
        return registration

    def flush(self, count: int | None = None) -> bool:
        """Enter registrations into the tables, at most so many; return whether others wait."""
        waiting = self._waiting
        for number in list(islice(waiting, count)):
            registration = waiting.pop(number)
            for dependency in registration.dependencies:
                namespace = dependency.namespace
                collection = self._collections.get(namespace)
                if collection is None:
                    touches = self._touches.get(namespace)
                    if touches is None or len(touches) > _KEPT_PATHS:
                        touches = Counter()
                        self._touches.put(namespace, touches)
                    collection = self._collections[namespace] = _Collection(touches)
                registration.anchors.append(collection.add(registration, dependency))
        return bool(waiting)

    def remove(self, registration: Registration) -> None:
        if self._registrations.pop(id(registration), None) is None:
            return
        self.bytes -= registration.bytes
        self._waiting.pop(id(registration), None)
        for anchored in registration.anchors:
            name = anchored.dependency.namespace
            collection = self._collections[name]
            collection.remove(anchored)
            if not collection.members:
                del self._collections[name]
        registration.anchors.clear()  # so that no cycle is left to be collected

    def apply(self, facts: ChangeFacts) -> int:
        """Remove and notify the registrations that a change concerns; return how many."""
        if not facts.namespace:
            return self.reset()
        self.flush()
        collection = self._collections.get(facts.namespace)
        if collection is None:
            return 0
        concerned = [anchored.registration for anchored in collection.find(facts)]
        return self._notify(list({id(each): each for each in concerned}.values()))

    def reset(self) -> int:
        """Remove and notify all registrations; return how many."""
        return self._notify(list(self._registrations.values()))

    def _notify(self, registrations: list[Registration]) -> int:
        for registration in registrations:
            self.remove(registration)
        for registration in registrations:
            registration.on_change()
        return len(registrations)


def _measure(dependency: Dependency) -> int:
    """Return about how many bytes a dependency takes."""
    size = _BASE_BYTES
    others = [values for values in dependency.keys.values() if values is not dependency.ids]
    for values in (dependency.ids, *others):  # the ids of a filter by `_id` are one set
        size += _ENTRY_BYTES * len(values) + sum(map(getsizeof, values))
    return size
