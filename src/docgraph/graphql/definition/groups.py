"""Counts and groups: the stages that docgraph writes for `count` and `group` of a mapping.

Paths are stored properties, as in `find`. Each value of a result has a name: the last step of the
path for `by` (`customer.country` is `country`), with the operator before it for totals
(`sumTotal`), or the one that the author gives (`{"revenue": "total"}`). No document can make the
stages fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from graphql import (
    GraphQLField,
    GraphQLObjectType,
    GraphQLSchema,
    get_named_type,
    get_nullable_type,
    is_list_type,
)

from docgraph.config.nearest import find_nearest
from docgraph.exchange import Document
from docgraph.graphql.definition.check_effects import find_queries
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.mapping import AnyMapping, FieldMapping, GroupedValue, GroupMapping
from docgraph.variables.compilation import describe

COUNT: Final = "count"
MAX_VALUES: Final = 50  # of one result
_MAX_STEPS: Final = 100  # of a path; the database accepts no more levels
_TOTALS: Final = ("sum", "avg", "min", "max")
_MEMBERS: Final = ("by", "unwind", *_TOTALS)
_NAME: Final = re.compile(r"(?!__)[_A-Za-z][_0-9A-Za-z]*")
_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "count": ("Int", "Long", "Float"),
    "sum": ("Float", "Decimal128", "Long", "Int"),
    "avg": ("Float", "Decimal128"),
}
_CONVERTED: Final = {"Float": "double", "Decimal128": "decimal"}
_EXPLICIT: Final = 'name it yourself: {"name": "path"}'

Reject = Callable[[str, str, str | None], None]


class GroupShape(NamedTuple):
    """The stages after the filter, and the values of each result."""

    stages: list[Document]
    results: dict[str, GroupedValue]


def build_count(value: Any, field: GraphQLField | None, reject: Reject) -> GroupShape:
    """Return the stage that counts documents."""
    if value is not True:
        reject(COUNT, f"must be true, not {describe(value)}", None)
    type_ = None if field is None else get_nullable_type(field.type)
    if type_ is not None and getattr(type_, "name", "") not in _NUMBERS[COUNT]:
        reject(COUNT, f"a count is a number, not {type_}", "declare the field as Int, or Long")
    return GroupShape([{"$count": COUNT}], {COUNT: GroupedValue(COUNT)})


def build_group(value: Any, field: GraphQLField | None, reject: Reject) -> GroupShape:
    """Return the stages that build the groups of `group`, or the totals of all documents."""
    if not isinstance(value, dict):
        reject("group", f"must be an object, not {describe(value)}", None)
        return GroupShape([], {})
    for member in value:
        if member not in _MEMBERS:
            nearest = find_nearest(member, _MEMBERS)
            hint = f"did you mean {nearest}?" if nearest else f"known are {', '.join(_MEMBERS)}"
            reject(f"group.{member}", "is not known", hint)
    results: dict[str, GroupedValue] = {}
    for operator in ("by", *_TOTALS):
        _add_results(results, operator, value.get(operator), reject)
    if len(results) > MAX_VALUES:
        reject("group", f"has more than {MAX_VALUES} values", None)
    results.setdefault(COUNT, GroupedValue(COUNT))
    unwound = [path for _, _, path in _read_entries("unwind", value.get("unwind"), reject)]
    if field is not None:
        _check_shape(field, has_keys="by" in value, reject=reject)
    stages = [{"$unwind": f"${path}"} for path in unwound]
    return GroupShape([*stages, *_build_stages(results, field)], results)


def _add_results(
    results: dict[str, GroupedValue], operator: str, value: Any, reject: Reject
) -> None:
    for where, name, path in _read_entries(operator, value, reject):
        if not _NAME.fullmatch(name) or name == "_id":
            reject(where, f"{name!r} cannot be the name of a field here", _EXPLICIT)
        elif name in results:
            other = results[name]
            both = f"{other} and {GroupedValue(operator, path)}"
            reject(where, f"{name} would be both {both}", _EXPLICIT)
        else:
            results[name] = GroupedValue(operator, path)


def _read_entries(operator: str, value: Any, reject: Reject) -> Iterator[tuple[str, str, str]]:
    """Yield place, name and path of each entry: of a path, a list of them, or names with paths."""
    place = f"group.{operator}"
    entries: list[tuple[str, Any, Any]] = []
    match value:
        case None:
            pass
        case str():
            entries = [(place, None, value)]
        case list() if value:
            entries = [(f"{place}[{number}]", None, one) for number, one in enumerate(value)]
        case dict() if value and operator != "unwind":
            entries = [(f"{place}.{name}", name, one) for name, one in value.items()]
        case _:
            kinds = (
                "a path or a list of them"
                if operator == "unwind"
                else ("a path, a list of paths, or an object of names and paths")
            )
            reject(place, f"must be {kinds}, and not empty", None)
    for where, name, path in entries:
        if not isinstance(path, str):
            reject(where, f"must be the path of a property, not {describe(path)}", None)
        elif _is_path(path):
            yield where, name or _derive_name(operator, path), path
        else:
            hint = "unwind the list" if any(map(str.isdigit, path.split("."))) else None
            reject(where, f"{path!r} is not the path of a property that can be grouped", hint)


def _is_path(path: str) -> bool:
    steps = path.split(".")
    return len(steps) <= _MAX_STEPS and all(
        step and step[0] != "$" and not step.isdigit() and "\0" not in step for step in steps
    )


def _derive_name(operator: str, path: str) -> str:
    last = path.rsplit(".", 1)[-1]
    return last if operator == "by" else f"{operator}{last[:1].upper()}{last[1:]}"


def _check_shape(field: GraphQLField, *, has_keys: bool, reject: Reject) -> None:
    inner = get_nullable_type(field.type)
    is_list = is_list_type(inner)
    item = get_nullable_type(inner.of_type) if is_list_type(inner) else inner
    if not isinstance(item, GraphQLObjectType):
        reject("group", f"gives objects with values, not {field.type}", "declare an object type")
    elif is_list and not has_keys:
        reject("group.by", f"is missing: {field.type} is a list of groups", "name its properties")
    elif has_keys and not is_list:
        hint = f"declare [{item.name}!]!, or leave out by for the totals of all documents"
        reject("group.by", f"gives a list of groups, not {field.type}", hint)


def _build_stages(
    results: Mapping[str, GroupedValue], field: GraphQLField | None
) -> list[Document]:
    named = None if field is None else get_named_type(field.type)
    declared = named.fields if isinstance(named, GraphQLObjectType) else {}
    keys = {name: one.path for name, one in results.items() if one.operator == "by"}
    group: Document = {
        "_id": {name: {"$ifNull": [f"${path}", None]} for name, path in keys.items()}
    }
    shown: Document = {name: f"$_id.{name}" for name in keys}  # and _id, which orders the groups
    for name, (operator, path) in results.items():
        if operator == "by":
            continue
        group[name] = {"$sum": 1} if operator == COUNT else {f"${operator}": f"${path}"}
        shown[name] = 1
        kind = get_named_type(declared[name].type).name if name in declared else ""
        if operator in ("sum", "avg") and kind in _CONVERTED:
            shown[name] = _convert(name, _CONVERTED[kind])
    if not keys:
        group["_id"] = None
    return [{"$group": group}, {"$project": shown}]


def _convert(name: str, kind: str) -> Document:
    """Return the total as the type that is declared: the stored numbers may be of several."""
    return {"$convert": {"input": f"${name}", "to": kind, "onError": None, "onNull": None}}


def check_groups(
    schema: GraphQLSchema, mappings: Mapping[str, Mapping[str, AnyMapping]], findings: Findings
) -> None:
    """Check that the types of groups have a field of the right type for each value."""
    for where, field, mapping in find_queries(schema, mappings):
        item = get_named_type(field.type)
        if isinstance(mapping, GroupMapping) and isinstance(item, GraphQLObjectType):
            _check_results(f"{where}.group", mapping, item, mappings[item.name], findings)


def _check_results(
    where: str,
    mapping: GroupMapping,
    type_: GraphQLObjectType,
    fields: Mapping[str, AnyMapping],
    findings: Findings,
) -> None:
    read: set[str] = set()
    for name, own in fields.items():
        if not isinstance(own, FieldMapping):
            continue
        read.add(own.path[0])
        value = mapping.results.get(own.path[0])
        coordinates = f"{type_.name}.{name}"
        if value is None:
            findings.warn(where, f"gives no value for {coordinates}: always null")
        elif value.operator in _NUMBERS:
            kinds, declared = _NUMBERS[value.operator], type_.fields[name].type
            if str(get_nullable_type(declared)) not in kinds:
                what = f"{coordinates} is {value}, which cannot be {declared}"
                findings.error(where, what, f"declare it as {' or '.join(kinds)}")
    missing = [
        f"{name}: {_NUMBERS[one.operator][0]} ({one})"
        if one.operator in _NUMBERS
        else f"{name} ({one})"
        for name, one in mapping.results.items()
        if name not in read and one.operator != COUNT
    ]
    if missing:
        findings.error(where, f"the type {type_.name} needs the fields {', '.join(missing)}")
