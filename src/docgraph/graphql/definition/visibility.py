"""Field-level security: `@visible` hides parts from callers without a role (decisions 20 and 59).

Each caller gets a schema from which the hidden parts are removed: hidden fields, arguments and
input fields, the types that only hidden parts reach, types left without a field, and the parts of
those types. The rest is built from the author's definitions like any other schema. A hidden
argument or input field counts as not given: its default applies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final

from graphql import (
    DefinitionNode,
    DocumentNode,
    GraphQLArgument,
    GraphQLField,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    ListValueNode,
    StringValueNode,
    Undefined,
    get_named_type,
    is_required_argument,
    is_required_input_field,
)
from graphql.utilities.coerce_input_value import coerce_default_value

from docgraph.codec.forms import JsonMode
from docgraph.graphql.definition.schema import VISIBLE, extend_base
from docgraph.graphql.federation.subgraph import ENTITIES_FIELD

Coordinates = tuple[str, str]
SchemaPart = tuple[str, ...]  # a type, a field of an object or input type, or an argument
Follows = Mapping[SchemaPart, frozenset[Coordinates]]
FieldedType = GraphQLObjectType | GraphQLInterfaceType

HIDDEN_DEFAULTS: Final = "hiddenDefaults"  # extension of a field: values of hidden arguments

_ARGUMENT: Final = 3  # steps of the coordinates of an argument
_NO_FOLLOWS: Follows = {}


@dataclass(frozen=True)
class Visibility:
    """The roles of each field, argument and input field that has `@visible`.

    `follows` are the generated parts of the schema, and the fields that each of them follows.
    """

    roles: Mapping[SchemaPart, frozenset[str]]
    follows: Follows = field(default_factory=dict)

    @cached_property
    def all_roles(self) -> frozenset[str]:
        return frozenset().union(*self.roles.values())

    def hidden_from(self, roles: Iterable[str]) -> frozenset[SchemaPart]:
        """Return the parts that a caller with these roles does not see."""
        held = frozenset(roles)
        return frozenset(part for part, needed in self.roles.items() if not needed & held)


def read_visibility(schema: GraphQLSchema, follows: Follows = _NO_FOLLOWS) -> Visibility:
    """Read the `@visible` directives of the schema."""
    found: dict[SchemaPart, frozenset[str]] = {}
    for part, definition in list_parts(schema):
        for directive in (definition.ast_node.directives or ()) if definition.ast_node else ():
            if directive.name.value == VISIBLE.name:
                found[part] = frozenset(_read_roles(directive.arguments or ()))
    return Visibility(found, follows)


def list_parts(
    schema: GraphQLSchema,
) -> Iterator[tuple[SchemaPart, GraphQLField | GraphQLInputField | GraphQLArgument]]:
    """Yield every field, its arguments, and every input field."""
    for type_ in (*fielded_types(schema), *input_types(schema)):
        for name, own in type_.fields.items():
            yield (type_.name, name), own
            for argument, given in getattr(own, "args", {}).items():
                yield (type_.name, name, argument), given


def spell_part(part: SchemaPart) -> str:
    """Return the coordinate of a part as GraphQL spells it: `Post.title`, `Query.posts(by:)`."""
    return ".".join(part[:2]) + "".join(f"({argument}:)" for argument in part[2:])


def _read_roles(arguments: Iterable[object]) -> Iterator[str]:
    for argument in arguments:
        value = getattr(argument, "value", None)
        items = value.values if isinstance(value, ListValueNode) else (value,)
        yield from (item.value for item in items if isinstance(item, StringValueNode))


def build_visible_schema(
    document: DocumentNode,
    schema: GraphQLSchema,
    hidden: frozenset[SchemaPart],
    mode: JsonMode = JsonMode.GRAPHQL,
    follows: Follows = _NO_FOLLOWS,
) -> GraphQLSchema:
    """Build the schema without these parts and everything that depends on them."""
    visible = extend_base(cut_document(document, schema, hidden, follows), mode)
    _apply_defaults(visible, schema)
    return visible


def cut_document(
    document: DocumentNode,
    schema: GraphQLSchema,
    hidden: frozenset[SchemaPart],
    follows: Follows = _NO_FOLLOWS,
) -> DocumentNode:
    """Return the definitions without these parts and everything that depends on them."""
    view = _view_without(schema, hidden, follows)
    definitions = [_cut(node, view) for node in document.definitions]
    return DocumentNode(definitions=tuple(node for node in definitions if node is not None))


def find_visible(
    schema: GraphQLSchema, hidden: frozenset[SchemaPart], follows: Follows = _NO_FOLLOWS
) -> set[SchemaPart]:
    """Return the parts that remain without these and everything that depends on them."""
    view = _view_without(schema, hidden, follows)
    return {
        part
        for part, _ in list_parts(schema)
        if part[0] in view.reachable
        and part[1] in view.fields[part[0]]
        and part not in view.lost_arguments
    }


def _apply_defaults(visible: GraphQLSchema, whole: GraphQLSchema) -> None:
    """Make the defaults of hidden arguments and input fields apply."""
    for type_ in input_types(visible):
        # The whole schema has a type of the same kind; graphql-core lets callers set `out_type`.
        fields = whole.type_map[type_.name].fields  # type: ignore[attr-defined]
        defaults = _find_defaults(fields, type_.fields)
        if defaults:
            type_.out_type = partial(_complete, defaults)  # type: ignore[method-assign]
    for owner in fielded_types(visible):
        for name, own in owner.fields.items():
            arguments = whole.type_map[owner.name].fields[name].args  # type: ignore[attr-defined]
            if len(arguments) > len(own.args):
                own.extensions = {HIDDEN_DEFAULTS: _find_defaults(arguments, own.args)}


def _find_defaults(whole: Mapping[str, Any], visible: Collection[str]) -> dict[str, Any]:
    values = {name: coerce_default_value(whole[name]) for name in whole if name not in visible}
    return {name: value for name, value in values.items() if value is not Undefined}


def _complete(defaults: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    return {**defaults, **value}


def fielded_types(schema: GraphQLSchema) -> list[FieldedType]:
    """Return the object and interface types, except those of GraphQL itself."""
    return [
        type_
        for name, type_ in schema.type_map.items()
        if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType) and name[:2] != "__"
    ]


def input_types(schema: GraphQLSchema) -> list[GraphQLInputObjectType]:
    return [one for one in schema.type_map.values() if isinstance(one, GraphQLInputObjectType)]


def _view_without(schema: GraphQLSchema, hidden: frozenset[SchemaPart], follows: Follows) -> _View:
    """Return the view without these parts, and without entities that only they reach.

    `_entities` leads to all entities. It shows those that the rest of the schema shows, and those
    that no field leads to. An entity below one of the latter follows the fields in between.
    """
    query = schema.type_map.get("Query")
    field = query.fields.get(ENTITIES_FIELD) if isinstance(query, GraphQLObjectType) else None
    is_declared = field is not None and field.ast_node is not None and not field.ast_node.loc
    union = schema.type_map.get("_Entity")
    if not hidden or not is_declared or not isinstance(union, GraphQLUnionType):
        return _View(schema, hidden, follows)
    without = frozenset({("Query", ENTITIES_FIELD)})
    whole = _View(schema, without, follows)
    view = _View(schema, hidden | without, follows)
    others = [type_ for type_ in union.types if type_.name not in whole.reachable]
    shown = view.reachable | view.reach_from(_find_entrances(others, whole, view))
    lost = {
        (type_.name, name)
        for type_ in union.types
        if type_.name not in shown
        for name in type_.fields
    }
    return _View(schema, hidden | lost, follows)


def _find_entrances(
    entities: Iterable[GraphQLObjectType], whole: _View, view: _View
) -> list[GraphQLObjectType]:
    """Return the entities that no other one leads to in the whole schema.

    Of several that lead to one another, these are the ones that another one leads to in the view.
    """
    reached = {type_: whole.reach_from([type_]) for type_ in entities}
    entrances: list[GraphQLObjectType] = []
    for type_, names in reached.items():
        above = [
            other
            for other, names_below in reached.items()
            if other is not type_ and type_.name in names_below
        ]
        if not all(other.name in names for other in above):
            continue
        if not above or type_.name in view.reach_from(above):
            entrances.append(type_)
    return entrances


class _View:
    """The visible part of a schema: fields, types that have some, types that can be reached."""

    def __init__(
        self,
        schema: GraphQLSchema,
        hidden: frozenset[SchemaPart],
        follows: Follows,
    ) -> None:
        self._schema = schema
        self._types = fielded_types(schema)
        self._inputs = input_types(schema)
        self._required = [part for part, one in list_parts(schema) if is_required(one)]
        self.fields = {
            type_.name: {name for name in type_.fields if (type_.name, name) not in hidden}
            for type_ in (*self._types, *self._inputs)
        }
        self.lost_arguments: set[SchemaPart] = {part for part in hidden if len(part) == _ARGUMENT}
        self._following = dict(follows)
        while (
            self._drop_following()
            or self._drop_empty()
            or self._drop_unfulfilled()
            or self._drop_incomplete()
        ):
            pass
        self.reachable = self._reach()

    def is_alive(self, type_: GraphQLNamedType) -> bool:
        """Return whether the type has a visible field; Query always stays."""
        if isinstance(type_, GraphQLUnionType):
            return any(self.is_alive(member) for member in type_.types)
        visible = self.fields.get(type_.name)
        if visible is not None and isinstance(type_, GraphQLInputObjectType):
            # `and`, `or` and `not` of a filter are not enough: they lead to the filter again.
            return len(visible) == len(type_.fields) or any(
                get_named_type(type_.fields[name].type) is not type_ for name in visible
            )
        return visible is None or bool(visible) or type_.name == "Query"

    def _drop_following(self) -> bool:
        """Drop generated parts whose fields are hidden; return whether there were any."""
        lost = [
            part
            for part, places in self._following.items()
            if not all(name in self.fields.get(type_, ()) for type_, name in places)
        ]
        for part in lost:
            del self._following[part]
            match part:
                case (name,):
                    self.fields[name] = set()
                case (type_, name):
                    self.fields[type_].discard(name)
                case _:
                    self.lost_arguments.add(part)
        return bool(lost)

    def _drop_empty(self) -> bool:
        """Drop fields and arguments whose type has no field left; return whether any were."""
        dropped = False
        for type_ in (*self._types, *self._inputs):
            visible = self.fields[type_.name]
            dead = {n for n in visible if not self.is_alive(get_named_type(type_.fields[n].type))}
            visible -= dead
            dropped = dropped or bool(dead)
        return self._drop_arguments() or dropped

    def _drop_arguments(self) -> bool:
        before = len(self.lost_arguments)
        self.lost_arguments |= {
            (type_.name, name, argument)
            for type_ in self._types
            for name in self.fields[type_.name]
            for argument, own in type_.fields[name].args.items()
            if not self.is_alive(get_named_type(own.type))
        }
        return len(self.lost_arguments) > before

    def _drop_unfulfilled(self) -> bool:
        """Drop interface fields that a visible type does not have; return whether any were."""
        dropped = False
        for type_ in self._types:
            if not self.is_alive(type_):
                continue
            for interface in type_.interfaces:
                lost = self.fields[interface.name] - self.fields[type_.name]
                self.fields[interface.name] -= lost
                dropped = dropped or bool(lost)
        return dropped

    def _drop_incomplete(self) -> bool:
        """Drop fields and inputs whose required parts are hidden; return whether any were.

        `check_visibility` refuses such definitions. This is for the rest: parts that only a
        combination of roles sees.
        """
        dropped = False
        for part in self._required:
            visible = self.fields[part[0]]
            if len(part) == _ARGUMENT:
                is_lost = part in self.lost_arguments and part[1] in visible
                lost = {part[1]} if is_lost else set()
            else:
                lost = set() if part[1] in visible else set(visible)
            visible -= lost
            dropped = dropped or bool(lost)
        return dropped

    def _reach(self) -> set[str]:
        starts: list[GraphQLNamedType] = [self._schema.type_map["Query"]]
        for directive in self._schema.directives:
            starts += [get_named_type(argument.type) for argument in directive.args.values()]
        return self.reach_from(starts)

    def reach_from(self, starts: Iterable[GraphQLNamedType]) -> set[str]:
        """Return the names of these types, and of those that their visible fields lead to."""
        pending = list(starts)
        reached: set[str] = set()
        while pending:
            type_ = pending.pop()
            if type_.name not in reached and self.is_alive(type_):
                reached.add(type_.name)
                pending += self._neighbours(type_)
        return reached

    def _neighbours(self, type_: GraphQLNamedType) -> Iterator[GraphQLNamedType]:
        if isinstance(type_, GraphQLUnionType):
            yield from type_.types
        elif isinstance(type_, GraphQLInputObjectType):
            visible = self.fields[type_.name]
            yield from (get_named_type(type_.fields[name].type) for name in visible)
        elif isinstance(type_, GraphQLObjectType | GraphQLInterfaceType):
            yield from type_.interfaces
            for name in self.fields[type_.name]:
                own = type_.fields[name]
                yield get_named_type(own.type)
                for argument, given in own.args.items():
                    if (type_.name, name, argument) not in self.lost_arguments:
                        yield get_named_type(given.type)
            if isinstance(type_, GraphQLInterfaceType):
                implementations = self._schema.get_implementations(type_)
                yield from implementations.objects
                yield from implementations.interfaces


def is_required(part: GraphQLField | GraphQLInputField | GraphQLArgument) -> bool:
    """Return whether a caller must give a value for it."""
    if isinstance(part, GraphQLArgument):
        return is_required_argument(part)
    return isinstance(part, GraphQLInputField) and is_required_input_field(part)


def _cut(node: DefinitionNode, view: _View) -> DefinitionNode | None:
    """Return a definition or extension with only its visible parts; None without any."""
    name_node = getattr(node, "name", None)
    if name_node is None or node.kind.startswith("directive"):
        return node
    if name_node.value not in view.reachable:
        return None
    changes: dict[str, object] = {}
    visible = view.fields.get(name_node.value)
    if visible is not None:
        kept = _kept(getattr(node, "fields", None), visible)
        changes["fields"] = tuple(_cut_arguments(name_node.value, one, view) for one in kept)
        if hasattr(node, "interfaces"):
            changes["interfaces"] = _kept(node.interfaces, view.reachable)
    elif node.kind.startswith("union"):
        changes["types"] = _kept(getattr(node, "types", None), view.reachable)
    return replace(node, **changes)  # type: ignore[arg-type]


def _cut_arguments(type_: str, node: Any, view: _View) -> Any:
    arguments = getattr(node, "arguments", None) or ()
    lost = view.lost_arguments
    if not any((type_, node.name.value, one.name.value) in lost for one in arguments):
        return node
    kept = (one for one in arguments if (type_, node.name.value, one.name.value) not in lost)
    return replace(node, arguments=tuple(kept))


def _kept(nodes: Iterable[object] | None, names: Iterable[str]) -> tuple[object, ...]:
    return tuple(node for node in nodes or () if node.name.value in names)  # type: ignore[attr-defined]
