"""Queries that are made up can be read, are the same for a seed, and shrink to what matters."""

from __future__ import annotations

from random import Random

from graphql import parse, validate

from docgraph.graphql.apps.compiled_app import App, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql
from docgraph_workbench.fuzz.fuzz_values import Guesses
from docgraph_workbench.fuzz.random_queries import Query, QueryMaker, shrink_query
from workbench.tests.unit.fuzz.test_surface import MAPPINGS, SCHEMA


def build() -> App:
    document = {"_id": "blog", "schema": SCHEMA, "mappings": MAPPINGS}
    return build_app(decode_definition(document), Graphql())


def make(app: App, seed: int, *roles: str) -> QueryMaker:
    random = Random(seed)
    return QueryMaker(app, roles, random, Guesses(random, {"string": ["canary"]}), [])


def test_queries_are_repeatable_and_mostly_valid_for_the_caller() -> None:
    app = build()
    first, second = make(app, 1), make(app, 1)
    queries = [first.make() for _ in range(200)]
    assert queries == [second.make() for _ in range(200)]
    schema = app.visible_to(()).schema
    valid = [one for one in queries if not validate(schema, parse(one.text))]
    assert len(valid) > 100
    assert any("secret" in one.text for one in queries)  # hidden names are tried, too


def test_the_sweep_asks_for_everything_that_is_visible() -> None:
    app = build()
    queries = make(app, 1).sweep()
    assert all(not validate(app.visible_to(()).schema, parse(one.text)) for one in queries)
    assert "counts { __typename tag total }" in queries[-1].text
    assert any("posts(status: " in one.text for one in queries)


def test_a_query_shrinks_to_the_part_that_matters() -> None:
    query = Query(
        "query Q($v: ObjectId) { a: posts(status: OPEN) { ...F ... on Post { b: title } } "
        "c: counts { total } } fragment F on Post { id first author { name } }",
        {"v": 1},
    )
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in shrink_query(query):
            if "first" in smaller.text and "posts" in smaller.text:
                query, is_smaller = smaller, True
                break
    assert query == Query("{ posts { first } }")
