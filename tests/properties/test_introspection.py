"""Introspection is answered as graphql-core's own executor answers it, byte for byte."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import orjson
import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLScalarType,
    execute_sync,
    get_introspection_query,
    get_named_type,
    introspection_types,
    parse,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from docgraph.graphql.apps.compiled_app import App, VisibleApp, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute import introspect
from docgraph.graphql.plan.plan import build_plan
from docgraph.graphql.plan.plan_tree import Introspection
from docgraph.graphql.sections import Graphql
from tests.chance import examples

ROLES = ("a", "b")
SCHEMA = '''
schema @mark(by: "me") { query: Query }
"A directive of the author"
directive @mark(by: String = "no\\"body", many: [Int!] = [1, 2] @deprecated)
  repeatable on SCHEMA | OBJECT | FIELD
"""The entrance"""
type Query {
  node(id: ID!, kind: Kind = SMALL, near: Near = {x: 1.5, tags: ["a", null]}): Node
  things(first: Int = 3, old: Int @deprecated(reason: "no more")): [Thing!]!
  matrix(of: [[Int]!] = [[1], [2]]): [[Float!]!]
  secret: Secret @visible(roles: ["a"])
  both: Int @visible(roles: ["a", "b"])
}
interface Node { _id: ObjectId! }
interface Named implements Node { _id: ObjectId! name: String @deprecated }
"With „marks“, a \\\\ and a 😀"
type Person implements Node & Named {
  _id: ObjectId! name: String @deprecated  friends(n: Int = -1): [Person!] born: DateTime
}
type Box implements Node {
  _id: ObjectId! raw: BsonDocument size: Kind hidden: Long @visible(roles: ["b"])
}
type Secret { text: String! deeper: Hidden }
type Hidden { n: Decimal128 }
union Thing = Person | Box
enum Kind { "tiny" SMALL LARGE @deprecated(reason: "too large") }
input Near { x: Float = 0 @deprecated y: Float tags: [String] = [] deep: Near kind: Kind! = LARGE }
input One @oneOf { a: Int b: String }
'''
MAPPINGS: dict[str, Any] = {
    "Query": {"things": {"db": "d", "collection": "c", "find": {}}},
    "Thing": {"$typeResolver": {"Person": "field-exists(born)", "Box": "field-exists(size)"}},
    "Node": {"$typeResolver": {"Person": "field-exists(born)", "Box": "field-exists(size)"}},
    "Named": {"$typeResolver": {"Person": "field-exists(born)"}},
}
# Every pair of options with every pair of values; each option only adds fields to the query.
OPTIONS = [
    {"specified_by_url": a, "directive_is_repeatable": b, "schema_description": c}
    | {"input_value_deprecation": a ^ b, "one_of": a ^ c, "descriptions": b ^ c}
    for a, b, c in product((False, True), repeat=3)
]


def make_app(**descriptor: Any) -> App:
    definition = {"_id": "a", "descriptor": descriptor, "schema": SCHEMA, "mappings": MAPPINGS}
    return build_app(decode_definition(definition), Graphql())


APP = make_app(uri="a", live=["b"])
VIEWS = [APP.visible_to(roles) for roles in ((), ("a",), ("b",), ROLES)]


def check_agreement(view: VisibleApp, text: str, variables: dict[str, Any]) -> None:
    document = parse(text)
    plan = build_plan(view, document, None)
    expected = execute_sync(view.schema, document, variable_values=variables)
    assert expected.errors is None
    fields = plan.tree(plan.variables.read(variables).coerced).block.columns
    answers = {}
    for field in fields:
        assert isinstance(field, Introspection)
        answer = introspect._compute(plan, field, variables)
        assert isinstance(answer, bytes)
        answers[field.key] = orjson.Fragment(answer)
    assert orjson.dumps(answers) == orjson.dumps(expected.data)


@pytest.mark.parametrize("view", VIEWS, ids=["nobody", "a", "b", "all"])
def test_the_standard_query_is_answered_as_by_graphql_core(view: VisibleApp) -> None:
    for options in OPTIONS:
        check_agreement(view, get_introspection_query(**options), {})


class QueryMaker:
    """Makes random introspection queries: aliases, fragments, conditions, arguments, merging."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._count = 0
        self._fragments: list[str] = []

    def make(self, view: VisibleApp) -> str:
        name = self._random.choice([*view.schema.type_map, "Nothing"])
        type_ = introspection_types["__Type"]
        schema = introspection_types["__Schema"]
        assert isinstance(type_, GraphQLObjectType)
        assert isinstance(schema, GraphQLObjectType)
        parts = [
            f"__schema {self._select(schema, 2)}",
            f"__schema {self._select(schema, 1)}",
            f'one: __type(name: "{name}") {self._select(type_, 2)}',
            f"two: __type(name: $name) {self._select(type_, 1)}",
            "x: __schema @include(if: $yes) @skip(if: $no) { __typename }",
            "y: __schema @skip(if: $yes) { __typename }",
        ]
        head = "query ($name: String!, $yes: Boolean = true, $no: Boolean!, $all: Boolean!)"
        return "\n".join([f"{head} {{ {' '.join(parts)} }}", *self._fragments])

    def _select(self, type_: GraphQLObjectType, lists: int) -> str:
        """Select fields of a type, below which at most so many lists are nested."""
        names = [
            name
            for name, one in type_.fields.items()
            if lists or isinstance(get_named_type(one.type), GraphQLScalarType | GraphQLEnumType)
        ]
        chosen = self._random.choices(names, k=self._random.randint(1, 5))
        parts = [self._field(type_, name, lists) for name in chosen]
        parts += self._random.choice(([], ["__typename"], ["t: __typename @skip(if: $no)"]))
        return f"{{ {self._wrap(type_, ' '.join(parts))} }}"

    def _wrap(self, type_: GraphQLObjectType, inner: str) -> str:
        self._count += 1
        match self._random.randint(0, 6):
            case 0:
                return f"... {{ {inner} }}"
            case 1:
                return f"... on {type_.name} @include(if: $yes) {{ {inner} }} name: __typename"
            case 2:
                self._fragments.append(f"fragment F{self._count} on {type_.name} {{ {inner} }}")
                return f"...F{self._count} ...F{self._count}"
        return inner

    def _field(self, type_: GraphQLObjectType, name: str, lists: int) -> str:
        definition = type_.fields[name]
        self._count += 1
        is_plain = not definition.args and name != "name" and self._random.random() < 0.5
        alias = "" if is_plain else f"a{self._count}: "
        arguments = ""
        if definition.args:
            given = ["", "(includeDeprecated: true)", "(includeDeprecated: $all)"]
            arguments = self._random.choice(given)
        named = get_named_type(definition.type)
        below = ""
        if isinstance(named, GraphQLObjectType):
            inner = definition.type
            while isinstance(inner, GraphQLNonNull):
                inner = inner.of_type
            is_long = isinstance(inner, GraphQLList)
            below = self._select(named, lists - 1 if is_long or lists == 1 else lists)
        condition = self._random.choice(["", "", "", "@include(if: $yes)", "@skip(if: $all)"])
        return f"{alias}{name}{arguments} {condition} {below}"


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(200), deadline=None)
def test_any_introspection_is_answered_as_by_graphql_core(seed: int) -> None:
    random = Random(seed)
    view = random.choice(VIEWS)
    text = QueryMaker(random).make(view)
    variables = {"name": random.choice([*APP.schema.type_map]), "no": False}
    check_agreement(view, text, variables | {"all": random.random() < 0.5})


