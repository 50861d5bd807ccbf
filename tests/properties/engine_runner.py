"""The engine on a loop of its own, for properties, whose tests are not asynchronous."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from docgraph.codec import decode
from docgraph.exchange import Exchange, Request
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.execute.execute import execute
from docgraph.graphql.plan.plan import build_plan
from docgraph.graphql.sections import Graphql
from docgraph.store import Store, open_store
from docgraph.store.sections import AggregationSecurity, MClient
from docgraph.variables import Resolvers
from tests.properties.oracle import Expected


class Engine:
    """Answers queries under the settings given."""

    def __init__(self, uri: str, settings: Graphql) -> None:
        self._settings = settings
        self._runner = asyncio.Runner()
        self.store: Store = open_store(MClient(), AggregationSecurity(), connection_string=uri)
        self._resolvers = Resolvers(decode)
        self._runner.run(self._connect())

    async def _connect(self) -> None:
        await self.store.client.admin.command("ping")

    def answer(
        self, app: VisibleApp, document: Any, variables: dict[str, Any], *, reports: bool = False
    ) -> Expected:
        """Data and problems of a valid document; `reports`: with the lists that were cut."""
        plan = build_plan(app, document, None)
        result = self._runner.run(
            execute(
                plan,
                store=self.store,
                exchange=Exchange(Request("POST", b"/graphql/case"), "test"),
                variable_values=variables,
                variables_resolver=self._resolvers,
                settings=self._settings,
                limits=app.limits,
                report_limits=reports,
            )
        )
        problems = frozenset((error.path or (), error.code) for error in result.errors)
        cuts = frozenset((tuple(one["path"]), one["limit"]) for one in result.limits)
        return Expected(orjson.loads(orjson.dumps(result.data)), problems, cuts)

    def close(self) -> None:
        """End its connections and its loop."""
        self._runner.run(self.store.close())
        self._runner.close()
