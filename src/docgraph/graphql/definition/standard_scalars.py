"""Float and ID as docgraph coerces them, in schemas of its own.

graphql-core has one object for each of its scalars, refuses to construct a second one of the same
name, and puts its own into every schema that it extends. Another program in this process may use
them, so they stay as they are: `replace_standard` puts ours in their place in a new schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from graphql import (
    GraphQLFloat,
    GraphQLID,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNamedType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    StringValueNode,
    ValueNode,
)

from docgraph.codec.forms import plain_double_form
from docgraph.codec.id_text import IdText
from docgraph.graphql.definition.inputs import build_bson

_NOT_FINITE: Final = {
    plain_double_form(number): number for number in map(float, ("nan", "inf", "-inf"))
}
_parse_number_literal: Any = GraphQLFloat.coerce_input_literal
_parse_text_literal: Any = GraphQLID.coerce_input_literal


def _parse_float(value: Any) -> float:
    """Parse a number, or the text that results have for NaN and infinities (decision 16)."""
    if isinstance(value, dict) and isinstance(opened := build_bson(value), float):
        return opened
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    number: float = GraphQLFloat.coerce_input_value(value)
    return number


def _parse_float_literal(node: ValueNode) -> float:
    if isinstance(node, StringValueNode) and node.value in _NOT_FINITE:
        return _NOT_FINITE[node.value]
    number: float = _parse_number_literal(node)
    return number


def _parse_id(value: Any) -> IdText:
    return IdText(GraphQLID.coerce_input_value(value))


def _parse_id_literal(node: ValueNode) -> Any:
    text = _parse_text_literal(node)
    return IdText(text) if isinstance(text, str) else text


def _rebuild(
    scalar: GraphQLScalarType, parse: Callable[[Any], Any], parse_literal: Callable[[Any], Any]
) -> GraphQLScalarType:
    """Return a second scalar of the same name, which the constructor of graphql-core refuses."""
    rebuilt = object.__new__(GraphQLScalarType)
    rebuilt.__init__(  # type: ignore[misc]
        scalar.name,
        coerce_output_value=scalar.coerce_output_value,
        coerce_input_value=parse,
        coerce_input_literal=parse_literal,
        value_to_literal=scalar.value_to_literal,
        description=scalar.description,
    )
    return rebuilt


FLOAT: Final = _rebuild(GraphQLFloat, _parse_float, _parse_float_literal)
ID: Final = _rebuild(GraphQLID, _parse_id, _parse_id_literal)
_OURS: Final[dict[GraphQLNamedType, GraphQLScalarType]] = {GraphQLFloat: FLOAT, GraphQLID: ID}


def replace_standard(schema: GraphQLSchema) -> None:
    """Put our scalars in place of graphql-core's in a new schema."""
    for directive in schema.directives:
        _replace_in(directive.args.values())
    for type_ in schema.type_map.values():
        if isinstance(type_, GraphQLInputObjectType):
            _replace_in(type_.fields.values())
        elif isinstance(type_, GraphQLObjectType | GraphQLInterfaceType):
            _replace_in(type_.fields.values())
            for field in type_.fields.values():
                _replace_in(field.args.values())
    for type_ in _OURS.values():
        if type_.name in schema.type_map:
            schema.type_map[type_.name] = type_


def _replace_in(parts: Iterable[Any]) -> None:
    for part in parts:
        part.type = _replace(part.type)


def _replace(type_: Any) -> Any:
    if isinstance(type_, GraphQLNonNull | GraphQLList):
        inner = _replace(type_.of_type)
        return type_ if inner is type_.of_type else type(type_)(inner)
    return _OURS.get(type_, type_)
