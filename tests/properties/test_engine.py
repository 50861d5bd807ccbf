"""The engine answers as graphql-core's own executor does over naive resolvers, whatever the app."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import parse, validate
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from docgraph.graphql import errors
from docgraph.graphql.apps.compiled_app import VisibleApp, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.execute import fetch_by_in, result
from docgraph.graphql.sections import Graphql
from tests.chance import examples
from tests.databases import drop
from tests.properties.engine_cases import make_case
from tests.properties.engine_queries import QueryMaker
from tests.properties.engine_runner import Engine
from tests.properties.oracle import Oracle

SETTINGS = Graphql(default_limit=3, max_limit=6)
QUERIES = 5


# A smaller seed is no simpler case, so nothing is shrunk.
@given(seed=st.integers(0, 2**32 - 1))
@settings(
    max_examples=examples(40),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
def test_engine_agrees_with_the_oracle(
    engine: Engine, mongo_client: MongoClient[dict[str, Any]], seed: int
) -> None:
    """Decisions 9 to 16 and 18, in every combination that the seeds come to."""
    check_seed(engine, mongo_client, seed)


def check_seed(engine: Engine, client: MongoClient[dict[str, Any]], seed: int) -> None:
    database = f"engine_{seed}"
    case = make_case(seed, database)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "MAX_ERRORS", 100_000)
        patch.setattr(result, "MAX_CUT_LISTS", 100_000)
        if seed % 3:
            patch.setattr(fetch_by_in, "FIRST_TRY", 1)
        if seed % 3 == 2:
            patch.setattr(fetch_by_in, "fetch_by_lookup", never)
        try:
            for name, documents in case.data.items():
                if documents:
                    client[database][name].insert_many(documents)
            app = build_app(decode_definition(case.definition), SETTINGS).visible_to(())
            oracle = Oracle(app, client, SETTINGS)
            for _ in range(QUERIES):
                check_query(engine, oracle, app, QueryMaker(app.schema, case.random))
        finally:
            drop(client, database)


async def never(*_: Any) -> None:
    """A way that is never possible, so that the next one has to be taken."""


def check_query(engine: Engine, oracle: Oracle, app: VisibleApp, maker: QueryMaker) -> None:
    text = maker.make()
    document = parse(text)
    assert validate(app.schema, document, max_errors=3) == [], text
    expected = oracle.answer(document, maker.variables)
    found = engine.answer(app, document, maker.variables)
    assert found.data == expected.data, text
    assert found.problems == expected.problems, text
    assert not found.cuts
    reported = engine.answer(app, document, maker.variables, reports=True)
    assert reported == expected, text