def test_nothing_in_this_process_has_changed_the_oracle() -> None:
    """Libraries that are imported by another test can replace resolvers of graphql-core."""
    fields = [field for type_ in introspection_types.values() for field in find_fields(type_)]

    assert {field.resolve.__module__ for field in fields if field.resolve} == {
        "graphql.type.introspection"
    }


def find_fields(type_: object) -> list[GraphQLField]:
    return [*type_.fields.values()] if isinstance(type_, GraphQLObjectType) else []


def test_an_argument_that_is_null_fails_the_field() -> None:
    field = "directives(includeDeprecated: $all) { name }"
    text = f"query ($all: Boolean = true) {{ __schema {{ {field} }} }}"
    plan = build_plan(VIEWS[0], parse(text), None)
    (column,) = plan.tree({}).block.columns
    assert isinstance(column, Introspection)

    failed = introspect._compute(plan, column, {"all": None})

    assert isinstance(failed, FieldFailure)
    assert failed.code == "introspection-failed"


def test_a_condition_that_is_null_fails_the_field() -> None:
    text = "query ($if: Boolean = true) { __schema { description @skip(if: $if) } }"
    plan = build_plan(VIEWS[0], parse(text), None)
    (column,) = plan.tree({"if": True}).block.columns
    assert isinstance(column, Introspection)

    failed = introspect._compute(plan, column, {"if": None})

    assert isinstance(failed, FieldFailure)
    assert failed.code == "null-condition"
