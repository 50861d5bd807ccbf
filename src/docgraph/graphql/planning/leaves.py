"""The fields of a block that are read off a document, and how their values become JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphql import GraphQLOutputType, is_list_type, is_non_null_type

from docgraph.graphql.errors import Place

__all__ = ["Absent", "Constant", "Leaf", "build_strict", "is_nullable"]

Get = Callable[[Any], Any]
Serialize = Callable[[Any], Any]
Kind = type[Any]


@dataclass(frozen=True, slots=True)
class Constant:
    """`__typename`."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Absent:
    """A field of `Query` without mapping: always null."""

    key: str
    type: GraphQLOutputType
    place: Place


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or enum of the document, or lists of them."""

    key: str
    type: GraphQLOutputType
    place: Place
    path: tuple[str, ...]
    get: Get
    serialize: Serialize
    unchanged: Kind | None = None  # values of exactly this type are their own JSON


def is_nullable(type_: GraphQLOutputType) -> bool:
    """Whether null is a value of the type."""
    return not is_non_null_type(type_)


def build_strict(type_: GraphQLOutputType, serialize: Serialize) -> Serialize:
    """A function that completes a sound value and raises for any other."""
    if is_non_null_type(type_):
        inner = build_strict(type_.of_type, serialize)

        def complete_present(value: Any) -> Any:
            if value is None:
                raise ValueError
            return inner(value)

        return complete_present
    if is_list_type(type_):
        complete = build_strict(type_.of_type, serialize)

        def complete_list(value: Any) -> Any:
            if value is None:
                return None
            if type(value) is not list:
                raise ValueError
            return [complete(item) for item in value]

        return complete_list
    return lambda value: None if value is None else serialize(value)
