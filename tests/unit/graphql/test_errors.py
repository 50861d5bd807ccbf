"""Messages of graphql-core in the words of GraphQL and JSON."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import OperationDefinitionNode, parse

from docgraph.graphql.definition.schema import build_schema, parse_schema
from docgraph.graphql.errors import OperationRefused, count_more, phrase
from docgraph.graphql.plan.arguments import VariableReader

SCHEMA = """
type Query { a(i: Int, s: String, e: E, o: In, oid: ObjectId, l: [Int]): Int }
enum E { A }
input In { x: Int! }
"""


def reject(type_: str, value: Any) -> list[str]:
    """The messages about a variable of this type with this value."""
    (operation,) = parse(f"query ($v: {type_}) {{ a(i: $v) }}").definitions
    assert isinstance(operation, OperationDefinitionNode)
    schema = build_schema(parse_schema(SCHEMA))
    with pytest.raises(OperationRefused) as refused:
        VariableReader(schema, operation).read({"v": value})
    return [error.message for error in refused.value.errors]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("Int", "text", 'Int cannot represent non-integer value: "text"'),
        ("Int", True, "Int cannot represent non-integer value: true"),
        ("String", {"a": None}, 'String cannot represent a non string value: {"a": null}'),
        ("E", False, "Enum 'E' cannot represent non-string value: false."),
        ("E", "text", "Value 'text' does not exist in 'E' enum."),
        ("In", "it's", "Expected value of type 'In' to be an object, found: \"it's\"."),
        (
            "In",
            {"x": 1, "z": 'a"b'},
            "Expected value of type 'In' not to include unknown field 'z',"
            ' found: {"x": 1, "z": "a\\"b"}.',
        ),
        (
            "ObjectId",
            "text",
            "Expected value of type 'ObjectId': an ObjectId is 24 hexadecimal digits,"
            ' not "text"; found: "text".',
        ),
        ("Int!", None, "Expected value of non-null type 'Int!' not to be null."),
    ],
)
def test_values_of_variables_are_quoted_as_json(type_: str, value: Any, expected: str) -> None:
    assert reject(type_, value) == [f"Variable '$v' has invalid value: {expected}"]


def test_what_is_a_literal_already_stays_as_it_is() -> None:
    message = "Argument 'i' has invalid value: Int cannot represent non-integer value: \"'True'\""

    assert phrase(message) == message


def test_more_errors_of_variables_than_are_shown_are_one_more() -> None:
    messages = reject("[Int]", ["x"] * 30)

    assert len(messages) == 21
    assert messages[-1] == "more errors are not shown"


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, "1 more error is not shown"),
        (2, "2 more errors are not shown"),
        (None, "more errors are not shown"),
    ],
)
def test_errors_without_room_are_counted_in_good_english(count: int | None, expected: str) -> None:
    assert count_more(count).message == expected
