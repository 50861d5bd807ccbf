"""`docgraph explain`, `docgraph top`: commands of one query, or of all that run, and their cost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from docgraph.cli.completion import complete_apps
from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import print_json, print_table
from docgraph.config import ConfigSources
from docgraph.exchange import Account, DocgraphError, Exchange, Request, StartupError
from docgraph.exchange.errors import NotFound

if TYPE_CHECKING:
    from docgraph.graphql.apps.compiled_app import App
    from docgraph.graphql.errors import GraphqlError
    from docgraph.graphql.execute.cost_estimate import CostEstimate
    from docgraph.graphql.http.response_shape import Ran
    from docgraph.server.app import Docgraph
    from docgraph.store.driver.explain_recorder import Sent
    from docgraph.store.query_plan import Execution

_T = TypeVar("_T")


@click.command()
@click.argument("app", shell_complete=complete_apps)
@click.argument("query")
@click.option("--role", "roles", multiple=True, help="Run as a caller with this role.")
@click.option("--variables", default="{}", help="The variables of the query, as JSON.")
@click.option("--db", "ask_database", is_flag=True, help="Let the database explain each command.")
@click.option("--json", "as_json", is_flag=True, help="With --db: machine-readable output.")
@configured
def explain(  # noqa: PLR0913 - the options
    sources: ConfigSources,
    *,
    app: str,
    query: str,
    roles: tuple[str, ...],
    variables: str,
    ask_database: bool,
    as_json: bool,
) -> None:
    """Run QUERY against the stored APP (its uri) and print its plan and commands.

    With --db, also print how the database executes each command: the index, keys and documents
    that were examined, documents returned, and whether that is good. They are run again for
    it.
    """
    from docgraph.cli.application import work_on
    from docgraph.graphql.http.body import GraphqlRequest

    if as_json and not ask_database:
        raise click.BadParameter("goes with --db", param_hint="--json")
    request = GraphqlRequest(query, _read_variables(variables))
    account = Account("explain", tuple(roles)) if roles else None
    exchange = Exchange(Request("POST", b"/"), "explain", account=account)

    async def run(bench: Docgraph) -> tuple[Ran, list[CommandVerdict]]:
        from docgraph.store.driver.explain_recorder import recording

        compiled = await _find_app(bench, app)
        graphql = bench.plugins.find("graphql")
        if not ask_database:
            return await graphql.run(
                compiled, request, exchange, is_explained=True, is_free=True
            ), []
        outlook = await graphql.estimate_cost(compiled, request, exchange, is_free=True)
        async with recording(bench.store) as commands:
            ran = await graphql.run(compiled, request, exchange, is_explained=True, is_free=True)
            sent = await commands.explain_sent(exchange.deadline)
        return ran, check_commands(sent, outlook)

    ran, verdicts = work_on(prepare_sources(sources), lambda bench: _placing_mistakes(run(bench)))
    if as_json:
        print_json(
            {
                "plan": ran.plan.explain(),
                "commands": [verdict.as_dict() for verdict in verdicts],
                "errors": [error.as_dict() for error in ran.result.errors],
                **ran.freshness,
            }
        )
    else:
        _print(ran, verdicts)


async def _placing_mistakes(running: Awaitable[_T]) -> _T:
    from docgraph.graphql.errors import OperationRefused

    try:
        return await running
    except OperationRefused as error:
        raise StartupError("\n  ".join(map(_describe_mistake, error.errors))) from error


def _describe_mistake(error: GraphqlError) -> str:
    places = [f"line {line}, column {column}: " for line, column in error.locations[:1]]
    return "".join((*places, error.message))


async def _find_app(bench: Docgraph, uri: str) -> App:
    compiled: App
    try:
        compiled = await bench.plugins.values["gql-app-definition-cache"].find(uri)
    except NotFound as error:
        raise StartupError(
            f"there is no app at {uri!r}", hint="`docgraph apps list` lists the stored ones"
        ) from error
    return compiled


def _read_variables(text: str) -> dict[str, Any]:
    from docgraph.codec import decode_json

    try:
        variables = decode_json(text)
    except (DocgraphError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--variables") from None
    if not isinstance(variables, dict):
        raise click.BadParameter("give a JSON object", param_hint="--variables")
    return variables


def _print(ran: Ran, verdicts: list[CommandVerdict]) -> None:
    from docgraph.graphql.freshness.recorder import render_freshness

    click.echo(ran.plan.explain())
    for command in ran.result.commands:
        click.echo(
            f"{command.milliseconds:8.2f} ms  {command.documents:6} documents  "
            f"{command.kind} {command.collection} for {command.field}"
        )
    for line in render_freshness(ran.freshness):
        click.echo(line)
    for verdict in verdicts:
        click.echo(f"\n{verdict.describe()}\n  {verdict.verdict}")
        if verdict.advice:
            click.echo(f"  {verdict.advice}")
    for error in ran.result.errors:
        click.echo(f"error: {error.message}")


_FEW: Final = 1_000  # documents that are scanned in a negligible time
_WASTE: Final = 10  # examined documents per returned one


@dataclass(frozen=True, slots=True)
class CommandVerdict:
    """A command, its cost, and a verdict; `advice` is the index that would help."""

    sent: Sent
    is_good: bool
    verdict: str
    advice: str = ""

    def describe(self) -> str:
        sent, took = self.sent, self.sent.execution
        index = ", ".join(took.plan.indexes) or "no index"
        return (
            f"{sent.field}: {sent.kind} {sent.namespace}: {index}, {took.keys} keys and "
            f"{took.documents} documents examined, {took.returned} returned, "
            f"{took.milliseconds} ms"
        )

    def as_dict(self) -> dict[str, Any]:
        sent = self.sent
        content = {
            "field": sent.field,
            "kind": sent.kind,
            "collection": sent.namespace,
            **sent.execution.as_dict(),
            "good": self.is_good,
            "verdict": self.verdict,
        }
        return content | ({"createIndex": self.advice} if self.advice else {})


def check_commands(sent: Sequence[Sent], outlook: CostEstimate) -> list[CommandVerdict]:
    """Return a verdict on each command, with the index that its field needs."""
    wanted = {
        fetch.field: fetch.as_dict(privileged=True).get("createIndex", "")
        for fetch in outlook.fetches
    }
    return [_check_plan(command, wanted.get(command.field, "")) for command in sent]


def _check_plan(sent: Sent, wanted: str) -> CommandVerdict:
    took = sent.execution
    if took.plan.is_scan and took.documents <= took.returned:
        return CommandVerdict(sent, True, "good: only returned documents are examined")
    if took.plan.is_scan:
        few = took.documents <= _FEW
        growing = ": that is little now, and grows with the collection" if few else ""
        what = f"goes through {took.documents} documents to return {took.returned}"
        return CommandVerdict(sent, few, f"{'fine' if few else 'slow'}: {what}{growing}", wanted)
    if not took.plan.is_known:
        return CommandVerdict(sent, True, "unknown: the database does not report how it finds them")
    if took.plan.is_empty:
        return CommandVerdict(sent, True, "good: nothing to examine: does the collection exist?")
    if took.documents > max(took.returned, 1) * _WASTE and took.documents > _FEW:
        if sent.kind == "aggregate" and not wanted:  # groups are fewer than their input
            made = f"{took.returned} results are made of {took.documents} documents"
            return CommandVerdict(sent, True, f"good: {made} that the index leads to")
        what = f"leads to {took.documents} documents, of which {took.returned} are returned"
        return CommandVerdict(sent, False, f"wasteful: the index {what}", wanted)
    if took.plan.sorts:
        few = took.documents <= _FEW
        text = f"{took.documents} documents are sorted in memory: no index gives the order"
        return CommandVerdict(sent, few, f"{'fine' if few else 'slow'}: {text}", wanted)
    return CommandVerdict(sent, True, f"good: {_describe_index_use(took)}")


def _describe_index_use(took: Execution) -> str:
    if not took.documents and took.returned:
        return "the index contains everything that is returned"
    return "the index leads to what is returned"


_LIMIT_MS = 10_000


@click.command()
@click.option(
    "--interval", type=click.FloatRange(0.1, 3600), default=1.0, help="Seconds between two updates."
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output, once.")
@configured
def top(sources: ConfigSources, interval: float, as_json: bool) -> None:
    """Show the commands that the database executes for GraphQL operations.

    Those of all instances that log in to it as the same user, the longest first: app, operation,
    field, collection, plan and milliseconds, never a value. On a terminal until Ctrl-C, else once.
    """
    from docgraph.cli.application import work_on

    is_live = sys.stdout.isatty() and not as_json

    async def refresh(app: Docgraph) -> None:
        while True:
            rows = await _read_rows(app)
            if is_live:
                click.clear()
            print_table(rows, as_json=as_json, if_empty="no operation is running")
            if not is_live:
                return
            await asyncio.sleep(interval)

    with suppress(KeyboardInterrupt):  # Ctrl-C ends it
        work_on(prepare_sources(sources), refresh)


async def _read_rows(app: Docgraph) -> list[dict[str, Any]]:
    from docgraph.exchange import Deadline
    from docgraph.store.driver.current_ops import list_running

    return [
        {
            "ms": round(operation.milliseconds, 1),
            "app": operation.app,
            "operation": operation.operation,
            "field": operation.field,
            "collection": operation.namespace,
            "plan": operation.plan,
            "request": operation.request,
        }
        for operation in await list_running(app.store, Deadline.after_ms(_LIMIT_MS))
    ]
