"""Result of an execution: data, errors, cost, and the lists that their limit cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import Any, Final, NamedTuple

from docgraph.graphql.errors import Damaged, Errors, GraphqlError, ResponsePath, count_more
from docgraph.graphql.plan.plan_tree import Block, Fetch, Introspection
from docgraph.runtime import allocations
from docgraph.runtime.allocations import embed_json

MAX_CUT_LISTS: Final = 100  # that a response names, besides one of every other field
_SLICE = 200  # elements of a list that are encoded together
_SMALL = 64 << 10  # characters of a value that is encoded at once
_SMALL_LIST = 1 << 20  # characters of elements of a list that are encoded together
_VALUE = 10  # characters that each value counts as, besides its text
_JSON = frozenset({bytes})
_SIZED = frozenset({str, bytes, dict, list})


class CommandRecord(NamedTuple):
    """One command that was sent to the database.

    `started` counts from the beginning of the execution, in milliseconds like `milliseconds`.
    `parents` is the number of parents of the field, which one or several commands serve.
    """

    field: str
    kind: str  # find or aggregate
    collection: str
    milliseconds: float
    documents: int
    started: float = 0.0
    parents: int = 1

    def as_dict(self) -> dict[str, Any]:
        """Return the record, ready for JSON."""
        return {
            "field": self.field,
            "kind": self.kind,
            "collection": self.collection,
            "startedMs": round(self.started, 3),
            "ms": round(self.milliseconds, 3),
            "parents": self.parents,
            "documents": self.documents,
        }


class Result(NamedTuple):
    """Data and errors, ready for JSON; `total_errors` counts those beyond the limit, too.

    Bytes in `data` are JSON (`embed_json`).
    """

    data: dict[str, Any] | None
    errors: tuple[GraphqlError, ...] = ()
    total_errors: int = 0
    commands: tuple[CommandRecord, ...] = ()
    documents: int = 0
    limits: tuple[dict[str, Any], ...] = ()  # the lists that were cut

    @classmethod
    def build(
        cls,
        data: dict[str, Any] | None,
        errors: Errors | None,
        commands: list[CommandRecord],
        documents: int,
    ) -> Result:
        """Build a result; one more entry counts the errors beyond the bound."""
        if errors is None:
            return cls(data, (), 0, tuple(commands), documents)
        entries = list(errors.first)
        if errors.total > len(entries):
            entries.append(count_more(errors.total - len(entries)))
        return cls(data, tuple(entries), errors.total, tuple(commands), documents)


class CutLists:
    """The lists of a response that have more documents than their limit.

    Such a list is fetched with one document beyond its limit, which is dropped. Its path is known
    only when the response is built, as the object that contains it may be in several positions;
    until then, the list itself identifies it. Lists are retained, so that no other gets their id.
    What is in several positions is walked once, unless it has a list that was cut.
    """

    __slots__ = ("_columns", "_complete", "_limits")

    def __init__(self) -> None:
        self._limits: dict[int, tuple[Any, int]] = {}
        self._columns: dict[tuple[int, ...], Mapping[str, tuple[Block, ...]]] = {}
        self._complete: set[tuple[int, int]] = set()  # values and their blocks, by identity

    def add(self, documents: list[Any], limit: int) -> None:
        """Record a list that was cut."""
        self._limits[id(documents)] = (documents, limit)

    def follow(self, values: Sequence[Any], completed: Sequence[Any]) -> None:
        """Record the completed lists of those that were cut."""
        for value, item in zip(values, completed, strict=True) if self._limits else ():
            cut = self._limits.get(id(value))
            shown = item.value if type(item) is Damaged else item
            if cut is not None and type(shown) is list:
                self.add(shown, cut[1])

    def list_entries(self, data: Any, block: Block) -> tuple[dict[str, Any], ...]:
        """Return path and limit of the lists in the response that were cut.

        These are the first ones, and the first one of every other field: a field without an entry
        is complete.
        """
        if not self._limits:
            return ()
        blocks = (block,)
        cuts = list(islice(self._walk(data, blocks, ()), MAX_CUT_LISTS))
        if len(cuts) == MAX_CUT_LISTS:
            fields = set(map(_find_field, cuts))
            for cut in self._walk(data, blocks, (), is_once=True):
                if _find_field(cut) not in fields:
                    fields.add(_find_field(cut))
                    cuts.append(cut)
        return tuple({"path": list(path), "limit": limit} for path, limit in cuts)

    def _walk(
        self, value: Any, blocks: tuple[Block, ...], path: ResponsePath, *, is_once: bool = False
    ) -> Iterator[tuple[ResponsePath, int]]:
        """Find the lists that were cut; `is_once`: each in one of its positions."""
        place = (id(value), id(blocks))
        if place in self._complete:
            return
        is_complete = id(value) not in self._limits
        if not is_complete:
            yield path, self._limits[id(value)][1]
        # The values inside that may have a cut list, with their keys and blocks.
        steps: list[tuple[str | int, Any, tuple[Block, ...]]] = []
        columns = self._find_columns(blocks)
        if type(value) is list and columns:
            steps = [(number, item, blocks) for number, item in enumerate(value)]
        elif type(value) is dict:
            steps = [(key, value.get(key), below) for key, below in columns.items()]
        for step, inner, below in steps:
            for cut in self._walk(inner, below, (*path, step), is_once=is_once):
                is_complete = False
                yield cut
        if is_complete or is_once:
            self._complete.add(place)

    def _find_columns(self, blocks: tuple[Block, ...]) -> Mapping[str, tuple[Block, ...]]:
        """Return the keys that may lead to a cut list, each with the blocks below it."""
        key = tuple(map(id, blocks))
        if key not in self._columns:
            columns: dict[str, tuple[Block, ...]] = {}
            for column in (column for block in blocks for column in block.columns):
                selection = None if isinstance(column, Introspection) else column.selection
                below = () if selection is None else tuple(selection.blocks.values())
                if isinstance(column, Fetch) or any(block.needs_fetch for block in below):
                    columns[column.key] = (*columns.get(column.key, ()), *below)
            self._columns[key] = columns
        return self._columns[key]


def _find_field(cut: tuple[ResponsePath, int]) -> tuple[str, ...]:
    return tuple(step for step in cut[0] if isinstance(step, str))


def encode_data(data: Any, limit: int) -> bytes | None:
    """Return the JSON of `data`; None if it would be longer than `limit` bytes."""
    parts = encode_parts(data, limit)
    return None if parts is None else b"".join(parts)


def encode_parts(data: Any, limit: int) -> list[bytes] | None:
    """Return the JSON of `data` in parts; None if it would be longer than `limit` bytes.

    Objects and long lists are encoded in parts, so that a response that is far too long is never
    built: many fields may share one large value.
    """
    if type(data) is bytes:
        return [data] if len(data) <= limit else None
    if not _are_small((data,), _SMALL):
        return _encode_large(data, limit)
    text = allocations.dumps(data, embed_json)
    return [text] if len(text) <= limit else None


def _encode_large(data: Any, limit: int) -> list[bytes] | None:
    if type(data) is dict:
        return _encode_object(data, limit)
    if type(data) is list:
        return _encode_list(data, limit)
    text = data if type(data) is bytes else allocations.dumps(data, embed_json)
    return [text] if len(text) <= limit else None


def _are_small(values: Sequence[Any], room: int) -> bool:
    """Return whether the JSON of the values is short; values that are shared count each time.

    Written for many values: their columns are measured together, in C. Each value counts as
    `_VALUE` characters. Callers choose the keys: aliases. Each object counts as if it had all of
    them.
    """
    columns = [values]
    for column in columns:
        kinds = set(map(type, column))
        for kind in kinds & _SIZED:
            members: Sequence[Any] = column
            if len(kinds) > 1:
                members = [value for value in column if type(value) is kind]
            lengths = list(map(len, members))
            if kind is dict:
                room -= _VALUE * len(members) * max(lengths)
            else:
                room -= sum(lengths) * (_VALUE if kind is list else 1)
            if room < 0:
                return False
            if kind is dict:
                room -= len(members) * sum(map(len, set().union(*set(map(tuple, members)))))
                columns += zip_longest(*map(dict.values, members))
            elif kind is list:
                columns.append(list(chain.from_iterable(members)))
    return room >= 0


def _encode_object(data: Mapping[str, Any], limit: int) -> list[bytes] | None:
    """Return the JSON of a large object in parts: small values together, any other one alone."""
    parts: list[bytes] = []
    size = 1
    for group, is_small in _group(data):
        if not is_small:
            ((key, value),) = group.items()
            encoded = _encode_large(value, limit - size)
            if encoded is None:
                return None
            added = [allocations.dumps(key), b":", *encoded]
        else:
            added = [allocations.dumps(group, embed_json)[1:-1]]
        size += 1 + sum(map(len, added))
        if size > limit:
            return None
        parts += [b"," if parts else b"{", *added]
    return [*parts, b"}"]


def _group(data: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield parts of a large object, and whether their values are small."""
    group: dict[str, Any] = {}
    for key, value in data.items():
        is_small = len(data) > 1 and _are_small((value,), _SMALL)
        if group and (not is_small or len(group) == _SLICE):
            yield group, True
            group = {}
        if is_small:
            group[key] = value
        else:
            yield {key: value}, False
    if group:
        yield group, True


