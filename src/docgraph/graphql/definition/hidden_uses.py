"""Hidden uses: mappings that compare or order by a property that some callers do not see.

`@visible` hides a field. A condition or an order on the same property still tells callers about
its values: by an argument they find each one, by a fixed condition they learn some (decision 59).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from graphql import GraphQLSchema, get_named_type

from docgraph.graphql.definition.check_effects import find_item_type
from docgraph.graphql.definition.declared_fields import ItemFields
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.group_visibility import (
    KEEPING_DOCUMENTS,
    Needs,
    ShownPaths,
    name_results,
)
from docgraph.graphql.definition.mapping import (
    AggregationMapping,
    FieldMapping,
    GroupMapping,
    Mappings,
    QueryMapping,
)
from docgraph.graphql.definition.visibility import (
    Coordinates,
    SchemaPart,
    Visibility,
    find_visible,
)
from docgraph.store.guard.references import find_reference, nested_pipelines
from docgraph.store.names import namespace_of, walk

_MAX_ROLES: Final = 32  # that are compared when a definition is written
_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_TEXT: Final = "$text"
_ANY: Final = ""  # every property: a filter that the caller writes
_WHOLE_DOCUMENTS: Final = ("$$ROOT.", "$$CURRENT.")
# They read whether there is a value, or how many, but not what is in it.
_SHALLOW: Final = frozenset({"$size", "$isArray", "$type"})
_COPYING: Final = frozenset({"$project", "$set", "$addFields"})
_SORTS: Final = frozenset({"sortBy", "$sort"})


class HiddenUse(NamedTuple):
    """A use of a property by the mapping of a field.

    `needs` are the fields that show the property. `arguments` are those that the use depends on, as
    written in the mapping. Without the `gates` among them there is no use.
    """

    field: Coordinates
    key: str
    path: str
    needs: Needs
    arguments: tuple[str, ...] = ()
    gates: frozenset[SchemaPart] = frozenset()

    def is_open(self, visible: Collection[SchemaPart]) -> bool:
        """Return whether a caller who sees these parts can make use of it."""
        return self.field in visible and all(one in visible for one in self.gates)

    def is_leak(self, visible: Collection[SchemaPart]) -> bool:
        """Return whether it tells such a caller about a field that is hidden."""
        return self.is_open(visible) and not all(one in visible for one in self.needs)

    def describe(self) -> str:
        """Return what it does, for a message."""
        what = "every property" if self.path == _ANY else self.path
        what = "the text index" if self.path == _TEXT else what
        return f"uses {what}{self._with} for callers who do not see {self._hidden}"

    @property
    def label(self) -> str:
        """What can be learned and where, in a few words."""
        return f"{self._hidden} by {'.'.join(self.field)}.{self.key}{self._with}"

    @property
    def _hidden(self) -> str:
        return ", ".join(".".join(one) for one in sorted(self.needs))

    @property
    def _with(self) -> str:
        several = "s" if len(self.arguments) > 1 else ""
        return f" with the argument{several} {', '.join(self.arguments)}" if self.arguments else ""


class _Given(NamedTuple):
    """The arguments that a use depends on, and those of them without which there is no use."""

    names: frozenset[str] = frozenset()
    gating: frozenset[str] = frozenset()

    def __or__(self, other: Any) -> _Given:
        return _Given(self.names | other.names, self.gating | other.gating)


_NOTHING_GIVEN: Final = _Given()


class _PathUse(NamedTuple):
    """A property of a collection that a part of a mapping reads."""

    key: str
    namespace: str
    path: str
    given: _Given = _NOTHING_GIVEN
    is_shallow: bool = False
    is_parent: bool = False  # of the parent document, by `$fk`


def find_hidden_uses(
    schema: GraphQLSchema, mappings: Mappings, visibility: Visibility
) -> list[HiddenUse]:
    """Return the uses of properties that only fields with `@visible` show."""
    if not visibility.roles:
        return []
    uses = [
        (place, use)
        for type_name, fields in mappings.items()
        for name, mapping in fields.items()
        if not isinstance(mapping, FieldMapping)
        for place in [(type_name, name)]
        for use in _read_mapping(place, mapping)
    ]
    wanted = [(use.namespace, use.path) for _, use in uses if use.path != _TEXT]
    shown = ShownPaths(schema, mappings, visibility, wanted)
    finder = _NeedsFinder(schema, mappings, visibility, shown)
    found = (finder.complete(place, use) for place, use in uses)
    return list(dict.fromkeys(use for use in found if use.needs))


def find_leaks(
    schema: GraphQLSchema, visibility: Visibility, uses: Collection[HiddenUse]
) -> Iterator[HiddenUse]:
    """Yield the uses that tell a caller with one role, or with none, about a hidden field."""
    held = ((), *((role,) for role in sorted(visibility.all_roles)))
    pending = dict.fromkeys(uses)
    for roles in islice(held, _MAX_ROLES + 1):
        if not pending:
            return
        visible = find_visible(schema, visibility.hidden_from(roles), visibility.follows)
        for use in [one for one in pending if one.is_leak(visible)]:
            del pending[use]
            yield use


def warn_hidden_uses(
    schema: GraphQLSchema, mappings: Mappings, visibility: Visibility, findings: Findings
) -> None:
    """Warn about conditions and orders that tell callers about fields that they do not see."""
    leaks = find_leaks(schema, visibility, find_hidden_uses(schema, mappings, visibility))
    for use in leaks:
        argument = "add @visible to the argument, " if use.arguments else ""
        findings.warn(
            f"mappings.{'.'.join(use.field)}.{use.key}",
            use.describe(),
            f"{argument}hide this field from the same roles, or do not use the property",
        )


class _NeedsFinder:
    """Finds the fields that show a used property, and the arguments that gate its use."""

    def __init__(
        self, schema: GraphQLSchema, mappings: Mappings, visibility: Visibility, shown: ShownPaths
    ) -> None:
        self._schema = schema
        self._mappings = mappings
        self._visibility = visibility
        self._shown = shown
        self._items = ItemFields(schema, mappings, {})

    def complete(self, place: Coordinates, use: _PathUse) -> HiddenUse:
        """Return the use with the fields that it depends on."""
        type_: Any = self._schema.type_map[place[0]]
        field = type_.fields[place[1]]
        names = tuple(sorted(n for n in use.given.names if n.partition(".")[0] in field.args))
        gates = frozenset(
            part
            for name in use.given.gating.intersection(names)
            for part in self._find_gates((*place, name.partition(".")[0]), field, name)
        )
        return HiddenUse(place, use.key, use.path, self._find_needs(place, use), names, gates)

    def _find_needs(self, place: Coordinates, use: _PathUse) -> Needs:
        if use.path == _TEXT:
            type_: Any = self._schema.type_map[place[0]]
            mapping = self._mappings[place[0]][place[1]]
            item = find_item_type(self._schema, type_.fields[place[1]], mapping)
            restricted = self._visibility.roles
            return frozenset(one for one in self._items.list_texts(item) if one in restricted)
        if use.is_parent:
            return self._find_own(place[0], use.path)
        return self._shown.find_needs(use.namespace, use.path, with_parts=not use.is_shallow)

    def _find_own(self, type_name: str, path: str) -> Needs:
        """Return the fields of a type that show a property, if all of them have `@visible`."""
        own = {
            (type_name, name)
            for name, mapping in self._mappings[type_name].items()
            if isinstance(mapping, FieldMapping) and mapping.text == path
        }
        return frozenset(own if own <= self._visibility.roles.keys() else ())

    def _find_gates(self, part: SchemaPart, field: Any, name: str) -> Iterator[SchemaPart]:
        """Yield the argument and the input fields that a name goes through and that can be absent.

        With a default it is never absent.
        """
        given, (_, *steps) = field.args[part[-1]], name.split(".")
        while True:
            if given.default is None:
                yield part
            type_ = get_named_type(given.type)
            fields = getattr(type_, "fields", {})
            if not steps or steps[0] not in fields:
                return
            part, given = (type_.name, steps[0]), fields[steps.pop(0)]


def _read_mapping(place: Coordinates, mapping: Any) -> Iterator[_PathUse]:
    namespace = namespace_of(mapping.db, mapping.collection)
    if isinstance(mapping, QueryMapping | GroupMapping):
        yield from _UsedPaths("find", namespace).read_filter(mapping.find.source)
        sort = {} if mapping.sort is None else mapping.sort.source
        reader = _UsedPaths("sort", namespace)
        if isinstance(mapping, QueryMapping):
            yield from reader.read_sort(sort)
        else:  # keys follow their fields, totals are fixed
            totals = {name: one for name, one in mapping.results.items() if one.operator != "by"}
            paths = {totals[name].path: one for name, one in sort.items() if name in totals}
            yield from reader.read_sort({path: one for path, one in paths.items() if path})
    elif isinstance(mapping, AggregationMapping):
        results = name_results(place, mapping)
        yield from _read_stages(mapping.stages.source, namespace, results, _NOTHING_GIVEN)
    for template in mapping.templates:
        for key in template.foreign_keys:
            yield _PathUse(template.context.replace("filter", "find"), "", key, is_parent=True)


def _read_stages(
    stages: Any, namespace: str, results: str, given: _Given, key: str = ""
) -> Iterator[_PathUse]:
    """Yield the properties that stages read; after one that reshapes, they are `results`."""
    reader = _UsedPaths(key, namespace)
    for number, stage in enumerate(stages if isinstance(stages, list) else [stages]):
        if not isinstance(stage, Mapping) or len(stage) != 1:
            continue
        ((name, body),) = stage.items()
        here = key or f"stages[{number}]"
        if name == "$ifarg":
            for names, branch in _read_branches(body):
                yield from _read_stages(branch, reader.namespace, results, given | names, here)
            continue
        reader.key = here
        for use in reader.read_stage(name, body):
            yield use._replace(given=use.given | given)
        reference = find_reference(name, body, namespace.partition(".")[0])
        other = reader.namespace if reference is None else namespace_of(*reference[:2])
        for _, nested in nested_pipelines(name, body):
            yield from _read_stages(nested, other, f"{results}/{here}", given, here)
        if name not in KEEPING_DOCUMENTS:
            reader.namespace = results


class _UsedPaths:
    """Reads one part of a mapping; `joined` are the collections of `$lookup`, by property."""

    def __init__(self, key: str, namespace: str) -> None:
        self.key = key
        self.namespace = namespace
        self._joined: dict[str, str] = {}

    def read_filter(
        self, source: Any, given: _Given = _NOTHING_GIVEN, prefix: str = ""
    ) -> Iterator[_PathUse]:
        """Yield the properties that a filter compares."""
        for one in source if isinstance(source, list) else ():
            yield from self.read_filter(one, given, prefix)
        for key, condition in source.items() if isinstance(source, Mapping) else ():
            if key == "$ifarg":
                for names, branch in _read_branches(condition):
                    yield from self.read_filter(branch, given | names, prefix)
            elif key in _LOGICAL:
                yield from self.read_filter(condition, given, prefix)
            elif key == "$expr":
                yield from self.read_expression(condition, given)
            elif key == _TEXT:
                yield self._use(_TEXT, given | _find_arguments(condition))
            elif key == "$arg":
                yield self._use(prefix or _ANY, given | _find_arguments(source))
            elif key[:1] != "$":
                yield from self._read_condition(f"{prefix}{key}", condition, given)

    def _read_condition(self, path: str, condition: Any, given: _Given) -> Iterator[_PathUse]:
        inner = condition.get("$elemMatch") if isinstance(condition, Mapping) else None
        if isinstance(inner, Mapping) and any(key[:1] != "$" for key in inner):
            yield from self.read_filter(inner, given, f"{path}.")
        else:
            yield self._use(path, given | _find_arguments(condition))

    def read_sort(self, source: Any) -> Iterator[_PathUse]:
        """Yield the properties of an order."""
        for path, direction in source.items() if isinstance(source, Mapping) else ():
            if path[:1] != "$":
                yield self._use(path, _find_arguments(direction, is_sort=True))

    def read_stage(self, name: str, body: Any) -> Iterator[_PathUse]:
        """Yield the properties that a stage reads, except those of its nested pipelines."""
        if name == "$match":
            yield from self.read_filter(body)
            return
        if name == "$sort":
            yield from self.read_sort(body)
            return
        if not isinstance(body, Mapping):
            yield from self.read_expression(body)
            return
        nested = {key for key, _ in nested_pipelines(name, body)}
        rest = {key: one for key, one in body.items() if key not in nested}
        if name in _COPYING:
            rest = {key: one for key, one in rest.items() if one != f"${key}"}
        if name == "$geoNear":
            yield from self.read_filter(rest.pop("query", {}))
            yield from (self._use(str(one)) for one in (rest.pop("key", None),) if one)
        reference = find_reference(name, body, self.namespace.partition(".")[0])
        if reference is not None and name != "$unionWith":
            yield from self._read_join(body, namespace_of(*reference[:2]))
        yield from self.read_expression(rest)

    def _read_join(self, body: Mapping[str, Any], other: str) -> Iterator[_PathUse]:
        """Yield the properties that `$lookup` and `$graphLookup` compare."""
        self._joined[str(body.get("as"))] = other
        there = _UsedPaths(self.key, other)
        if isinstance(local := body.get("localField"), str):
            yield self._use(local)
        for key in ("foreignField", "connectFromField", "connectToField"):
            if isinstance(path := body.get(key), str):
                yield there._use(path)
        yield from there.read_filter(body.get("restrictSearchWithMatch"))

    def read_expression(
        self, value: Any, given: _Given = _NOTHING_GIVEN, *, is_shallow: bool = False
    ) -> Iterator[_PathUse]:
        """Yield the properties that an expression reads, with the arguments in it."""
        given = given | _find_arguments(value)
        pending = [(value, is_shallow)]
        while pending:
            one, is_shallow = pending.pop()
            if isinstance(one, str):
                for prefix in _WHOLE_DOCUMENTS:
                    one = f"${one.removeprefix(prefix)}" if one.startswith(prefix) else one
                if one[:1] == "$" and one[1:2] not in ("", "$"):
                    yield self._use(one[1:], given, is_shallow=is_shallow)
            elif isinstance(one, list):
                pending += [(item, is_shallow) for item in one]
            elif isinstance(one, Mapping):
                yield from self._read_named(one, given)
                unread = ("$literal", "$arg", "$fk")
                pending += [(v, key in _SHALLOW) for key, v in one.items() if key not in unread]

    def _read_named(self, value: Mapping[str, Any], given: _Given) -> Iterator[_PathUse]:
        """Yield properties that an expression names without a `$`."""
        field = value.get("$getField")
        field = field.get("field") if isinstance(field, Mapping) else field
        if isinstance(field, str):
            yield self._use(field, given)
        for key in _SORTS.intersection(value):
            yield from self.read_sort(value[key])

    def _use(
        self, path: str, given: _Given = _NOTHING_GIVEN, *, is_shallow: bool = False
    ) -> _PathUse:
        first, _, rest = path.partition(".")
        if first in self._joined:
            return _PathUse(self.key, self._joined[first], rest, given, is_shallow or not rest)
        steps = (step for step in path.split(".") if not step.isdigit())
        return _PathUse(self.key, self.namespace, ".".join(steps), given, is_shallow)


def _read_branches(body: Any) -> Iterator[tuple[_Given, Any]]:
    """Yield the parts of `$ifarg`: one with its arguments, one without."""
    if isinstance(body, list) and len(body) > 1:
        names = frozenset(body[0] if isinstance(body[0], list) else [body[0]])
        yield _Given(names, names), body[1]
        yield from ((_Given(names), part) for part in body[2:])


def _find_arguments(value: Any, *, is_sort: bool = False) -> _Given:
    """Return the arguments in a value; an order by null is no order."""
    found: list[tuple[str, bool]] = []
    for one in walk(value):
        if isinstance(one, Mapping) and "$arg" in one:
            name, *other = one["$arg"] if isinstance(one["$arg"], list) else [one["$arg"]]
            found.append((str(name), not other or (is_sort and other[0] is None)))
    names = frozenset(name for name, _ in found)
    return _Given(names, frozenset(name for name, is_gating in found if is_gating))
