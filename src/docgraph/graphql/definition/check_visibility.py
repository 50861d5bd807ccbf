"""Contradictions of `@visible`: parts that are more hidden than those that need them.

A caller who sees a field must see what its interface promises and be able to give what it requires
(decisions 20 and 59). The rules compare what a single role sees, and a caller without roles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from graphql import (
    GraphQLInputObjectType,
    GraphQLSchema,
    ListValueNode,
    ObjectValueNode,
    get_named_type,
)

from docgraph.graphql.definition.findings import Finding
from docgraph.graphql.definition.visibility import (
    FieldedType,
    SchemaPart,
    Visibility,
    fielded_types,
    input_types,
    is_required,
    list_parts,
    spell_part,
)

Roles = frozenset[str | None]  # None is a caller without any of the roles

_WITH_ARGUMENT: Final = 3


def check_visibility(
    schema: GraphQLSchema, visibility: Visibility, faults: Collection[tuple[str, ...]] = ()
) -> Iterator[Finding]:
    """Yield parts that are more hidden than an interface, or than what requires them, allows.

    Types among the `faults` show no field, and are not checked again.
    """
    for type_ in fielded_types(schema):
        if (type_.name,) not in faults:
            yield from _check_interfaces(type_, visibility)
    inputs = _names(schema)
    if any(len(part) == _WITH_ARGUMENT or part[0] in inputs for part in visibility.roles):
        yield from _InputCheck(schema, visibility).find(faults)


def _names(schema: GraphQLSchema) -> set[str]:
    return {type_.name for type_ in input_types(schema)}


def _check_interfaces(type_: FieldedType, visibility: Visibility) -> Iterator[Finding]:
    for interface in type_.interfaces:
        for name, promised in interface.fields.items():
            for steps in ((name,), *((name, argument) for argument in promised.args)):
                own = visibility.roles.get((type_.name, *steps))
                general = visibility.roles.get((interface.name, *steps))
                if own is not None and (general is None or not general <= own):
                    yield _report(
                        (type_.name, *steps),
                        f"it is more hidden than {spell_part((interface.name, *steps))}, "
                        "which it implements",
                        f"hide {spell_part((interface.name, *steps))} from the same roles",
                    )


class _InputCheck:
    """Compares required parts and defaults with the roles that see them."""

    def __init__(self, schema: GraphQLSchema, visibility: Visibility) -> None:
        self._schema = schema
        self._roles = visibility.roles
        self._everyone: Roles = frozenset({None, *visibility.all_roles})
        self._inputs = dict.fromkeys(_names(schema), self._everyone)
        while self._narrow():
            pass

    def find(self, faults: Collection[tuple[str, ...]]) -> Iterator[Finding]:
        """Yield required parts and defaults that are hidden from callers who need them."""
        for part, definition in list_parts(self._schema):
            if (part[0],) in faults:
                continue
            if is_required(definition):
                yield from self._check_required(part, definition)
            default = getattr(definition, "default", None)
            if default is not None and default.literal is not None:
                yield from self._check_default(part, definition, default.literal)

    def _find_roles(self, part: SchemaPart, definition: Any) -> Roles:
        """Return the roles that see a part, as far as it and its type decide."""
        own = self._roles.get(part, self._everyone)
        type_ = get_named_type(definition.type)
        return own & self._inputs.get(type_.name, self._everyone)

    def _narrow(self) -> bool:
        """Hide inputs from the roles that see none of their fields; return whether any were."""
        before = dict(self._inputs)
        for type_ in input_types(self._schema):
            fields = type_.fields.items()
            others = [one for one in fields if get_named_type(one[1].type) is not type_]
            seen = (self._find_roles((type_.name, name), own) for name, own in others or fields)
            self._inputs[type_.name] = frozenset[str | None]().union(*seen)
        return before != self._inputs

    def _check_required(self, part: SchemaPart, definition: Any) -> Iterator[Finding]:
        *above, name = part
        owner = tuple(above)
        if len(part) == _WITH_ARGUMENT:
            needed = self._roles.get(owner, self._everyone)
        else:
            needed = self._inputs[part[0]]
        if not needed <= self._find_roles(part, definition):
            yield _report(
                part,
                f"it is required, and more hidden than {spell_part(owner)}",
                f"hide {spell_part(owner)} from the same roles, or give it a default"
                if len(part) == _WITH_ARGUMENT
                else f"make {name} optional",
            )
        if len(part) == _WITH_ARGUMENT:
            yield from self._check_promised(part)

    def _check_promised(self, part: SchemaPart) -> Iterator[Finding]:
        """Yield a required argument that the field of an interface hides."""
        type_name, *steps = part
        type_: Any = self._schema.type_map[type_name]
        for interface in type_.interfaces:
            general = self._roles.get((interface.name, *steps))
            field = self._roles.get((interface.name, steps[0]), self._everyone)
            if general is not None and not field <= general:
                hidden = spell_part((interface.name, *steps))
                yield _report(part, f"it is required, but {hidden} is hidden", "give it a default")

    def _check_default(self, part: SchemaPart, definition: Any, literal: Any) -> Iterator[Finding]:
        """Yield input fields that the default names and some callers do not see."""
        needed = self._roles.get(part)
        if needed is None and len(part) == _WITH_ARGUMENT:
            needed = self._roles.get(part[:2])
        for named in _list_named(literal, get_named_type(definition.type)):
            type_: Any = self._schema.type_map[named[0]]
            seen = self._find_roles(named, type_.fields[named[1]])
            if not (self._everyone if needed is None else needed) <= seen:
                what = f"its default names {spell_part(named)}, which some callers do not see"
                yield _report(part, what, f"hide {spell_part(part)} from the same roles")


def _list_named(literal: Any, type_: Any) -> Iterator[tuple[str, str]]:
    """Yield the input fields that a literal names."""
    if isinstance(literal, ListValueNode):
        for item in literal.values:
            yield from _list_named(item, type_)
    elif isinstance(literal, ObjectValueNode) and isinstance(type_, GraphQLInputObjectType):
        for node in literal.fields:
            name = node.name.value
            yield type_.name, name
            yield from _list_named(node.value, get_named_type(type_.fields[name].type))


def _report(part: SchemaPart, what: str, hint: str) -> Finding:
    return Finding(f"schema: {spell_part(part)}", what, hint)