def _encode_list(value: list[Any], limit: int) -> list[bytes] | None:
    """Return the JSON of a list in parts; what is JSON is not copied."""
    if _JSON.issuperset(map(type, value)):
        return _separate(value) if sum(map(len, value)) + len(value) < limit else None
    slices: list[bytes] = []
    size = 1
    for group in _slice(value):
        if len(group) == 1:
            encoded = encode_parts(group[0], limit - size)
            if encoded is None:
                return None
            text = b"".join(encoded)
        else:
            text = allocations.dumps(group, embed_json)[1:-1]
        size += len(text) + 1
        if size > limit:
            return None
        slices.append(text)
    return _separate(slices)


def _slice(value: list[Any]) -> Iterator[list[Any]]:
    """Yield slices of a list: small elements together, any other one alone.

    Values that are shared are small in memory, and copied in the text as often as they occur.
    """
    for start in range(0, len(value), _SLICE):
        part = value[start : start + _SLICE]
        if _are_small(part, _SMALL_LIST):
            yield part
            continue
        group: list[Any] = []
        for element in part:
            if _are_small((element,), _SMALL):
                group.append(element)
                continue
            if group:
                yield group
                group = []
            yield [element]
        if group:
            yield group


def _separate(items: list[bytes]) -> list[bytes]:
    """Return the parts of the JSON of a list."""
    parts = [b","] * (2 * len(items) + 1)
    parts[1::2] = items
    parts[0], parts[-1] = b"[", b"]"
    return parts if items else [b"[]"]
