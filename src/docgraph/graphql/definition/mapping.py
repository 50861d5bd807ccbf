"""Mappings: how fields and types of a schema relate to documents of the database."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from docgraph.codec.decode import decode
from docgraph.codec.equality import unordered_key
from docgraph.exchange.errors import BodyError
from docgraph.graphql.conditions import OrderSpec
from docgraph.graphql.where import WhereSpec
from docgraph.predicates import (
    CompiledPredicate,
    Parameter,
    PredicateArguments,
    PredicateWord,
    PredicateWords,
)
from docgraph.variables import UNBOUND, Template, compile_field, get_value, parse_path, render_path


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """A property `a.b.0`: into arrays by index, over arrays by name; absent is null."""

    path: tuple[str, ...]
    get: Callable[[Any], Any] = field(init=False, repr=False, compare=False)
    is_wrapper: bool = False  # a part of a connection, around documents

    def __post_init__(self) -> None:
        object.__setattr__(self, "get", compile_field(self.path))

    @property
    def text(self) -> str:
        """The path in dot notation, as written and as a projection uses it."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class DataLoader:
    """How the parents of a field share commands (decision 13); `max_batch_size` 0: no bound."""

    batching: bool = True
    caching: bool = True
    max_batch_size: int = 0


PAGE_ARGUMENTS = frozenset({"first", "after", "last", "before"})


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """Pages of a list: `field` is the field to add for them, `item` the type of their items."""

    field: str | None = None
    item: str = ""


@dataclass(frozen=True, slots=True)
class QueryMapping:
    """`find` renders to a filter, `sort` to a document or None, `skip` and `limit` to a number.

    `where` and `order` are what callers may filter and order by, in arguments of the same fields.
    """

    db: str
    collection: str
    find: Template
    sort: Template | None = None
    skip: Template | None = None
    limit: Template | None = None
    loader: DataLoader = field(default_factory=DataLoader)
    where: WhereSpec | None = None
    order: OrderSpec | None = None
    connection: ConnectionSpec | None = None

    @property
    def templates(self) -> tuple[Template, ...]:
        parts = (self.find, self.sort, self.skip, self.limit)
        return tuple(part for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class AggregationMapping:
    """The results of a pipeline; `stages` renders to it, with or without the optional stages."""

    db: str
    collection: str
    stages: Template
    allow_disk_use: bool = False
    loader: DataLoader = field(default_factory=DataLoader)

    @property
    def templates(self) -> tuple[Template, ...]:
        return (self.stages,)


class GroupedValue(NamedTuple):
    """A property of the results: `by`, `sum`, `avg`, `min`, `max` or `count` of stored values."""

    operator: str
    path: str = ""

    def __str__(self) -> str:
        joint = " " if self.operator == "by" else " of "
        return joint.join(filter(None, self))


@dataclass(frozen=True, slots=True)
class GroupMapping(AggregationMapping):
    """The number of documents of a filter, or groups of them with their totals.

    `find` is the first of the `stages`. `results` are the properties of each result; a `count` is
    the only one, and the value of the field. `sort`, `skip` and `limit` apply to the results.
    """

    find: Template = field(kw_only=True)
    results: Mapping[str, GroupedValue] = field(kw_only=True)
    is_count: bool = False
    sort: Template | None = None
    skip: Template | None = None
    limit: Template | None = None

    @property
    def templates(self) -> tuple[Template, ...]:
        parts = (self.stages, self.sort, self.skip, self.limit)
        return tuple(part for part in parts if part is not None)

    @property
    def empty(self) -> Mapping[str, Any]:
        """The totals of no documents."""
        zero = ("count", "sum")
        return {name: 0 if one.operator in zero else None for name, one in self.results.items()}


AnyMapping = FieldMapping | QueryMapping | AggregationMapping
Mappings = Mapping[str, Mapping[str, AnyMapping]]  # by type and field


@dataclass(frozen=True, slots=True)
class EnumMapping:
    """`stored` by name, every name of the enum in it; a name without mapping stores itself.

    `names` are the same by the key of the stored value.
    """

    name: str
    stored: Mapping[str, Any]
    names: Mapping[Hashable, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: dict[Hashable, str] = {}
        for name, value in self.stored.items():
            names.setdefault(unordered_key(value), name)
        object.__setattr__(self, "names", names)

    def name_of(self, value: Any) -> str:
        """Return the name of a stored value, numbers by value; raise ValueError if unknown."""
        try:
            return self.names[unordered_key(value)]
        except KeyError:
            raise ValueError(f"enum {self.name} has no name for the stored value") from None


@dataclass(frozen=True, slots=True)
class TypeResolver:
    """`$typeResolver`: the first predicate that holds determines the object type of a document."""

    predicates: tuple[tuple[str, CompiledPredicate], ...]
    needed_paths: frozenset[str]  # "": the whole value

    def resolve(self, value: Any) -> str | None:
        """Return the name of the type, or None when no predicate holds."""
        for name, predicate in self.predicates:
            if predicate(value):
                return name
        return None


def build_vocabulary(paths: set[str]) -> PredicateWords:
    """Return the predicates of `$typeResolver` (decision 18); add the paths they read to `paths`.

    The path "" is the whole value.
    """

    def field_exists(arguments: PredicateArguments) -> CompiledPredicate:
        fields = [parse_path(text) for text in arguments["fields"]]
        paths.update(map(render_path, fields))
        return lambda value: all(get_value(value, path) is not UNBOUND for path in fields)

    def field_eq(arguments: PredicateArguments) -> CompiledPredicate:
        (text,) = arguments["field"]
        path, wanted = parse_path(text), _parse_json(arguments["value"][0])
        paths.add(render_path(path))

        def holds(value: Any) -> bool:
            found = get_value(value, path)
            return found is not UNBOUND and unordered_key(found) == wanted

        return holds

    def value_eq(arguments: PredicateArguments) -> CompiledPredicate:
        wanted = _parse_json(arguments["value"][0])
        paths.add("")
        return lambda value: unordered_key(value) == wanted

    return {
        "field-exists": PredicateWord(
            [Parameter("fields", is_list=True, is_default=True)], field_exists
        ),
        "field-eq": PredicateWord([Parameter("field"), Parameter("value")], field_eq),
        "value-eq": PredicateWord([Parameter("value", is_default=True)], value_eq),
    }


def _parse_json(text: str) -> Any:
    try:
        return unordered_key(decode(text))
    except BodyError as error:
        raise ValueError(
            f"the value {text!r} is not valid JSON ({error.message}); "
            "a text needs double quotes inside the single quotes"
        ) from None
