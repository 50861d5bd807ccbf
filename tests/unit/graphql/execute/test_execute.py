"""Executing what needs no database: constants, introspection, variables, conditions."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from graphql import build_client_schema, get_introspection_query, parse

from docgraph.codec import decode
from docgraph.exchange import Exchange, Request
from docgraph.graphql.errors import Classification, OperationRefused
from docgraph.graphql.execute.execute import Result, execute
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.plan.plan import build_plan
from docgraph.graphql.sections import Graphql
from docgraph.runtime.allocations import embed_json
from docgraph.variables import Resolvers
from tests.unit.graphql.planning_harness import make_app

pytestmark = pytest.mark.anyio


async def run(query: str, variables: dict[str, Any] | None = None, schema: str = "") -> Result:
    """Execute a query that asks nothing of the store."""
    app = make_app(schema, {"Query": {}}) if schema else make_app()
    nowhere: Any = None
    run = Run(
        build_plan(app, parse(query), None),
        Exchange(Request("POST", b"/graphql/blog"), "1"),
        variables or {},
        store=nowhere,
        resolvers=Resolvers(decode),
        bounds=Graphql(),
        limits=app.app.limits,
    )
    return await execute(run)


async def test_type_name_of_the_root_needs_no_command() -> None:
    result = await run("{ __typename again: __typename }")

    assert result.data == {"__typename": "Query", "again": "Query"}
    assert result.commands == ()


async def test_field_of_query_without_mapping_is_null() -> None:
    assert (await run("{ unmapped }")).data == {"unmapped": None}


async def test_introspection_shows_the_whole_schema() -> None:
    result = await run(get_introspection_query())

    shown = orjson.loads(orjson.dumps(result.data, embed_json))
    types = build_client_schema(shown).type_map
    assert {"Query", "Post", "User", "Thing", "ObjectId"} <= types.keys()


async def test_introspection_takes_variables_fragments_and_other_fields_beside_it() -> None:
    query = """
      query ($name: String!) {
        t: __type(name: $name) { ...N }
        none: __type(name: "No") { name }
        unmapped
      }
      fragment N on __Type { name kind }
    """

    result = await run(query, {"name": "User"})

    assert orjson.loads(orjson.dumps(result.data, embed_json)) == {
        "t": {"name": "User", "kind": "OBJECT"},
        "none": None,
        "unmapped": None,
    }


@pytest.mark.parametrize(
    ("declared", "variables", "expected"),
    [
        ("$a: Boolean!", {"a": True}, {"unmapped": None}),
        ("$a: Boolean!", {"a": False}, {}),
        ("$a: Boolean = true", {}, {"unmapped": None}),
    ],
)
async def test_conditions_follow_the_variables(
    declared: str, variables: dict[str, Any], expected: Any
) -> None:
    result = await run(f"query ({declared}) {{ unmapped @include(if: $a) }}", variables)

    assert result.data == expected


async def test_condition_that_is_null_is_refused() -> None:
    with pytest.raises(OperationRefused) as refused:
        await run("query ($a: Boolean = true) { unmapped @include(if: $a) }", {"a": None})

    assert refused.value.errors[0].code == "null-condition"


@pytest.mark.parametrize(
    ("declared", "variables"),
    [("$a: Boolean!", {}), ("$a: Boolean!", {"a": None}), ("$a: Boolean!", {"a": "yes"})],
)
async def test_variables_that_do_not_fit_refuse_the_operation(
    declared: str, variables: dict[str, Any]
) -> None:
    with pytest.raises(OperationRefused) as refused:
        await run(f"query ({declared}) {{ unmapped @skip(if: $a) }}", variables)

    (error,) = refused.value.errors
    assert (error.classification, error.code) == (Classification.VALIDATION, "bad-variable")
    assert error.locations == ((1, 8),)


async def test_null_of_a_non_null_root_field_leaves_no_data() -> None:
    result = await run("{ must }", schema="type Query { must: String! }")

    assert result.data is None
    assert result.errors[0].as_dict() == {
        "message": "Query.must is declared as non-null and has no value",
        "locations": [{"line": 1, "column": 3}],
        "path": ["must"],
        "extensions": {
            "classification": "NullValueInNonNullableField",
            "code": "null-in-non-null",
        },
    }
