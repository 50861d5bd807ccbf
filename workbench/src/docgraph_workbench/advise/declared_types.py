"""Declared types compared with sampled documents, serialized as the engine would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graphql import (
    GraphQLObjectType,
    GraphQLOutputType,
    get_named_type,
    get_nullable_type,
    is_composite_type,
    is_enum_type,
    is_list_type,
    is_non_null_type,
)

from docgraph import Document
from docgraph.tools.apps import AggregationMapping, App, FieldMapping, build_value_check
from docgraph.tools.data import flatten_stages
from docgraph_workbench.advise.accesses import OPTIONAL, Access
from docgraph_workbench.infer.profile import kind_of

_MAX_STEPS: Final = 400_000  # values of one collection that are compared
_FEWEST_COMPARED: Final = 50  # documents that are compared in any case
_MAX_DEPTH: Final = 8
_MAX_ELEMENTS: Final = 20  # of a list of objects
_LONGEST: Final = 40  # characters of a value that is quoted
_NO_ID: Final = object()
_KEEPING: Final = frozenset({"$match", "$sort", "$limit", "$skip", "$sample"})


@dataclass(slots=True)
class FieldTally:
    """The results of comparing a declared field."""

    type_name: str
    name: str
    type: GraphQLOutputType
    path: tuple[str, ...]
    is_top: bool  # of the document itself, not of an object in it
    objects: int = 0
    filled: int = 0
    misfits: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # of values that do not fit
    first_misfit: Any = None
    first_empty: Any = _NO_ID

    @property
    def is_required(self) -> bool:
        """Whether it is declared as non-null."""
        return is_non_null_type(self.type)


@dataclass(frozen=True, slots=True)
class _Field:
    tally: FieldTally
    get: Callable[[Any], Any]
    fits: Callable[[Any], bool] | None  # None: objects of the type `inner`
    inner: str


class Holding:
    """Compares the documents of one collection with one type of an app and its nested types."""

    def __init__(self, app: App, type_name: str, share: int = 1) -> None:
        """Prepare for one of `share` types that show the same documents."""
        self.app = app
        self.type_name = type_name
        self._fields: dict[tuple[str, bool], list[_Field]] = {}
        self._left = _MAX_STEPS // share
        self._documents = 0
        self._id: Any = None

    @property
    def tallies(self) -> Iterator[FieldTally]:
        """The results for the fields that occurred."""
        for fields in self._fields.values():
            yield from (declared.tally for declared in fields)

    def add_all(self, documents: Sequence[Document]) -> None:
        """Compare more documents."""
        for document in documents:
            if self._left <= 0 and self._documents >= _FEWEST_COMPARED:
                return
            self._documents += 1
            self._id = document.get("_id")
            self._add(self.type_name, document, 0)

    def _add(self, type_name: str, value: Any, depth: int) -> None:
        resolver = self.app.type_resolvers.get(type_name)
        name = type_name if resolver is None else resolver.resolve(value)
        for declared in self._list_fields(name, depth == 0) if name is not None else ():
            self._left -= 1
            tally, content = declared.tally, declared.get(value)
            tally.objects += 1
            if content is None:
                if tally.first_empty is _NO_ID:
                    tally.first_empty = self._id
                continue
            tally.filled += 1
            if declared.fits is not None:
                if not declared.fits(content):
                    self._record(tally, content)
            elif depth < _MAX_DEPTH:
                self._enter(tally, declared.inner, content, depth)

    def _enter(self, tally: FieldTally, inner: str, value: Any, depth: int) -> None:
        if isinstance(value, list) and not is_list_type(get_nullable_type(tally.type)):
            self._record(tally, value)
            return
        pending = [value]
        count = 0
        while pending and count < _MAX_ELEMENTS:
            element = pending.pop(0)
            if isinstance(element, list):
                pending += element[:_MAX_ELEMENTS]
            elif isinstance(element, dict):
                count += 1
                self._add(inner, element, depth + 1)
            elif element is not None:
                self._record(tally, value)
                return

    def _record(self, tally: FieldTally, value: Any) -> None:
        if not tally.misfits:
            tally.first_misfit = self._id
        tally.misfits += 1
        name = kind_of
        if is_enum_type(get_named_type(tally.type)):  # the value matters, not only its kind
            name = _show_constant
        kinds = {name(element) for element in value} if isinstance(value, list) else {name(value)}
        tally.kinds.update(f"list of {kind}" if isinstance(value, list) else kind for kind in kinds)

    def _list_fields(self, type_name: str, is_top: bool) -> list[_Field]:
        cached = self._fields.get((type_name, is_top))
        if cached is None:
            type_ = self.app.schema.type_map.get(type_name)
            fields = (
                self._read_fields(type_, is_top) if isinstance(type_, GraphQLObjectType) else ()
            )
            cached = self._fields[type_name, is_top] = list(fields)
        return cached

    def _read_fields(self, type_: GraphQLObjectType, is_top: bool) -> Iterator[_Field]:
        for name, mapping in self.app.mappings.get(type_.name, {}).items():
            if not isinstance(mapping, FieldMapping) or name not in type_.fields:
                continue
            declared = type_.fields[name].type
            named = get_named_type(declared)
            tally = FieldTally(type_.name, name, declared, mapping.path, is_top)
            fits = None if is_composite_type(named) else build_value_check(self.app, declared)
            yield _Field(tally, mapping.get, fits, named.name)


def _show_constant(value: Any) -> str:
    return repr(value)[:_LONGEST] if isinstance(value, str | int) else kind_of(value)


def find_holdings(accesses: Iterable[Access]) -> dict[tuple[str, str], list[Holding]]:
    """Return the types that show the documents of each collection."""
    types_by_place: dict[tuple[str, str], dict[tuple[str, str], App]] = {}
    for access in accesses:
        named = access.item_type
        if is_composite_type(named) and _keeps_documents(access):
            types = types_by_place.setdefault(access.place, {})
            types[access.app_id, named.name] = access.app
    return {
        place: [Holding(app, name, len(types)) for (_, name), app in types.items()]
        for place, types in types_by_place.items()
    }


def _keeps_documents(access: Access) -> bool:
    """Return whether the results are documents as they are stored."""
    mapping = access.mapping
    if not isinstance(mapping, AggregationMapping):
        return True
    stages = flatten_stages(mapping.stages.source, OPTIONAL)
    return all(name in _KEEPING for stage in stages for name in stage)
