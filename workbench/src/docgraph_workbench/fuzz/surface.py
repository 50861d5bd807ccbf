"""Surface of an app: the properties of collections that it reads, and those it hides."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLUnionType,
    get_named_type,
    get_nullable_type,
    is_abstract_type,
    is_list_type,
)

from docgraph.tools.apps import (
    AggregationMapping,
    App,
    FieldMapping,
    GroupMapping,
    QueryMapping,
    SchemaPart,
    find_item_type,
)
from docgraph.tools.data import (
    READING_MORE,
    FieldPath,
    find_reference,
    flatten_stages,
    nested_pipelines,
)
from docgraph_workbench.fuzz.fuzz_values import KINDS

_OPTIONAL: Final = "$ifarg"
_BRANCHES = frozenset({"$and", "$or", "$nor", "$ifarg", "$ifvar", "$not", "$elemMatch"})
_CONSTANT = frozenset({"$eq", "$gte", "$lte"})
_SCALARS = (str, int, float, bool)


@dataclass(slots=True)
class PropertyShape:
    """A property; `values` are constants that definitions compare it with.

    `is_key`: other documents are found by it. `hidden_by` says what hides it from the caller.
    `is_evaluated`: an expression computes with it; `text` is what it parses strings as.
    """

    kind: str = ""
    is_list: bool = False
    is_key: bool = False
    is_optional: bool = False
    is_evaluated: bool = False
    text: str = ""
    values: list[Any] = field(default_factory=list)
    children: dict[str, PropertyShape] = field(default_factory=dict)
    hidden_by: list[str] = field(default_factory=list)

    @property
    def made_kind(self) -> str:
        """The kind of values that generated documents have."""
        return self.text or self.kind if self.kind in ("", "string") else self.kind

    def at(self, path: Sequence[str]) -> PropertyShape:
        """Return the property at a path, created if new; array positions are no steps."""
        node = self
        for step in path:
            if step.isdigit():
                node.is_list = True
            else:
                node = node.children.setdefault(step, PropertyShape())
        return node

    def leaves(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], PropertyShape]]:
        """Yield the properties that have a value, with their paths."""
        for name, child in self.children.items():
            child_path = (*path, name)
            if child.children:
                yield from child.leaves(child_path)
            else:
                yield child_path, child


@dataclass(frozen=True, slots=True)
class Link:
    """Two properties, by namespace and path, that have the same values."""

    left: tuple[str, tuple[str, ...]]
    right: tuple[str, tuple[str, ...]]


def mark_path(shape: PropertyShape, path: str) -> PropertyShape:
    """Return the property at a path in dot notation."""
    return shape.at([step for step in path.split(".") if step and step[:1] != "$"])


def find_constants(shape: PropertyShape, filter: Any) -> Iterator[str]:
    """Record the values that a filter compares properties with, and yield their names."""
    if isinstance(filter, list):
        for part in filter:
            yield from find_constants(shape, part)
    for key, condition in filter.items() if isinstance(filter, dict) else ():
        if key in _BRANCHES:
            yield from find_constants(shape, condition)
        elif key[:1] != "$":
            node = mark_path(shape, key)
            node.values += [
                constant for constant in _read_constants(condition) if constant not in node.values
            ]
            yield key


def _read_constants(condition: Any) -> Iterator[Any]:
    if isinstance(condition, dict):
        for operator, operand in condition.items():
            if operator in _CONSTANT and isinstance(operand, _SCALARS):
                yield operand
            elif operator == "$in" and isinstance(operand, list):
                yield from (constant for constant in operand if isinstance(constant, _SCALARS))
    elif isinstance(condition, _SCALARS) and not str(condition).startswith("@"):
        yield condition


_KEEPING: Final = frozenset(
    {"$match", "$sort", "$limit", "$skip", "$lookup", "$addFields", "$set", "$unwind", "$sample"}
)
_EQUALS: Final = re.compile(r"field-eq\(\s*field\s*=\s*([\w.]+)\s*,\s*value\s*=\s*'([^']*)'")
_EXISTS: Final = re.compile(r"field-exists\(([^)]*)\)")
_DEEPEST: Final = 6


@dataclass(slots=True)
class Surface:
    """Shapes by namespace, linked properties, and names that the caller must not learn."""

    shapes: dict[str, PropertyShape] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    secret_names: frozenset[str] = frozenset()

    def shape(self, namespace: str) -> PropertyShape:
        """Return the shape of a collection, created if new."""
        return self.shapes.setdefault(namespace, PropertyShape())


def survey_app(app: App, roles: Iterable[str]) -> Surface:
    """Return what the app reads, with what `@visible` hides from a caller with these roles."""
    held = tuple(roles)
    walk = _SurfaceWalk(app, app.visibility.hidden_from(held))
    walk.run()
    surface = walk.surface
    surface.secret_names = frozenset(_find_secret_names(app, held))
    join_kinds(surface)
    return surface


def _find_secret_names(app: App, roles: tuple[str, ...]) -> Iterator[str]:
    """Yield names of hidden parts that occur nowhere else in the schema, not even as a word."""
    from graphql import print_schema

    words = set(re.findall(r"\w+", print_schema(app.visible_to(roles).schema).lower()))
    for *_, name in app.visibility.hidden_from(roles):
        if name.lower() not in words and len(name) > 3:  # noqa: PLR2004 - shorter ones are anywhere
            yield name


def join_kinds(surface: Surface) -> None:
    """Give one kind to properties that have the same values."""
    for link in surface.links:
        left, right = (surface.shape(name).at(path) for name, path in (link.left, link.right))
        left.is_key = right.is_key = True
        kind = left.kind or right.kind
        left.kind, right.kind = left.kind or kind, right.kind or kind


class _SurfaceWalk:
    """Walks from `Query` along the mappings."""

    def __init__(self, app: App, hidden: frozenset[SchemaPart]) -> None:
        self._app = app
        self._hidden = hidden
        self._seen: set[tuple[str, str, FieldPath, str]] = set()
        self.surface = Surface()

    def run(self) -> None:
        """Visit everything that can be reached."""
        query = self._app.schema.query_type
        for name in self._app.mappings.get("Query", {}):
            if query is not None and name in query.fields:
                self._follow("Query", name, query.fields[name], ("", (), ""))

    def _follow(
        self, owner: str, name: str, field: GraphQLField, parent: tuple[str, FieldPath, str]
    ) -> None:
        mapping = self._app.mappings.get(owner, {}).get(name)
        if isinstance(mapping, FieldMapping) and parent[0]:
            self._read_property((owner, name), field, mapping, parent)
        elif isinstance(mapping, QueryMapping | AggregationMapping):
            namespace = f"{mapping.db}.{mapping.collection}"
            written = self._app.definition.mappings.get(owner, {}).get(name, {})
            if isinstance(mapping, GroupMapping):
                written = {"stages": mapping.stages.source[:-1]}  # the last one reads no document
            self._read_mapping(namespace, written, parent)
            type_ = find_item_type(self._app.schema, field, mapping)
            self._enter(type_, "" if _reshapes(written.get("stages")) else namespace, (), "")

    def _read_property(
        self,
        coordinates: tuple[str, str],
        field: GraphQLField,
        mapping: FieldMapping,
        parent: tuple[str, FieldPath, str],
    ) -> None:
        namespace, prefix, why = parent
        node = self.surface.shape(namespace).at((*prefix, *mapping.path))
        node.is_list = node.is_list or is_list_type(get_nullable_type(field.type))
        if coordinates in self._hidden:
            why = f"@visible on {'.'.join(coordinates)}"
        type_ = get_named_type(field.type)
        if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType | GraphQLUnionType):
            steps = (step for step in mapping.path if not step.isdigit())
            self._enter(type_, namespace, (*prefix, *steps), why)
            return
        node.kind = node.kind or KINDS.get(type_.name, "string")
        if isinstance(type_, GraphQLEnumType):
            node.values += [value for value in self._app.enums[type_.name].stored.values()]
            node.kind = "enum"
        if why and why not in node.hidden_by:
            node.hidden_by.append(why)

    def _enter(self, type_: GraphQLNamedType, namespace: str, prefix: FieldPath, why: str) -> None:
        key = (type_.name, namespace, prefix, why)
        if key in self._seen or len(prefix) > _DEEPEST:
            return
        self._seen.add(key)
        if is_abstract_type(type_):
            if namespace:
                self._read_resolver(type_.name, self.surface.shape(namespace).at(prefix))
            for member in self._app.schema.get_possible_types(type_):
                self._enter(member, namespace, prefix, why)
        elif isinstance(type_, GraphQLObjectType):
            for name, field in type_.fields.items():
                self._follow(type_.name, name, field, (namespace, prefix, why))

    def _read_resolver(self, name: str, shape: PropertyShape) -> None:
        """Record the properties that distinguish the types of an interface or union."""
        written = self._app.definition.mappings.get(name, {})
        predicates = written.get("$typeResolver", {}) if isinstance(written, dict) else {}
        for text in predicates.values() if isinstance(predicates, dict) else ():
            for path, value in _EQUALS.findall(str(text)):
                node = mark_path(shape, path)
                try:
                    node.values.append(json.loads(value))
                except ValueError:
                    continue  # a server-side form, for which no documents are generated
            for paths in _EXISTS.findall(str(text)):
                for path in paths.split(","):
                    mark_path(shape, path.strip(" '\"")).is_optional = True

    def _read_mapping(
        self, namespace: str, written: Mapping[str, Any], parent: tuple[str, FieldPath, str]
    ) -> None:
        shape = self.surface.shape(namespace)
        for path in find_constants(shape, written.get("find", {})):
            condition = _find_condition(written["find"], path)
            _link(self.surface, namespace, path, condition, parent)
        mark_evaluated(shape, written.get("find", {}), {})
        for path in written.get("sort") or () if isinstance(written.get("sort"), dict) else ():
            if path[:1] != "$":
                mark_path(shape, path)
        stages = written.get("stages") or []
        survey_stages(self.surface, namespace, stages, _OPTIONAL, parent)


def survey_stages(
    surface: Surface,
    namespace: str,
    stages: Any,
    optional: str,
    parent: tuple[str, FieldPath, str] = ("", (), ""),
) -> None:
    """Record the properties that the stages of a mapping or stored aggregation read."""
    shape, joined = surface.shape(namespace), dict[str, PropertyShape]()
    for stage in flatten_stages(stages, optional):
        ((name, body),) = stage.items()
        for path in find_constants(shape, stage.get("$match", {})):
            _link(surface, namespace, path, _find_condition(stage["$match"], path), parent)
        other = _find_other(name, body, namespace)
        if other and _is(body):
            local, foreign = body.get("localField"), body.get("foreignField")
            if isinstance(local, str) and isinstance(foreign, str):
                ends = ((namespace, tuple(local.split("."))), (other, tuple(foreign.split("."))))
                surface.links.append(Link(*ends))
            joined[str(body.get("as"))] = surface.shape(other)
            mark_evaluated(surface.shape(other), body.get("restrictSearchWithMatch"), {})
        for _, nested in nested_pipelines(name, body):
            survey_stages(surface, other or namespace, nested, optional)
        mark_evaluated(shape, stage, joined)


def _find_other(name: str, body: Any, namespace: str) -> str:
    """Return the collection that a stage reads besides its own; empty: none."""
    reference = find_reference(name, body, namespace.partition(".")[0])
    return "" if reference is None else f"{reference.db}.{reference.collection}"


def _link(
    surface: Surface, namespace: str, path: str, condition: Any, parent: tuple[str, FieldPath, str]
) -> None:
    """Link `{"authorId": {"$fk": "_id"}}`: the children have the parent's value."""
    is_list = isinstance(condition, dict) and "$in" in condition
    inner = condition.get("$in", condition.get("$eq", condition)) if _is(condition) else None
    named = inner.get("$fk") if _is(inner) else None
    named = named[0] if isinstance(named, list) and named else named
    if isinstance(named, str) and parent[0]:
        key_path = (*parent[1], *named.split("."))
        surface.shape(parent[0]).at(key_path).is_list |= is_list
        surface.links.append(Link((parent[0], key_path), (namespace, tuple(path.split(".")))))


