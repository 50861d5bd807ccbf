"""Float and ID of our schemas, and those of graphql-core, which stay as they are."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import GraphQLError, GraphQLFloat, GraphQLID, GraphQLScalarType, get_named_type, parse

from docgraph.codec.id_text import IdText
from docgraph.graphql.definition.schema import build_schema
from docgraph.graphql.definition.standard_scalars import FLOAT, ID

_SCHEMA = """
directive @scaled(by: Float = 1.5) on FIELD_DEFINITION
type Query { items(filter: Filter, ids: [ID!]!): [Item!]! }
interface Node { id: ID! }
type Item implements Node { id: ID!  price(times: Float! = 2): Float }
input Filter { ids: [ID!]  prices: [[Float]] }
"""


def test_importing_docgraph_leaves_graphql_core_as_it_is() -> None:
    with pytest.raises(GraphQLError):
        GraphQLFloat.coerce_input_value("NaN")
    assert type(GraphQLID.coerce_input_value("a")) is str


def test_every_position_of_a_schema_has_our_scalars() -> None:
    schema = build_schema(parse(_SCHEMA))

    types = schema.type_map
    assert (types["Float"], types["ID"]) == (FLOAT, ID)
    names = ("Query", "Node", "Item", "Filter")
    fields: list[Any] = [one for name in names for one in vars(types[name])["fields"].values()]
    parts = [*fields, *(one for field in fields for one in getattr(field, "args", {}).values())]
    parts += [one for directive in schema.directives for one in directive.args.values()]
    named = [get_named_type(part.type) for part in parts]
    assert all(type_ is types[type_.name] for type_ in named)
    assert str(vars(types["Filter"])["fields"]["prices"].type) == "[[Float]]"


def test_an_id_keeps_that_it_was_a_text() -> None:
    assert isinstance(ID.coerce_input_value("5"), IdText)


@pytest.mark.parametrize("name", ["Float", "ID"])
def test_graphql_core_refuses_a_second_scalar_of_a_standard_name(name: str) -> None:
    """If it no longer does, `_rebuild` can call the constructor."""
    with pytest.raises(TypeError, match="reserved type"):
        GraphQLScalarType(name)
