"""Conditions on related documents, naively: all documents of both collections, joined in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from docgraph.codec.equality import equality_key

Document = dict[str, Any]


class Relation(NamedTuple):
    """A relation: pairs of properties, and which documents its own filter finds."""

    target: str
    pairs: tuple[tuple[str, str], ...]  # of the related document, of the document itself
    kind: str = "many"  # or one, count
    is_any: bool = False  # each element of an array is a key
    finds: Callable[[Document], bool] = lambda document: True


RELATIONS: dict[str, dict[str, Relation]] = {
    "Near": {
        "one": Relation("Far", (("t", "k"),), "one"),
        "many": Relation("Far", (("t", "k"),)),
        "any": Relation("Far", (("t", "k"),), is_any=True),
        "pair": Relation("Far", (("t", "k"), ("u", "l"))),
        "deep": Relation("Far", (("o.t", "p.k"),)),
        "some": Relation("Far", (("t", "k"),), finds=lambda far: _reaches(far, "c", 1)),
        "unique": Relation("Far", (("_id", "ref"),), "one"),
        "count": Relation("Far", (("t", "k"),), "count"),
        "anyCount": Relation("Far", (("t", "k"),), "count", is_any=True),
        "pairCount": Relation("Far", (("t", "k"), ("u", "l")), "count"),
    },
    "Far": {
        "back": Relation("Near", (("k", "t"),)),
        "backCount": Relation("Near", (("k", "t"),), "count"),
    },
}


class World:
    """The documents that the caller may read, by type; `folded` types ignore case."""

    def __init__(self, stored: Mapping[str, list[Document]], folded: frozenset[str]) -> None:
        self._stored = stored
        self._folded = folded
        self._related: dict[tuple[int, Relation], list[Document]] = {}

    def find(self, type_: str, where: Mapping[str, Any]) -> list[Document]:
        """Return the documents of a type that satisfy all conditions."""
        return [each for each in self._stored[type_] if self.holds(type_, each, where)]

    def holds(self, type_: str, document: Document, where: Mapping[str, Any]) -> bool:
        """Return whether a document satisfies all conditions."""
        return all(self._holds(type_, document, *entry) for entry in where.items())

    def _holds(self, type_: str, document: Document, name: str, value: Any) -> bool:
        if name == "and":
            return all(self.holds(type_, document, each) for each in value)
        if name == "or":
            return any(self.holds(type_, document, each) for each in value)
        if name == "not":
            return not self.holds(type_, document, value)
        relation = RELATIONS[type_].get(name)
        if relation is None:
            return compare(document.get(name), value)
        others = self.relate(document, relation)
        if relation.kind == "count":
            return compare(len(others), value)
        if relation.kind == "one":
            return self._holds_for_one(relation.target, others, value)
        matching = {
            quantifier: [each for each in others if self.holds(relation.target, each, inner)]
            for quantifier, inner in value.items()
        }
        return all(
            {
                "some": bool(found),
                "none": not found,
                "every": len(found) == len(others),
            }[quantifier]
            for quantifier, found in matching.items()
        )

    def _holds_for_one(self, target: str, others: list[Document], value: Mapping[str, Any]) -> bool:
        inner = {name: each for name, each in value.items() if name != "exists"}
        if "exists" in value and value["exists"] is not bool(others):
            return False
        if not any(inner.values()):
            return True
        return any(self.holds(target, each, inner) for each in others)

    def relate(self, document: Document, relation: Relation) -> list[Document]:
        """Return the documents that the field of a relation shows."""
        key = (id(document), relation)
        if key not in self._related:
            self._related[key] = self._find_related(document, relation)
        return self._related[key]

    def _find_related(self, document: Document, relation: Relation) -> list[Document]:
        return [
            other
            for other in self._stored[relation.target]
            if relation.finds(other)
            and all(self._joins(document, other, relation, *pair) for pair in relation.pairs)
        ]

    def _joins(
        self, document: Document, other: Document, relation: Relation, theirs: str, own: str
    ) -> bool:
        key: Any = document
        for step in own.split("."):
            key = key.get(step) if isinstance(key, dict) else None
        keys = key if relation.is_any and isinstance(key, list) else [key]
        fold = relation.target in self._folded
        reached = [render_key(value, fold) for value in reach(other, theirs)]
        return any(render_key(each, fold) in reached for each in keys if each is not None)


def reach(document: Any, path: str) -> list[Any]:
    """Return what a filter compares with: elements of arrays, and arrays as a whole."""
    step, _, rest = path.partition(".")
    value = document.get(step) if isinstance(document, dict) else None
    if rest:
        inner = value if isinstance(value, list) else [value]
        return [found for each in inner for found in reach(each, rest)]
    return [*value, value] if isinstance(value, list) else [value]


def _reaches(document: Document, name: str, value: Any) -> bool:
    return value in reach(document, name)


def render_key(value: Any, fold: bool) -> Any:
    """Return a value that is equal for values that the database finds equal."""
    return equality_key(_fold(value) if fold else value)


def _fold(value: Any) -> Any:
    if isinstance(value, str):
        return value.lower()
    if isinstance(value, dict):
        return {key: _fold(inner) for key, inner in value.items()}
    return [_fold(each) for each in value] if isinstance(value, list) else value


def compare(value: Any, conditions: Mapping[str, Any]) -> bool:
    """Return whether a number, or nothing, satisfies all operators."""
    holds: dict[str, Callable[[Any], bool]] = {
        "eq": lambda operand: value == operand,
        "ne": lambda operand: value != operand,
        "in": lambda operand: value in operand,
        "nin": lambda operand: value not in operand,
        "lt": lambda operand: value is not None and value < operand,
        "gte": lambda operand: value is not None and value >= operand,
        "exists": lambda operand: (value is not None) is operand,
    }
    return all(holds[name](operand) for name, operand in conditions.items())
