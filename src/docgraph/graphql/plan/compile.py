"""Completing values, the fast path: one generated function per block builds all its objects.

It reports no errors: at the first value that does not match the schema it raises, and the slow path
completes the block again (`execute/examine.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from graphql import is_list_type, is_non_null_type

from docgraph.codec.parse_scalars import build_millis
from docgraph.graphql.plan.leaves import (
    LeafField,
    TypenameField,
    UnmappedField,
    build_strict,
    is_nullable,
)

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
            given[f"f{number}"] = build_strict(field.type, _unchanged)
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
        given["date"], given["millis"] = datetime, build_millis
        show = f"{value} = {{'$date': millis({value})}}"
        return [read, f"if {value}.__class__ is date: {show}", f"elif {present}: {finish}"]
    return [read, f"if {present}: {finish}"]


def _is_changed(
    unchanged: type, value: str, number: int, given: dict[str, Any], *, is_list: bool
) -> str:
    """Return the test for values that are not their own JSON."""
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


def _unchanged(value: Any) -> Any:
    return value
