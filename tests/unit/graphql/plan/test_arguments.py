"""Arguments with variables inside of literals: as graphql-core coerces them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from graphql import get_argument_values, parse

from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.schema_description import describe_variables, render_schema
from tests.unit.graphql.planning_harness import make_app, make_plan

SCHEMA = """
type Query { posts(first: Int, in: Input, defaulted: Defaulted): [Post] }
type Post { title: String  kind: Kind  secret: String  tags: [String] }
enum Kind { NEWS BLOG }
input Input { text: String  number: Float  kinds: [Kind!]  matrix: [[Int]]  inner: Input }
input Defaulted { text: String! = "x"  number: Int! }
"""
MAPPINGS: dict[str, Any] = {
    "Query": {
        "posts": {
            "db": "d",
            "collection": "c",
            "filter": {"fields": {"title": ["eq", "in"], "kind": ["in"], "tags": ["has"]}},
            "orderBy": {"fields": ["title"]},
        }
    },
    "Kind": {"NEWS": 1, "BLOG": 2},
}
VARIABLES = (
    *("$s: String", "$n: Float", "$k: Kind!", "$ks: [Kind!]", "$in: Input", "$i: Int"),
    *("$row: [Int]", '$d: String = "default"', "$l: [String!]", "$must: Int!"),
)


def plan_of(arguments: str) -> Plan:
    """The plan of a query with these arguments, which declares the variables in them."""
    names = set(re.findall(r"\$\w+", arguments))
    used = [one for one in VARIABLES if one.partition(":")[0] in names]
    return make_plan(
        f"query ({', '.join(used)}) {{ posts({arguments}) {{ title }} }}",
        make_app(SCHEMA, MAPPINGS),
    )


GIVEN: dict[str, Any] = {
    "s": "text",
    "n": 1.5,
    "k": "BLOG",
    "ks": ["NEWS", "BLOG"],
    "in": {"text": "t", "kinds": "NEWS"},
    "i": 7,
    "row": [1, None],
    "l": ["a"],
    "must": 3,
}


@pytest.mark.parametrize(
    "arguments",
    [
        "in: {text: $s}",
        "in: {text: $s, number: 1, kinds: [NEWS, $k]}",
        "in: {kinds: $ks, inner: {text: $d, inner: {number: $n}}}",
        "in: {kinds: NEWS, inner: $in}",
        "in: {kinds: [$k], text: null}",
        "in: {matrix: [[1, $i], $row, null]}",
        "in: {matrix: [[$i]]}, first: $i",
        "in: {matrix: [$row, 5]}",
        "defaulted: {number: $must}",
        "where: {title: {eq: $s, in: $l}, or: [{kind: {in: [$k]}}, {tags: {has: $d}}]}",
        "where: {title: {eq: $s}}, orderBy: [{title: DESC}], first: $i",
    ],
)
@pytest.mark.parametrize("absent", ["", "s", "n", "i", "row", "ks", "in", "l"])
@pytest.mark.parametrize("is_null", [False, True])
def test_values_are_those_of_graphql_core(arguments: str, absent: str, is_null: bool) -> None:
    plan = plan_of(arguments)
    given = {name: value for name, value in GIVEN.items() if name != absent}
    if is_null and absent:
        given[absent] = None
    names = {one.variable.name.value for one in plan.operation.variable_definitions or ()}
    variables = plan.variables.read({name: given[name] for name in given if name in names})
    (fetch,) = plan.tree(variables.coerced).fetches
    expected = get_argument_values(fetch.arguments.definition, fetch.arguments.node, variables)
    assert fetch.arguments.coerce(variables) == expected


def test_literals_with_variables_are_built_here() -> None:
    plan = plan_of("where: {title: {eq: $s}}")
    (fetch,) = plan.tree({}).fetches
    assert fetch.arguments.is_simple
    (fetch,) = plan_of("defaulted: {number: $must}").tree({}).fetches
    assert not fetch.arguments.is_simple


def test_the_plan_shows_conditions_and_order() -> None:
    text = make_plan(
        "query ($t: String) { posts(where: {title: {eq: $t}, kind: {in: [NEWS]}},"
        " orderBy: [{title: ASC}]) { title } }",
        make_app(SCHEMA, MAPPINGS),
    ).explain()
    assert "where { title: { eq: $t }, kind: { in: [NEWS] } }" in text
    assert "orderBy [{ title: ASC }]" in text


def test_agents_get_the_json_schema_of_conditions() -> None:
    app = make_app(SCHEMA, MAPPINGS)
    text = "query ($w: PostWhere!, $o: [PostOrder!]) { posts(where: $w, orderBy: $o) { title } }"
    schema = describe_variables(make_plan(text, app))
    types = schema["$defs"]
    assert schema["properties"]["w"] == {"$ref": "#/$defs/PostWhere"}
    assert set(types["PostWhere"]["properties"]) == {"title", "kind", "tags", "and", "or", "not"}
    assert set(types["PostWhereTitle"]["properties"]) == {"eq", "in"}
    assert types["PostOrder"]["properties"]["title"]["anyOf"][0]["enum"] == ["ASC", "DESC"]


def test_agents_may_leave_out_what_has_a_default() -> None:
    text = "query ($d: Defaulted) { posts(defaulted: $d) { title } }"
    schema = describe_variables(make_plan(text, make_app(SCHEMA, MAPPINGS)))
    assert schema["$defs"]["Defaulted"]["required"] == ["number"]


def test_the_sdl_of_an_app_is_valid_again() -> None:
    text = render_schema(make_app(SCHEMA, MAPPINGS).schema, 100_000)
    assert "input PostWhere" in text
    parse(text)
