"""Generated documents for two worlds that differ only in what is hidden from the caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from docgraph import Document
from docgraph_workbench.fuzz.fuzz_values import POOL, Canary, make_canary, pool_value
from docgraph_workbench.fuzz.surface import PropertyShape, find_constants, mark_path

_SEEN: Final = 6  # documents that the caller may see; the rest of the pool is for excluded ones
_STRANGERS: Final = 2  # excluded documents with random ids, in the first world only
_WORLDS: Final = 2
_EXACT: Final = ("$eq", "$gte", "$lte")


@dataclass(frozen=True, slots=True)
class Barrier:
    """A row filter that permits only some rows of a collection at one door."""

    filter: Mapping[str, Any]
    reason: str


@dataclass(slots=True)
class Made:
    """The documents of one collection in one world, and the secrets in them."""

    seen: list[Document] = field(default_factory=list)
    excluded: list[Document] = field(default_factory=list)
    canaries: list[tuple[Any, Canary]] = field(default_factory=list)  # with the document's id

    @property
    def excluded_reason(self) -> str:
        """The reason why the excluded rows are hidden from the caller."""
        return next((canary.reason for _, canary in self.canaries if canary.is_row), "")

    @property
    def documents(self) -> list[Document]:
        """All documents, shuffled, so that the insertion order reveals nothing."""
        return [*self.excluded[:1], *self.seen, *self.excluded[1:]]

    def list_comparable(self, shape: PropertyShape) -> list[tuple[Any, Canary]]:
        """Return secrets in excluded rows that an expression finds at their paths, with row ids.

        Rows that exist in both worlds come first: a request for one document differs in nothing
        else.
        """
        rows = [
            (id, canary)
            for id, canary in self.canaries
            if canary.is_row
            and not isinstance(canary.value, bool)
            and _is_single(shape, canary.path)
        ]
        return sorted(rows, key=lambda row: row[1].path == "_id")

    def keep(self, ids: Sequence[Any]) -> None:
        """Drop all documents except these."""
        self.seen = [document for document in self.seen if document["_id"] in ids]
        self.excluded = [document for document in self.excluded if document["_id"] in ids]
        self.canaries = [pair for pair in self.canaries if pair[0] in ids]


def build_documents(
    namespace: str, shape: PropertyShape, barriers: Sequence[Barrier], seed: str
) -> tuple[Made, Made]:
    """Return the documents of a collection, once for each world."""
    shape.at(("_id",)).kind = shape.at(("_id",)).kind or "objectId"
    wanted = [_satisfy(barrier.filter) for barrier in barriers]
    filtered = [set(find_constants(shape, barrier.filter)) for barrier in barriers]
    name = namespace.partition(".")[2]
    randoms = (Random(f"{seed} {world} {name}") for world in range(_WORLDS))  # noqa: S311 - to be repeated
    worlds = [_World(namespace, shape, world, random) for world, random in enumerate(randoms)]
    for world in worlds:
        for number in range(_SEEN if barriers else POOL):
            world.add_seen(number, {path: value for some in wanted for path, value in some.items()})
        for position, barrier in enumerate(barriers):
            known_numbers = range(_SEEN + position, POOL, len(barriers))
            is_first = world is worlds[0]
            numbers: list[int | None] = [*known_numbers, *([None] * _STRANGERS if is_first else [])]
            misfits = (None, *known_numbers[-1:]) if is_first else ()
            others = [other for other in wanted if other is not wanted[position]]
            passing = {path: value for some in others for path, value in some.items()}
            for place in numbers:
                is_misfit = place in misfits
                world.add_excluded(place, barrier, filtered[position], passing, is_misfit)
    return worlds[0].made, worlds[1].made


def _satisfy(filter: Any) -> dict[str, Any]:
    """Return values with which a document matches the filter, as far as it is simple."""
    values: dict[str, Any] = {}
    for key, condition in filter.items() if isinstance(filter, Mapping) else ():
        if key == "$and" and isinstance(condition, list | tuple):
            for part in condition:
                values |= _satisfy(part)
        elif key == "$or" and isinstance(condition, list | tuple) and condition:
            values |= _satisfy(condition[0])
        elif key[:1] != "$":
            is_solved, value = _solve(condition)
            if is_solved:
                values[key] = value
    return values


def _solve(condition: Any) -> tuple[bool, Any]:
    if not isinstance(condition, Mapping) or not any(key[:1] == "$" for key in condition):
        return True, condition
    for operator, operand in condition.items():
        if operator in _EXACT:
            return True, operand
        if operator == "$in" and operand:
            return True, operand[0]
    return False, None


class _World:
    """Generates the documents of one collection in one world."""

    def __init__(self, namespace: str, shape: PropertyShape, world: int, random: Random) -> None:
        self._namespace = namespace
        self._shape = shape
        self._world = world
        self._random = random
        self.made = Made()

    def add_seen(self, number: int, wanted: Mapping[str, Any]) -> None:
        """Add a document that the caller may see, except for its hidden properties."""
        document: Document = {"_id": self._make_id(number)}
        if any(earlier["_id"] == document["_id"] for earlier in self.made.seen):
            return
        for path, node in self._leaves(number):
            is_secret = bool(node.hidden_by) and not (node.is_key or node.kind == "enum")
            if is_secret:
                value = self._secret(path, node, node.hidden_by[0], document["_id"])
            else:
                value = self._plain(path, node, number)
            _put(self._shape, document, path, value)
        for name, value in wanted.items():
            steps = [step for step in name.split(".") if not step.isdigit()]
            if name != "_id":
                _put(self._shape, document, tuple(steps), value)
        self.made.seen.append(document)

    def add_excluded(
        self,
        number: int | None,
        barrier: Barrier,
        filtered: set[str],
        passing: Mapping[str, Any],
        is_misfit: bool,
    ) -> None:
        """Add a document that only this barrier hides from the caller; no number: an unknown id.

        Expressions of definitions fail for a misfit.
        """
        node = self._shape.at(("_id",))
        if number is None:
            id = make_canary(node.kind, self._random, self._world)
        else:
            id = self._make_id(number)
        if any(earlier["_id"] == id for earlier in (*self.made.seen, *self.made.excluded)):
            return
        document: Document = {"_id": id}
        if number is None:
            self._record(id, id, ("_id",), barrier.reason, is_row=True)
        for path, node in self._leaves(number or 0):
            is_plain = node.is_key or node.kind == "enum"
            if ".".join(path) in filtered:
                value = self._other(node, number or 0)
            elif ".".join(path) in passing:
                value = passing[".".join(path)]
            elif is_plain:
                value = self._plain(path, node, number or 0)
            else:
                kind = "object" if is_misfit and node.is_evaluated else ""
                value = self._secret(path, node, barrier.reason, id, is_row=True, kind=kind)
            _put(self._shape, document, path, value)
        self.made.excluded.append(document)

    def _make_id(self, number: int) -> Any:
        """Return an id, first those that filters contain."""
        node = self._shape.at(("_id",))
        if number < len(node.values):
            return node.values[number]
        return pool_value(node.kind, number)

    def _leaves(self, number: int) -> Iterator[tuple[tuple[str, ...], PropertyShape]]:
        for position, (path, node) in enumerate(self._shape.leaves()):
            if path[0] != "_id" and not (node.is_optional and (number + position) % 2):
                yield path, node

    def _plain(self, path: tuple[str, ...], node: PropertyShape, number: int) -> Any:
        """Return an ordinary value: orders differ between properties; keys and ids correspond."""
        kind = node.made_kind
        if node.values:
            value = node.values[number % len(node.values)]
        elif node.is_key:
            value = pool_value(kind, number)
        else:
            value = pool_value(kind, number * (3 if len(path[-1]) % 2 else 5) + len(path[-1]))
        if value == 0 and node.is_evaluated:
            value = pool_value(kind, 1)  # avoids division by zero in what the caller may see
        return [value] if node.is_list else value

    def _other(self, node: PropertyShape, number: int) -> Any:
        """Return a value with which the document does not match a filter."""
        kind = node.made_kind or _kind_of(node.values)
        others = [pool_value(kind, number + step) for step in range(POOL)]
        value = next((other for other in others if other not in node.values), None)
        return [value] if node.is_list else value

    def _secret(
        self,
        path: tuple[str, ...],
        node: PropertyShape,
        reason: str,
        id: Any,
        *,
        is_row: bool = False,
        kind: str = "",
    ) -> Any:
        """Return a canary, or several in a list; `kind` overrides that of the property."""
        is_list = node.is_list and not kind
        kind = kind or node.made_kind or _kind_of(node.values)
        count = self._world + 1 if is_list else 1
        values = [make_canary(kind, self._random, self._world) for _ in range(count)]
        for value in values:
            self._record(value, id, path, reason, is_row=is_row)
        return values if is_list else values[0]

    def _record(
        self, value: Any, id: Any, path: tuple[str, ...], reason: str, *, is_row: bool
    ) -> None:
        canary = Canary(value, self._namespace, ".".join(path), reason, is_row)
        self.made.canaries.append((id, canary))


def _is_single(shape: PropertyShape, path: str) -> bool:
    """Return whether the path to a property contains no array."""
    steps = path.split(".")
    return not any(shape.at(steps[: depth + 1]).is_list for depth in range(len(steps)))


def _kind_of(values: Sequence[Any]) -> str:
    names = {bool: "bool", int: "int", float: "double"}
    return names.get(type(values[0]), "string") if values else "string"


def _put(shape: PropertyShape, document: Document, path: tuple[str, ...], value: Any) -> None:
    """Set a value; arrays on the path get one element."""
    holder: Any = document
    for depth, step in enumerate(path[:-1]):
        node = mark_path(shape, ".".join(path[: depth + 1]))
        inner = holder.get(step)
        if inner is None:
            inner = holder[step] = [{}] if node.is_list else {}
        holder = inner[0] if isinstance(inner, list) else inner
        if not isinstance(holder, dict):
            return
    holder[path[-1]] = value
