"""Used values: the properties that a filter, an order or an expression of a mapping compares.

It reads them as the author wrote them, with their placeholders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from docgraph.graphql.definition.origins import (
    NO_ORIGIN,
    SOMEWHERE,
    WHOLE,
    Shape,
    StageVariables,
    StoredPath,
    enter_path,
    find_value,
    flatten_shape,
    merge_shapes,
    put_part,
)
from docgraph.store.names import walk

TEXT: Final = "$text"  # the properties in the text index

_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
# They read whether there is a value, or how many, but not what is in it.
_SHALLOW: Final = frozenset({"$size", "$isArray", "$type"})
_UNREAD: Final = frozenset({"$literal", "$arg", "$fk", "$meta"})
_LOOPS: Final = frozenset({"$map", "$filter", "$reduce"})
# They return their operands, or items of them, as they are.
_OF_OBJECTS: Final = frozenset({"$first", "$last", "$push", "$addToSet", "$mergeObjects", "$locf"})
_PASSING: Final = _OF_OBJECTS | {
    *("$cond", "$ifNull", "$arrayElemAt", "$slice", "$concatArrays", "$reverseArray"),
    *("$firstN", "$lastN", "$top", "$topN", "$bottom", "$bottomN", "$sortArray", "$shift"),
}


class GivenArguments(NamedTuple):
    """The arguments that a use depends on, and those of them without which there is no use."""

    names: frozenset[str] = frozenset()
    gating: frozenset[str] = frozenset()

    def __or__(self, other: Any) -> GivenArguments:
        return GivenArguments(self.names | other.names, self.gating | other.gating)


_NOTHING_GIVEN: Final = GivenArguments()


class UsedPath(NamedTuple):
    """A property of a collection that a part of a mapping reads, or `WHOLE`, or `SOMEWHERE`."""

    key: str
    namespace: str
    path: str
    given: GivenArguments = _NOTHING_GIVEN
    is_shallow: bool = False


class ValueReader:
    """Reads parts of a mapping, and adds the properties that they use to `uses`."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.uses: dict[UsedPath, None] = {}
        self._given = _NOTHING_GIVEN

    @contextmanager
    def giving(self, more: GivenArguments) -> Iterator[None]:
        """Note these arguments with each use."""
        before, self._given = self._given, self._given | more
        yield
        self._given = before

    def record(self, origins: Iterable[StoredPath], *, is_shallow: bool = False) -> None:
        """Add a use of each of these properties."""
        for namespace, path in sorted(origins):
            self.uses[UsedPath(self.key, namespace, path, self._given, is_shallow)] = None

    def record_all(self, shape: Shape) -> None:
        """Add a use of a value and of everything in it."""
        for origins in shape.values():
            self.record(origins)

    def record_documents(self, shape: Shape) -> None:
        """Add a use of the whole documents in a value, for an operator that may compare them."""
        self.record(one for one in flatten_shape(shape).get("", ()) if one[1] == SOMEWHERE)

    def read_filter(self, source: Any, variables: StageVariables, prefix: str = "") -> None:
        """Note the properties that a filter compares."""
        for one in source if isinstance(source, list) else ():
            self.read_filter(one, variables, prefix)
        for key, condition in source.items() if isinstance(source, Mapping) else ():
            if key[:1] != "$":
                self._read_condition(f"{prefix}{key}", condition, variables)
            elif key == "$ifarg":
                for given, branch in read_branches(condition):
                    with self.giving(given):
                        self.read_filter(branch, variables, prefix)
            elif key in _LOGICAL:
                self.read_filter(condition, variables, prefix)
            else:
                with self.giving(find_arguments({key: condition})):
                    self._read_clause(key, condition, variables, prefix)

    def _read_clause(
        self, key: str, condition: Any, variables: StageVariables, prefix: str
    ) -> None:
        """Note the properties of an operator in place of a property."""
        if key == "$expr":
            self.read_expression(condition, variables)
        elif key == "$arg":
            self.record_all(enter_path(variables["ROOT"], prefix))
        elif key == TEXT:
            self.record([("", TEXT)])
        elif key == "$jsonSchema":
            for name in _find_named(condition):
                self.record_all(enter_path(variables["ROOT"], name))

    def _read_condition(self, path: str, condition: Any, variables: StageVariables) -> None:
        inner = condition.get("$elemMatch") if isinstance(condition, Mapping) else None
        if isinstance(inner, Mapping) and any(key[:1] != "$" for key in inner):
            self.read_filter(inner, variables, f"{path}.")
            return
        value = enter_path(variables["ROOT"], path)
        given = find_arguments(condition)
        with self.giving(given):
            self.record(one for one in value.get("", ()) if one[1] != WHOLE)
            if given.names or _holds_document(condition):  # others only ask if there is a document
                self.record_all(value)

    def read_sort(self, source: Any, shape: Shape) -> None:
        """Note the properties of an order; a direction alone orders by the values themselves."""
        if not isinstance(source, Mapping) or "$arg" in source:
            with self.giving(find_arguments(source, is_sort=True)):
                self.record_all(shape)
            return
        for path, direction in source.items():
            if path[:1] != "$":
                with self.giving(find_arguments(direction, is_sort=True)):
                    self.record_all(enter_path(shape, path))

    def read_expression(
        self, value: Any, variables: StageVariables, *, is_shallow: bool = False
    ) -> Shape:
        """Note the properties that an expression reads; return what its value comes from.

        A whole document is not read until something in it is, or it is compared.
        """
        if isinstance(value, str):
            shape = find_value(value, variables)
            origins = shape.get("", frozenset())
            if not any(path == WHOLE for _, path in origins):
                self.record(origins, is_shallow=is_shallow)
            return shape
        if isinstance(value, list):
            items = (self.read_expression(item, variables, is_shallow=is_shallow) for item in value)
            return merge_shapes(*items)
        if not isinstance(value, Mapping):
            return NO_ORIGIN
        shapes = [
            self._read_operator(name, part, variables)
            if name[:1] == "$"
            else put_part(NO_ORIGIN, name, self.read_expression(part, variables))
            for name, part in value.items()
        ]
        return merge_shapes(*shapes)

    def _read_operator(self, name: str, body: Any, variables: StageVariables) -> Shape:
        if name in _UNREAD:
            return NO_ORIGIN
        if name in _SHALLOW:
            self.read_expression(body, variables, is_shallow=True)
            return NO_ORIGIN
        named = body if isinstance(body, Mapping) else {}
        if name == "$getField":
            field, owner = named.get("field", body), named.get("input", "$$CURRENT")
            field = field.get("$literal") if isinstance(field, Mapping) else field
            owners = {"input": self.read_expression(owner, variables)}
            return self.read_expression(f"$$input.{field}", owners)
        if name == "$let":
            more = self.read_variables(named.get("vars"), variables)
            return self.read_expression(named.get("in"), {**variables, **more})
        if name in _LOOPS:
            return self._read_loop(name, named, variables)
        parts = (self.read_expression(one, variables) for one in _list_operands(name, body))
        shape = merge_shapes(*parts)
        if "sortBy" in named:
            self.read_sort(named["sortBy"], shape if name == "$sortArray" else variables["ROOT"])
        if name in _PASSING:
            return shape
        self.record_documents(shape)
        return flatten_shape(shape)

    def read_variables(self, named: Any, variables: StageVariables) -> StageVariables:
        """Note what the variables of `$let` or `$lookup` are computed from; return their shapes."""
        items = named.items() if isinstance(named, Mapping) else ()
        return {name: self.read_expression(value, variables) for name, value in items}

    def _read_loop(self, name: str, body: Mapping[str, Any], variables: StageVariables) -> Shape:
        items = self.read_expression(body.get("input"), variables)
        inner = {**variables, str(body.get("as", "this")): items}
        if name == "$map":
            return self.read_expression(body.get("in"), inner)
        if name == "$filter":
            self.read_expression([body.get("cond"), body.get("limit")], inner)
            return items
        value = merge_shapes(items, self.read_expression(body.get("initialValue"), variables))
        result = self.read_expression(body.get("in"), {**inner, "value": value})
        if not result.keys() <= value.keys():  # the next round reads parts that this one adds
            self.record_documents(result)
            return merge_shapes(value, result, flatten_shape(result))
        return merge_shapes(value, result)


