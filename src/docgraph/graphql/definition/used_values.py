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
    StageScope,
    StoredPath,
    enter_path,
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
_FIELDS: Final = frozenset({"$getField", "$setField", "$unsetField"})
# They return their operands, or items of them, as they are.
_OF_OBJECTS: Final = frozenset({"$first", "$last", "$push", "$addToSet", "$mergeObjects", "$locf"})
_PASSING: Final = _OF_OBJECTS | {
    *("$cond", "$switch", "$ifNull", "$arrayElemAt", "$slice", "$concatArrays", "$reverseArray"),
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

    @property
    def stored_path(self) -> str:
        """The path of what is read, if only as a part of something."""
        return WHOLE if self.path == SOMEWHERE else self.path


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

    def read_filter(self, source: Any, root: StageScope, prefix: str = "") -> None:
        """Note the properties that a filter compares."""
        for one in source if isinstance(source, list) else ():
            self.read_filter(one, root, prefix)
        for key, condition in source.items() if isinstance(source, Mapping) else ():
            if key[:1] != "$":
                self._read_condition(f"{prefix}{key}", condition, root)
            elif key == "$ifarg":
                for given, branch in read_branches(condition):
                    with self.giving(given):
                        self.read_filter(branch, root, prefix)
            elif key in _LOGICAL:
                self.read_filter(condition, root, prefix)
            else:
                with self.giving(find_arguments({key: condition})):
                    self._read_clause(key, condition, root, prefix)

    def _read_clause(self, key: str, condition: Any, root: StageScope, prefix: str) -> None:
        """Note the properties of an operator in place of a property."""
        if key == "$expr":
            self.read_expression(condition, root)
        elif key == "$arg":
            self.record_all(enter_path(root.root, prefix))
        elif key == TEXT:
            self.record([("", TEXT)])
        elif key == "$jsonSchema":
            for name in _find_named(condition):
                self.record_all(enter_path(root.root, name))

    def _read_condition(self, path: str, condition: Any, root: StageScope) -> None:
        inner = condition.get("$elemMatch") if isinstance(condition, Mapping) else None
        if isinstance(inner, Mapping) and any(key[:1] != "$" for key in inner):
            self.read_filter(inner, root, f"{path}.")
            return
        value = enter_path(root.root, path)
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

    def read_expression(self, value: Any, scope: StageScope, *, is_shallow: bool = False) -> Shape:
        """Note the properties that an expression reads; return what its value comes from.

        A whole document is not read until something in it is, or it is compared.
        """
        if isinstance(value, str):
            shape = scope.find_value(value) or NO_ORIGIN
            origins = shape.get("", frozenset())
            if not any(path == WHOLE for _, path in origins):
                self.record(origins, is_shallow=is_shallow)
            return shape
        if isinstance(value, list):
            items = (self.read_expression(item, scope, is_shallow=is_shallow) for item in value)
            return merge_shapes(*items)
        if not isinstance(value, Mapping):
            return NO_ORIGIN
        shapes = [
            self._read_operator(name, part, scope)
            if name[:1] == "$"
            else put_part(NO_ORIGIN, name, self.read_expression(part, scope))
            for name, part in value.items()
        ]
        return merge_shapes(*shapes)

    def _read_operator(self, name: str, body: Any, scope: StageScope) -> Shape:
        if name in _UNREAD:
            return NO_ORIGIN
        if name in _SHALLOW:
            self.read_expression(body, scope, is_shallow=True)
            return NO_ORIGIN
        if name in _FIELDS:
            return self._read_field(name, body, scope)
        named = body if isinstance(body, Mapping) else {}
        if name == "$let":
            return self.read_expression(
                named.get("in"), scope.bind(self.read_variables(named.get("vars"), scope))
            )
        if name in _LOOPS:
            return self._read_loop(name, named, scope)
        parts = (self.read_expression(one, scope) for one in _list_operands(name, body))
        shape = merge_shapes(*parts)
        if "sortBy" in named:
            self.read_sort(named["sortBy"], shape if name == "$sortArray" else scope.root)
        if name in _PASSING:
            return shape
        self.record_documents(shape)
        return flatten_shape(shape)

    def read_variables(self, variables: Any, scope: StageScope) -> dict[str, Shape]:
        """Note what the variables of `$let` or `$lookup` are computed from; return their shapes."""
        named = variables if isinstance(variables, Mapping) else {}
        return {name: self.read_expression(value, scope) for name, value in named.items()}

    def _read_loop(self, name: str, body: Mapping[str, Any], scope: StageScope) -> Shape:
        items = self.read_expression(body.get("input"), scope)
        item = str(body.get("as", "this"))
        if name == "$map":
            return self.read_expression(body.get("in"), scope.bind({item: items}))
        if name == "$filter":
            self.read_expression([body.get("cond"), body.get("limit")], scope.bind({item: items}))
            return items
        value = merge_shapes(items, self.read_expression(body.get("initialValue"), scope))
        inner = scope.bind({"this": items, "value": value})
        result = self.read_expression(body.get("in"), inner)
        if not result.keys() <= value.keys():  # the next round reads parts that this one adds
            self.record_documents(result)
            return merge_shapes(value, result, flatten_shape(result))
        return merge_shapes(value, result)

    def _read_field(self, name: str, body: Any, scope: StageScope) -> Shape:
        """Read an operator that names a property without a `$`."""
        named = body if isinstance(body, Mapping) and "field" in body else {"field": body}
        field = named["field"]
        if isinstance(field, Mapping):
            field = field.get("$literal")
        shape = self.read_expression(named.get("input", "$$CURRENT"), scope)
        if name == "$getField":
            return self.read_expression(f"$$field.{field}", scope.bind({"field": shape}))
        return put_part(shape, str(field), self.read_expression(named.get("value"), scope))


def _list_operands(name: str, body: Any) -> list[Any]:
    """Return the expressions in the body of an operator, except an order."""
    if not isinstance(body, Mapping) or name in _OF_OBJECTS or any(key[:1] == "$" for key in body):
        return [body]
    if name == "$switch":
        cases = body.get("branches")
        branches = [*cases, {"then": body.get("default")}] if isinstance(cases, list) else [body]
        return [part for one in branches if isinstance(one, Mapping) for part in one.values()]
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
                yield from (str(name) for name in one.get(key) or ())


def find_arguments(value: Any, *, is_sort: bool = False) -> GivenArguments:
    """Return the arguments in a value; an order by null is no order."""
    found: list[tuple[str, bool]] = []
    for one in walk(value):
        if isinstance(one, Mapping) and "$arg" in one:
            name, *other = one["$arg"] if isinstance(one["$arg"], list) else [one["$arg"]]
            found.append((str(name), not other or (is_sort and other[0] is None)))
    names = frozenset(name for name, _ in found)
    return GivenArguments(names, frozenset(name for name, is_gating in found if is_gating))
