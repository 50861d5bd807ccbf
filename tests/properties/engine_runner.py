"""The engine on a loop of its own, for properties, whose tests are not asynchronous.

With the native extension, both lanes answer, and their bytes are compared.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson

from docgraph.codec import decode
from docgraph.exchange import Exchange, Permission, Request
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.execute.execute import Result, execute
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.result import encode_data
from docgraph.graphql.freshness.dependency import Dependency
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.graphql.plan.plan import Plan, build_plan
from docgraph.graphql.sections import Graphql
from docgraph.runtime.native import find_native
from docgraph.store import Store, open_store
from docgraph.store.sections import AggregationSecurity, MClient
from docgraph.variables import Resolvers
from tests.properties.oracle import Expected

_LIMIT = 1 << 30


def _describe(result: Result) -> tuple[list[dict[str, Any]], int]:
    """Errors and the number of documents; an error has another id in each execution."""
    return [replace(error, id="").as_dict() for error in result.errors], result.documents


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
        self,
        app: VisibleApp,
        document: Any,
        variables: dict[str, Any],
        *,
        reports: bool = False,
        recorder: DependencyRecorder | None = None,
        permission: Permission | None = None,
    ) -> Expected:
        """Data and problems of a valid document; `reports`: with the lists that were cut.

        The `recorder` records what they depend on.
        """
        plan = build_plan(app, document, None)
        exchange = Exchange(Request("POST", b"/graphql/case"), "test")
        exchange.permission = permission
        has_native = find_native() is not None and not reports
        own = None if has_native else recorder
        result = self._run(plan, exchange, variables, own, reports=reports, is_raw=False)
        if has_native:
            plan = build_plan(app, document, None)  # one that remembers nothing of the other run
            native = self._run(plan, exchange, variables, recorder, reports=reports, is_raw=True)
            assert encode_data(native.data, _LIMIT) == encode_data(result.data, _LIMIT)
            assert _describe(native) == _describe(result)
        problems = frozenset((error.path or (), error.code) for error in result.errors)
        cuts = frozenset((tuple(one["path"]), one["limit"]) for one in result.limits)
        return Expected(orjson.loads(orjson.dumps(result.data)), problems, cuts)

    def _run(
        self,
        plan: Plan,
        exchange: Exchange,
        variables: dict[str, Any],
        recorder: DependencyRecorder | None,
        *,
        reports: bool,
        is_raw: bool,
    ) -> Result:
        run = Run(
            plan,
            exchange,
            variables,
            store=self.store,
            resolvers=self._resolvers,
            bounds=self._settings,
            limits=plan.app.app.limits,
            report_limits=reports,
            dependencies=recorder,
            is_raw=is_raw,
        )
        return self._runner.run(execute(run))

    def find_dependencies(self, recorder: DependencyRecorder) -> tuple[Dependency, ...] | str:
        """What a recorded answer depends on, or why that is not known."""
        return self._runner.run(recorder.finish())

    def close(self) -> None:
        """End its connections and its loop."""
        self._runner.run(self.store.close())
        self._runner.close()
