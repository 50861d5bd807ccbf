"""Leaf fields of a block: read from a document and serialized as JSON.

`describe` returns a field as the native extension expects it in an output program, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from graphql import GraphQLOutputType, get_named_type, is_list_type, is_non_null_type

from docgraph.graphql.errors import FieldFailure, FieldPosition

Get = Callable[[Any], Any]
Serialize = Callable[[Any], Any]
Kind = type[Any]
Described = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TypenameField:
    """`__typename`."""

    key: str
    value: str

    def describe(self) -> Described | None:
        """Return the constant."""
        return self.key, "constant", orjson.dumps(self.value)


@dataclass(frozen=True, slots=True)
class UnmappedField:
    """A field without mapping: always null, with an error if its definition is invalid."""

    key: str
    type: GraphQLOutputType
    position: FieldPosition
    failure: FieldFailure | None = None

    def describe(self) -> Described | None:
        """Return null, where it is allowed and no error."""
        if self.failure is not None or not is_nullable(self.type):
            return None
        return self.key, "constant", b"null"


@dataclass(frozen=True, slots=True)
class LeafField:
    """A scalar or enum of the document, or lists of them."""

    key: str
    type: GraphQLOutputType
    position: FieldPosition
    path: tuple[str, ...]
    get: Get
    serialize: Serialize
    unchanged: Kind | None = None  # values of exactly this type are their own JSON
    is_date: bool = False  # shown as `{"$date": …}`, most of the time
    names: Mapping[Hashable, str] | None = None  # of an enum, by the stored value

    def describe(self) -> Described | None:
        """Return the path and the declared type."""
        named: Described = ("scalar", get_named_type(self.type).name)
        if self.names is not None:
            named = ("enum", self.names)
        return self.key, "stored", self.path, describe_type(self.type, named)


def describe_type(type_: GraphQLOutputType, named: Described) -> Described:
    """Return the lists and nullability around a named type."""
    if is_non_null_type(type_):
        return "non-null", describe_type(type_.of_type, named)
    if is_list_type(type_):
        return "list", describe_type(type_.of_type, named)
    return named


def is_nullable(type_: GraphQLOutputType) -> bool:
    """Return whether null is a value of the type."""
    return not is_non_null_type(type_)


def build_strict(
    type_: GraphQLOutputType, serialize: Serialize, unchanged: Kind | None = None
) -> Serialize:
    """Build a function that completes a valid value and raises for any other."""
    if is_non_null_type(type_):
        inner = build_strict(type_.of_type, serialize, unchanged)

        def complete_present(value: Any) -> Any:
            if value is None:
                raise ValueError
            return inner(value)

        return complete_present
    if is_list_type(type_):
        return _build_strict_list(type_.of_type, serialize, unchanged)
    return lambda value: None if value is None else serialize(value)


def _build_strict_list(
    item_type: GraphQLOutputType, serialize: Serialize, unchanged: Kind | None
) -> Serialize:
    complete = build_strict(item_type, serialize, unchanged)
    named = item_type.of_type if is_non_null_type(item_type) else item_type
    # A list of values that are their own JSON is its own JSON, too; a double may be NaN.
    kind = None if is_list_type(named) or unchanged is float else unchanged

    def complete_list(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not list:
            raise ValueError
        if kind is not None:
            for item in value:
                if item.__class__ is not kind:
                    break
            else:
                return value
        return [complete(item) for item in value]

    return complete_list
