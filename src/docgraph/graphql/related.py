"""Conditions and orders about related documents: their declarations, and their place in a filter.

`where` compiles to a filter of MongoDB, with a `RelatedCondition` under the key `$relation` where
it is about the documents of a relation. Before a filter is sent, each of them is replaced by a
condition on the keys of the near documents (decision 73).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from docgraph.exchange.data import CollectionName, Filter
from docgraph.graphql.joins import Join
from docgraph.variables import Template

RELATION: Final = "$relation"
QUANTIFIERS: Final = ("some", "none", "every")
COUNTED: Final = "n"  # the property that has the number of related documents
ORDERED: Final = "_docgraph_order:"  # computed properties that a related order sorts by

_BRANCHING: Final = frozenset({"$and", "$or", "$nor"})
_HOLDS_FOR_ZERO: Final[Mapping[str, Callable[[Any], bool]]] = {
    "eq": lambda value: value == 0,
    "ne": lambda value: value != 0,
    "in": lambda values: 0 in values,
    "nin": lambda values: 0 not in values,
    "lt": lambda value: value > 0,
    "lte": lambda value: value >= 0,
    "gt": lambda value: value < 0,
    "gte": lambda value: value <= 0,
}


@dataclass(frozen=True, slots=True, eq=False)
class RelationSpec:
    """A relation that callers may use in conditions, or the count of one.

    Documents are related if all `joins` hold; `rest` is the filter of the relation without them.
    `fields` and `relations` are what conditions may use of the related documents.
    """

    type_name: str
    name: str
    place: CollectionName
    joins: tuple[Join, ...]
    rest: Template
    is_list: bool = False
    is_count: bool = False
    operators: frozenset[str] = frozenset()  # of a count
    fields: Mapping[str, Any] = field(default_factory=dict)
    relations: Mapping[str, RelationSpec] = field(default_factory=dict)
    is_root: ClassVar[bool] = False

    @property
    def namespace(self) -> str:
        """The collection of the related documents, with its database."""
        return ".".join(self.place)


@dataclass(frozen=True, slots=True, eq=False)
class RelatedCondition:
    """Holds for documents with a related one that satisfies `filter`.

    With `count`, the number of related documents satisfies it, and is not zero. `path` is where the
    condition is.
    """

    spec: RelationSpec
    filter: Filter
    path: str
    count: Filter | None = None


@dataclass(frozen=True, slots=True)
class RelatedOrder:
    """An order by a property of the document of a relation, or by the count of one."""

    spec: RelationSpec
    path: str = ""


def find_conditions(filter_: Filter) -> Iterator[RelatedCondition]:
    """Yield the conditions on related documents in a filter, without those inside of them."""
    for key, value in filter_.items():
        if key == RELATION:
            yield value
        elif key in _BRANCHING:
            for branch in value:
                yield from find_conditions(branch)


def list_namespaces(condition: RelatedCondition) -> Iterator[str]:
    """Yield the collections of a condition, and of those inside of it."""
    yield condition.spec.namespace
    for inner in find_conditions(condition.filter):
        yield from list_namespaces(inner)


def replace_conditions(filter_: Filter, replace: Callable[[RelatedCondition], Filter]) -> Any:
    """Return the filter with another condition in place of each one on related documents."""
    if len(filter_) == 1 and RELATION in filter_:
        return replace(filter_[RELATION])
    return {
        key: [replace_conditions(branch, replace) for branch in value]
        if key in _BRANCHING
        else value
        for key, value in filter_.items()
    }


def split_conjuncts(filter_: Filter) -> list[Filter]:
    """Return the conditions of a compiled filter that must all hold."""
    if filter_.keys() == {"$and"}:
        return [part for branch in filter_["$and"] for part in split_conjuncts(branch)]
    return [{key: value} for key, value in filter_.items()]


def list_specs(specs: Mapping[str, RelationSpec]) -> Iterator[RelationSpec]:
    """Yield declared relations, and those inside of them."""
    for spec in specs.values():
        yield spec
        yield from list_specs(spec.relations)


def holds_for_zero(conditions: Mapping[str, Any]) -> bool:
    """Return whether valid conditions on a number hold for zero."""
    return all(_HOLDS_FOR_ZERO[name](operand) for name, operand in conditions.items())
