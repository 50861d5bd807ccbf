"""Leaf fields of a block: read from a document and serialized as JSON.

`describe` returns a field as the native extension expects it in an output program, or None.
`compile_projection` is the fast path of completing values: one generated function per block builds
all its objects. It reports no errors: at the first value that does not match the schema it raises,
and the slow path completes the block again (`execute/examine.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from graphql import GraphQLOutputType, get_named_type, is_list_type, is_non_null_type

from docgraph.codec.parse_scalars import EPOCH
from docgraph.graphql.errors import FieldFailure, FieldPosition

Get = Callable[[Any], Any]
Serialize = Callable[[Any], Any]
LeafKind = type[Any]
Described = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TypenameField:
    """`__typename`."""

    key: str
    value: str

    def describe(self) -> Described | None:
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
    unchanged: LeafKind | None = None  # values of exactly this type are their own JSON
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
    return not is_non_null_type(type_)


def build_strict(
    type_: GraphQLOutputType, serialize: Serialize, unchanged: LeafKind | None = None
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
    item_type: GraphQLOutputType, serialize: Serialize, unchanged: LeafKind | None
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


Project = Callable[..., list[Any]]


def compile_projection(name: str, fields: Sequence[Any]) -> Project:
    """Generate the function that builds the objects of a block from valid documents.

    Its parameters are the documents, then a list of completed values for each field that is not a
    leaf.

    The generated text contains only response keys, which are GraphQL names, and numbers; everything
    else is passed by reference.
    """
    given: dict[str, Any] = {}
    lines: list[str] = []
    entries: list[str] = []
    columns: list[str] = []
    for number, field in enumerate(fields):
        value = f"v{number}"
        if isinstance(field, LeafField):
            lines += _read_leaf(field, number, given)
        elif isinstance(field, TypenameField):
            given[value] = field.value
        elif isinstance(field, UnmappedField):
            given[f"f{number}"] = build_strict(field.type, lambda value: value)
            lines.append(f"{value} = f{number}(None)" if not field.failure else "raise ValueError")
        else:
            columns.append(value)
        entries.append(f"{field.key!r}: {value}")
    sources = ["documents", *(f"c{value[1:]}" for value in columns)]
    targets = ", ".join(["d", *columns])
    rows = f"zip({', '.join(sources)}, strict=True)" if columns else "documents"
    text = "\n".join(
        [
            f"def project({', '.join(sources + [f'{name}={name}' for name in given])}):",
            "    objects = []",
            "    add = objects.append",
            f"    for {targets} in {rows}:",
            *(f"        {line}" for line in lines),
            f"        add({{{', '.join(entries)}}})",
            "    return objects",
        ]
    )
    exec(compile(text, f"<{name}>", "exec"), given)  # noqa: S102 - see above
    return given["project"]  # type: ignore[no-any-return]


def _read_leaf(field: LeafField, number: int, given: dict[str, Any]) -> list[str]:
    """Return the lines that read a leaf; values that are their own JSON need no calls."""
    value, name = f"v{number}", f"n{number}"
    if len(field.path) == 1:
        given[name] = field.path[0]
        read = f"{value} = d.get({name})"
    else:
        given[name] = field.get
        read = f"{value} = {name}(d)"
    complete = f"f{number}"
    given[complete] = build_strict(field.type, field.serialize, field.unchanged)
    present = f"{value} is not None" if is_nullable(field.type) else "True"
    finish = f"{value} = {complete}({value})"
    named = field.type.of_type if is_non_null_type(field.type) else field.type
    if field.unchanged is not None:
        test = _is_changed(field.unchanged, value, number, given, is_list=is_list_type(named))
        return [read, f"if {test} and {present}: {finish}"]
    if field.is_date and not is_list_type(named):
        given["date"], given["epoch"] = datetime, EPOCH
        # As `build_millis`, without a call for each date.
        millis = "s.days * 86_400_000 + s.seconds * 1000 + s.microseconds // 1000"
        return [
            read,
            f"if {value}.__class__ is date and {value}.tzinfo is None:",
            f"    s = {value} - epoch",
            f"    {value} = {{'$date': {millis}}}",
            f"elif {present}: {finish}",
        ]
    return [read, f"if {present}: {finish}"]


def _is_changed(
    unchanged: type, value: str, number: int, given: dict[str, Any], *, is_list: bool
) -> str:
    """Return the condition, as source text, for values that are not their own JSON."""
    kind = f"t{number}"
    if is_list:
        if unchanged is float:
            return "True"
        # A list of such values is its own JSON; `issuperset` checks them in C.
        given[kind] = frozenset({unchanged}).issuperset
        return f"({value}.__class__ is not list or not {kind}(map(type, {value})))"
    given[kind] = unchanged
    test = f"{value}.__class__ is not {kind}"
    if unchanged is float:  # NaN and the infinities minus themselves are not 0
        return f"({test} or {value} - {value} != 0.0)"
    return test