def _reshapes(stages: Any) -> bool:
    """Return whether the results of stages have other properties than the documents."""
    flattened = flatten_stages(stages or [], _OPTIONAL)
    return any(not _KEEPING.issuperset(stage) for stage in flattened)


def _is(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _find_condition(filter: Any, path: str) -> Any:
    """Return the condition of a filter on a path, wherever it is."""
    if isinstance(filter, list):
        return next(
            (condition for item in filter if (condition := _find_condition(item, path))), None
        )
    if not _is(filter):
        return None
    if path in filter:
        return filter[path]
    return _find_condition(list(filter.values()), path)


_FIELD: Final = re.compile(r"\$([A-Za-z_][\w.]*)")
# They return their input unchanged, so that the operator around them fails.
_PASSING: Final = frozenset({"$ifNull", "$cond", "$first", "$last", "$min", "$max"})
# Their content refers to other documents, or is not an expression.
_UNREAD: Final = READING_MORE | {"$arg", "$fk", "$var", "$literal"}
_LENIENT: Final = frozenset({"$sum", "$avg"})  # they skip values that are not numbers
_NUMERIC: Final = _LENIENT | frozenset(
    "$add $subtract $multiply $divide $mod $abs $ceil $floor $round $trunc $sqrt $pow $exp $ln "
    "$log $log10".split()
)
_PARSED: Final = {
    **dict.fromkeys(("$toInt", "$toLong", "$toDouble", "$toDecimal", "$convert"), "digits"),
    **dict.fromkeys(("$toDate", "$dateFromString"), "dateText"),
    "$toObjectId": "idText",
}
_STRICT: Final = frozenset(
    "$concat $toUpper $toLower $toString $substr $substrCP $substrBytes $strLenCP $strLenBytes "
    "$split $trim $ltrim $rtrim $indexOfCP $indexOfBytes $regexMatch $regexFind $regexFindAll "
    "$replaceOne $replaceAll $size $arrayElemAt $concatArrays $slice $filter $map $reduce "
    "$reverseArray $setUnion $setIntersection $setDifference $arrayToObject $indexOfArray "
    "$year $month $week $hour $minute $second $millisecond $dayOfMonth $dayOfWeek $dayOfYear "
    "$dateToString $dateToParts $dateTrunc $dateAdd $dateSubtract $dateDiff".split()
)


def mark_evaluated(shape: PropertyShape, source: Any, joined: Mapping[str, PropertyShape]) -> None:
    """Mark the properties that expressions in a filter or a stage read.

    `joined` has the shapes of documents that `$lookup` has put into these, by property.

    An expression fails for a value of another kind. If only a hidden row has one, the failure of
    the request reveals that row. So documents are generated that pass, and a hidden one that does
    not.
    """
    for path, operator in _find_fields(source, ""):
        first, _, rest = path.partition(".")
        node = (
            mark_path(joined[first], rest) if rest and first in joined else mark_path(shape, path)
        )
        if operator in _NUMERIC:
            node.kind = node.kind or "int"
        node.text = node.text or _PARSED.get(operator, "")
        is_strict = operator in _STRICT or operator in _PARSED or operator in _NUMERIC - _LENIENT
        node.is_evaluated = node.is_evaluated or is_strict


def _find_fields(value: Any, operator: str) -> Iterator[tuple[str, str]]:
    """Yield the `$paths` in a value, each with the operator around it."""
    if isinstance(value, str) and (path_match := _FIELD.fullmatch(value)):
        yield path_match[1], operator
    elif isinstance(value, list):
        for item in value:
            yield from _find_fields(item, operator)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in _UNREAD:
                is_operator = key[:1] == "$" and key not in _PASSING
                yield from _find_fields(inner, key if is_operator else operator)