def _list_operands(name: str, body: Any) -> list[Any]:
    """Return the expressions in the body of an operator, except an order."""
    if not isinstance(body, Mapping) or name in _OF_OBJECTS or any(key[:1] == "$" for key in body):
        return [body]
    return [part for key, part in body.items() if key != "sortBy"]


def read_branches(body: Any) -> Iterator[tuple[GivenArguments, Any]]:
    """Yield the parts of `$ifarg`: one with its arguments, one without."""
    if isinstance(body, list) and len(body) > 1:
        names = frozenset(body[0] if isinstance(body[0], list) else [body[0]])
        yield GivenArguments(names, names), body[1]
        yield from ((GivenArguments(names), part) for part in body[2:])


def _holds_document(condition: Any) -> bool:
    return any(
        isinstance(one, Mapping) and any(key[:1] != "$" for key in one) for one in walk(condition)
    )


def _find_named(schema: Any) -> Iterator[str]:
    """Yield the properties that `$jsonSchema` names at any depth, those below them included."""
    for one in walk(schema):
        if isinstance(one, Mapping):
            for key in ("properties", "required", "dependencies", "patternProperties"):
                named = one.get(key)
                yield from map(str, named if isinstance(named, Mapping | list) else ())


def find_arguments(value: Any, *, is_sort: bool = False) -> GivenArguments:
    """Return the arguments in a value; an order by null is no order."""
    found: list[tuple[str, bool]] = []
    for one in walk(value):
        if isinstance(one, Mapping) and "$arg" in one:
            name, *other = one["$arg"] if isinstance(one["$arg"], list) else [one["$arg"]]
            found.append((str(name), not other or (is_sort and other[0] is None)))
    names = frozenset(name for name, _ in found)
    return GivenArguments(names, frozenset(name for name, is_gating in found if is_gating))
