"""`descriptor.operations`: what is accepted, and what is told of what is not."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql

SCHEMA = "type Query { films(limit: Int): [Film] } type Film { title: String }"
GOOD = {"name": "titles", "description": "All titles", "query": "{ films { title } }"}


def define(operations: Any) -> dict[str, Any]:
    mapping = {"db": "d", "collection": "films", "limit": {"$arg": ["limit", 10]}}
    return {
        "_id": "films",
        "descriptor": {"operations": operations},
        "schema": SCHEMA,
        "mappings": {"Query": {"films": mapping}},
    }


def problems(operations: Any) -> list[str]:
    return [str(one) for one in check_definition(define(operations), settings=Graphql()).errors]


def test_an_operation_has_a_name_a_description_and_a_query() -> None:
    report = check_definition(define([GOOD]), settings=Graphql())

    assert (report.errors, report.warnings) == ((), ())
    (operation,) = decode_definition(define([GOOD])).operations
    assert (operation.name, operation.description) == ("titles", "All titles")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"query": "{ nope }"}, "query: Cannot query field 'nope' on type 'Query'."),
        ({"query": "{"}, "query: "),
        ({"query": "mutation { x }"}, "query: must be one query, and no other operation"),
        ({"query": "query A { films { title } } query B { films { title } }"}, "query: must be"),
        ({"query": 7}, "query: must be the text of a query"),
        ({"name": "top rated"}, "name: must be a name"),
        ({"name": "__x"}, "name: must be a name"),
        ({"name": "x" * 41}, "name: must be a name"),
        ({"name": None}, "name: must be a name"),
        ({"description": 1}, "description: must be a string"),
        ({"color": "red"}, "color: is not known"),
    ],
)
def test_what_cannot_work_is_told_with_its_place(change: dict[str, Any], problem: str) -> None:
    found = problems([GOOD, {**GOOD, "name": "other", **change}])

    assert any(one.startswith(f"descriptor.operations.1.{problem}") for one in found), found


def test_two_operations_of_one_name_are_refused() -> None:
    assert problems([GOOD, GOOD]) == [
        "descriptor.operations.1.name: the operation 'titles' is there twice"
    ]


@pytest.mark.parametrize("value", [{}, "x", 1, [1], ["x"], [None]])
def test_another_shape_is_refused(value: Any) -> None:
    (problem,) = problems(value)

    assert problem.startswith("descriptor.operations")


def test_a_query_above_the_limits_of_the_app_is_refused() -> None:
    aliases = " ".join(f"f{n}: films {{ title }}" for n in range(60))

    assert any("aliases" in one for one in problems([{**GOOD, "query": f"{{ {aliases} }}"}]))
