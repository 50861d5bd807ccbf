"""The engine answers as graphql-core's own executor does over naive resolvers, whatever the app."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from graphql import parse, validate
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from docgraph.codec import decode
from docgraph.exchange import Exchange, Request
from docgraph.graphql import errors
from docgraph.graphql.apps.app import VisibleApp, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.execute import joined
from docgraph.graphql.execute.execute import execute
from docgraph.graphql.plan.plan import build_plan
from docgraph.graphql.sections import Graphql
from docgraph.store import Store, open_store
from docgraph.store.sections import AggregationSecurity, MClient
from docgraph.variables import Resolvers
from tests.properties.engine_cases import make_case
from tests.properties.engine_queries import QueryMaker
from tests.properties.oracle import Expected, Oracle

SETTINGS = Graphql(default_limit=3, max_limit=6)
QUERIES = 5


class Engine:
    """The engine on a loop of its own, for tests that are not asynchronous."""

    def __init__(self, uri: str) -> None:
        self._runner = asyncio.Runner()
        self.store: Store = open_store(MClient(), AggregationSecurity(), connection_string=uri)
        self._resolvers = Resolvers(decode)
        self._runner.run(self._connect())

    async def _connect(self) -> None:
        await self.store.client.admin.command("ping")

    def answer(self, app: VisibleApp, document: Any, variables: dict[str, Any]) -> Expected:
        plan = build_plan(app, document, None, SETTINGS)
        result = self._runner.run(
            execute(
                plan,
                store=self.store,
                exchange=Exchange(Request("POST", b"/graphql/case"), "test"),
                variable_values=variables,
                variables_resolver=self._resolvers,
                settings=SETTINGS,
                limits=app.limits,
            )
        )
        problems = frozenset((error.path or (), error.code) for error in result.errors)
        return Expected(orjson.loads(orjson.dumps(result.data)), problems)

    def close(self) -> None:
        self._runner.run(self.store.close())
        self._runner.close()


@pytest.fixture
def engine(mongo_uri: str) -> Iterator[Engine]:
    engine = Engine(mongo_uri)
    yield engine
    engine.close()


# A smaller seed is no simpler case, so nothing is shrunk.
@given(seed=st.integers(0, 2**32 - 1))
@settings(
    max_examples=40,
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
        if seed % 3:
            patch.setattr(joined, "FIRST_TRY", 1)
        if seed % 3 == 2:
            patch.setattr(joined, "fetch_by_lookup", never)
        try:
            for name, documents in case.data.items():
                if documents:
                    client[database][name].insert_many(documents)
            app = build_app(decode_definition(case.definition), SETTINGS).visible_to(())
            oracle = Oracle(app, client, SETTINGS)
            for _ in range(QUERIES):
                check_query(engine, oracle, app, QueryMaker(app.schema, case.random))
        finally:
            client.drop_database(database)


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
