"""The engine over a real database: definition, query, expected data, and the commands sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from graphql import parse, validate
from pymongo.monitoring import CommandListener, CommandStartedEvent

from docgraph.codec import decode
from docgraph.exchange import Account, Deadline, Exchange, Permission, Request
from docgraph.graphql.apps.compiled_app import VisibleApp, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.errors import GraphqlError
from docgraph.graphql.execute.execute import Result, execute
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.graphql.plan.plan import Plan, build_plan
from docgraph.graphql.sections import Graphql
from docgraph.store import Store
from docgraph.variables import Resolvers


class Recorder(CommandListener):
    """Remembers the reading commands of a client."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name in ("find", "aggregate", "getMore"):
            self.commands.append(dict(event.command))

    def succeeded(self, event: Any) -> None:
        """Of no interest."""

    def failed(self, event: Any) -> None:
        """Of no interest."""


@dataclass
class Engine:
    """Runs queries against one database."""

    store: Store
    recorder: Recorder
    database: str
    settings: Graphql = field(default_factory=lambda: Graphql(count_time_limit=60_000))

    def app(self, schema: str, mappings: Mapping[str, Any], **limits: int) -> VisibleApp:
        """An app whose mappings are all in the engine's database."""
        placed = {name: self._place(type_) for name, type_ in mappings.items()}
        definition = {"_id": "test", "schema": schema, "mappings": placed}
        if limits:
            names = {name.replace("_", "-"): value for name, value in limits.items()}
            definition["descriptor"] = {"limits": names}
        return build_app(decode_definition(definition), self.settings).visible_to(())

    def _place(self, type_: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: {"db": self.database, **mapping}
            if isinstance(mapping, dict) and "collection" in mapping
            else mapping
            for name, mapping in type_.items()
        }

    def plan(self, app: VisibleApp, query: str, operation: str | None = None) -> Plan:
        """The plan of a valid query."""
        document = parse(query)
        assert validate(app.schema, document) == []
        return build_plan(app, document, operation)

    async def run(
        self,
        app: VisibleApp,
        query: str,
        variables: Mapping[str, Any] | None = None,
        *,
        operation: str | None = None,
        account: Account | None = None,
        permission: Permission | None = None,
        deadline: Deadline | None = None,
    ) -> Result:
        """The result of a query; the commands it sent are in `commands` then."""
        exchange = Exchange(Request("POST", b"/graphql/test"), "request-1")
        exchange.account, exchange.permission = account, permission
        exchange.deadline = deadline or Deadline.never()
        return await self.execute(self.plan(app, query, operation), variables, exchange)

    async def execute(
        self,
        plan: Plan,
        variables: Mapping[str, Any] | None = None,
        exchange: Exchange | None = None,
        dependencies: DependencyRecorder | None = None,
    ) -> Result:
        """The result of a plan that is there already."""
        self.recorder.commands.clear()
        run = Run(
            plan,
            exchange or Exchange(Request("POST", b"/graphql/test"), "request-1"),
            variables or {},
            store=self.store,
            resolvers=Resolvers(decode),
            bounds=self.settings,
            limits=plan.app.app.limits,
            dependencies=dependencies,
        )
        return await execute(run)

    async def data(self, app: VisibleApp, query: str, variables: Any = None) -> Any:
        """The data of a query that has no errors, as JSON values."""
        result = await self.run(app, query, variables)
        assert result.errors == ()
        return orjson.loads(orjson.dumps(result.data))

    @property
    def commands(self) -> list[dict[str, Any]]:
        """What the last query sent."""
        return self.recorder.commands


def codes(result: Result) -> dict[tuple[str | int, ...], str]:
    """The code of the error at each path."""
    return {error.path or (): error.code for error in result.errors}


def only_error(result: Result) -> GraphqlError:
    """The one error of a result."""
    (error,) = result.errors
    return error
