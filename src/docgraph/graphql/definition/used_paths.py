"""Used paths: the properties that a mapping compares or orders by, and the arguments it needs.

It reads filters, orders and stages as the author wrote them, with their placeholders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from docgraph.graphql.definition.group_visibility import KEEPING_DOCUMENTS, name_results
from docgraph.graphql.definition.mapping import AggregationMapping, GroupMapping, QueryMapping
from docgraph.graphql.definition.visibility import Coordinates
from docgraph.store.guard.references import find_reference, nested_pipelines
from docgraph.store.names import namespace_of, walk

TEXT: Final = "$text"  # the properties in the text index
ANY: Final = ""  # every property: a filter that the caller writes

_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_WHOLE_DOCUMENTS: Final = ("$$ROOT.", "$$CURRENT.")
# They read whether there is a value, or how many, but not what is in it.
_SHALLOW: Final = frozenset({"$size", "$isArray", "$type"})
_COPYING: Final = frozenset({"$project", "$set", "$addFields"})
_SEARCHES: Final = frozenset({"$search", "$searchMeta", "$vectorSearch"})
_SORTS: Final = frozenset({"sortBy", "$sort"})
_SCHEMA: Final = "$jsonSchema"
_SPREADING: Final = frozenset({"$densify", "$fill"})


class GivenArguments(NamedTuple):
    """The arguments that a use depends on, and those of them without which there is no use."""

    names: frozenset[str] = frozenset()
    gating: frozenset[str] = frozenset()

    def __or__(self, other: Any) -> GivenArguments:
        return GivenArguments(self.names | other.names, self.gating | other.gating)


_NOTHING_GIVEN: Final = GivenArguments()


class UsedPath(NamedTuple):
    """A property of a collection that a part of a mapping reads."""

    key: str
    namespace: str
    path: str
    given: GivenArguments = _NOTHING_GIVEN
    is_shallow: bool = False
    is_parent: bool = False  # of the parent document, by `$fk`


def read_used_paths(place: Coordinates, mapping: Any) -> Iterator[UsedPath]:
    """Yield the properties that the mapping of a field uses, those of its parents too."""
    namespace = namespace_of(mapping.db, mapping.collection)
    if isinstance(mapping, QueryMapping | GroupMapping):
        yield from _PathReader("find", namespace).read_filter(mapping.find.source)
        sort = {} if mapping.sort is None else mapping.sort.source
        reader = _PathReader("sort", namespace)
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
            yield UsedPath(template.context.replace("filter", "find"), "", key, is_parent=True)


def _read_stages(
    stages: Any, namespace: str, results: str, given: GivenArguments, key: str = ""
) -> Iterator[UsedPath]:
    """Yield the properties that stages read; after one that reshapes, they are `results`."""
    reader = _PathReader(key, namespace)
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


class _PathReader:
    """Reads one part of a mapping; `joined` are the collections of `$lookup`, by property."""

    def __init__(self, key: str, namespace: str) -> None:
        self.key = key
        self.namespace = namespace
        self._joined: dict[str, str] = {}

    def read_filter(
        self, source: Any, given: GivenArguments = _NOTHING_GIVEN, prefix: str = ""
    ) -> Iterator[UsedPath]:
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
            elif key in (TEXT, _SCHEMA):
                named = [TEXT] if key == TEXT else _find_named(condition)
                yield from (self._use(one, given | _find_arguments(condition)) for one in named)
            elif key == "$arg":
                yield self._use(prefix or ANY, given | _find_arguments(source))
            elif key[:1] != "$":
                yield from self._read_condition(f"{prefix}{key}", condition, given)

    def _read_condition(
        self, path: str, condition: Any, given: GivenArguments
    ) -> Iterator[UsedPath]:
        inner = condition.get("$elemMatch") if isinstance(condition, Mapping) else None
        if isinstance(inner, Mapping) and any(key[:1] != "$" for key in inner):
            yield from self.read_filter(inner, given, f"{path}.")
        else:
            yield self._use(path, given | _find_arguments(condition))

    def read_sort(self, source: Any) -> Iterator[UsedPath]:
        """Yield the properties of an order."""
        for path, direction in source.items() if isinstance(source, Mapping) else ():
            if path[:1] != "$":
                yield self._use(path, _find_arguments(direction, is_sort=True))

    def read_stage(self, name: str, body: Any) -> Iterator[UsedPath]:
        """Yield the properties that a stage reads, except those of its nested pipelines."""
        if name == "$match":
            yield from self.read_filter(body)
            return
        if name == "$sort":
            yield from self.read_sort(body)
            return
        if name in _SEARCHES:
            yield self._use(TEXT, _find_arguments(body))
            return
        if name == "$unwind":
            body = body.get("path") if isinstance(body, Mapping) else body
        if not isinstance(body, Mapping):
            yield from self.read_expression(body, is_shallow=name == "$unwind")
            return
        nested = {key for key, _ in nested_pipelines(name, body)}
        rest = {key: one for key, one in body.items() if key not in nested}
        if name in _COPYING:
            rest = {key: one for key, one in rest.items() if one != f"${key}"}
        if name == "$geoNear":
            yield from self.read_filter(rest.pop("query", {}))
            yield from (self._use(str(one)) for one in (rest.pop("key", None),) if one)
        if name in _SPREADING:  # they name properties without a `$`
            named = [rest.get("field"), *(rest.get("partitionByFields") or ())]
            yield from (self._use(one) for one in named if isinstance(one, str))
        reference = find_reference(name, body, self.namespace.partition(".")[0])
        if reference is not None and name != "$unionWith":
            yield from self._read_join(body, namespace_of(*reference[:2]))
        yield from self.read_expression(rest)

    def _read_join(self, body: Mapping[str, Any], other: str) -> Iterator[UsedPath]:
        """Yield the properties that `$lookup` and `$graphLookup` compare."""
        self._joined[str(body.get("as"))] = other
        there = _PathReader(self.key, other)
        if isinstance(local := body.get("localField"), str):
            yield self._use(local)
        for key in ("foreignField", "connectFromField", "connectToField"):
            if isinstance(path := body.get(key), str):
                yield there._use(path)
        yield from there.read_filter(body.get("restrictSearchWithMatch"))

    def read_expression(
        self, value: Any, given: GivenArguments = _NOTHING_GIVEN, *, is_shallow: bool = False
    ) -> Iterator[UsedPath]:
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

    def _read_named(self, value: Mapping[str, Any], given: GivenArguments) -> Iterator[UsedPath]:
        """Yield properties that an expression names without a `$`."""
        field = value.get("$getField")
        field = field.get("field") if isinstance(field, Mapping) else field
        if isinstance(field, str):
            yield self._use(field, given)
        for key in _SORTS.intersection(value):
            yield from self.read_sort(value[key])

    def _use(
        self, path: str, given: GivenArguments = _NOTHING_GIVEN, *, is_shallow: bool = False
    ) -> UsedPath:
        first, _, rest = path.partition(".")
        if first in self._joined:
            return UsedPath(self.key, self._joined[first], rest, given, is_shallow or not rest)
        steps = (step for step in path.split(".") if not step.isdigit())
        return UsedPath(self.key, self.namespace, ".".join(steps), given, is_shallow)


def _read_branches(body: Any) -> Iterator[tuple[GivenArguments, Any]]:
    """Yield the parts of `$ifarg`: one with its arguments, one without."""
    if isinstance(body, list) and len(body) > 1:
        names = frozenset(body[0] if isinstance(body[0], list) else [body[0]])
        yield GivenArguments(names, names), body[1]
        yield from ((GivenArguments(names), part) for part in body[2:])


def _find_named(schema: Any) -> Iterator[str]:
    """Yield the properties that `$jsonSchema` names at any depth, those below them included."""
    for one in walk(schema):
        if isinstance(one, Mapping):
            for key in ("properties", "required", "dependencies", "patternProperties"):
                yield from (str(name) for name in one.get(key) or ())


def _find_arguments(value: Any, *, is_sort: bool = False) -> GivenArguments:
    """Return the arguments in a value; an order by null is no order."""
    found: list[tuple[str, bool]] = []
    for one in walk(value):
        if isinstance(one, Mapping) and "$arg" in one:
            name, *other = one["$arg"] if isinstance(one["$arg"], list) else [one["$arg"]]
            found.append((str(name), not other or (is_sort and other[0] is None)))
    names = frozenset(name for name, _ in found)
    return GivenArguments(names, frozenset(name for name, is_gating in found if is_gating))
