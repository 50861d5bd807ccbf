"""`docgraph explain`: the plan of a query, its measured cost, and the database's explain."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from docgraph.cli.completion import complete_apps
from docgraph.cli.options import configured, prepare_sources
from docgraph.config import ConfigSources
from docgraph.exchange import Account, DocgraphError, Exchange, Request, StartupError
from docgraph.exchange.errors import NotFound

if TYPE_CHECKING:
    from docgraph.cli.verdicts import CommandVerdict
    from docgraph.graphql.apps.compiled_app import App
    from docgraph.graphql.errors import GraphqlError
    from docgraph.graphql.http.response_shape import Ran
    from docgraph.server.app import Docgraph

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
        from docgraph.cli.verdicts import check_commands
        from docgraph.store.driver.explain_recorder import recording

        found = await _find_app(bench, app)
        graphql = bench.plugins.find("graphql")
        if not ask_database:
            return await graphql.run(found, request, exchange, is_explained=True, is_free=True), []
        outlook = await graphql.estimate_cost(found, request, exchange, is_free=True)
        async with recording(bench.store) as commands:
            ran = await graphql.run(found, request, exchange, is_explained=True, is_free=True)
            sent = await commands.explain_sent(exchange.deadline)
        return ran, check_commands(sent, outlook)

    ran, verdicts = work_on(prepare_sources(sources), lambda bench: _placing_mistakes(run(bench)))
    if as_json:
        _print_json(ran, verdicts)
    else:
        _print(ran, verdicts)


async def _placing_mistakes(running: Awaitable[_T]) -> _T:
    """Report every mistake of the query with its position."""
    from docgraph.graphql.errors import OperationRefused

    try:
        return await running
    except OperationRefused as error:
        raise StartupError("\n  ".join(map(_describe_mistake, error.errors))) from error


def _describe_mistake(error: GraphqlError) -> str:
    places = [f"line {line}, column {column}: " for line, column in error.locations[:1]]
    return "".join((*places, error.message))


async def _find_app(bench: Docgraph, uri: str) -> App:
    found: App
    try:
        found = await bench.plugins.values["gql-app-definition-cache"].find(uri)
    except NotFound as error:
        raise StartupError(
            f"there is no app at {uri!r}", hint="`docgraph apps list` lists the stored ones"
        ) from error
    return found


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
    from docgraph.graphql.freshness.explain_freshness import render_freshness

    click.echo(ran.plan.explain())
    for command in ran.result.commands:
        click.echo(
            f"{command.milliseconds:8.2f} ms  {command.documents:6} documents  "
            f"{command.kind} {command.collection} for {command.field}"
        )
    for line in render_freshness(ran.freshness):
        click.echo(line)
    for one in verdicts:
        click.echo(f"\n{one.describe()}\n  {one.verdict}")
        if one.advice:
            click.echo(f"  {one.advice}")
    for error in ran.result.errors:
        click.echo(f"error: {error.message}")


def _print_json(ran: Ran, verdicts: list[CommandVerdict]) -> None:
    import orjson

    content = {
        "plan": ran.plan.explain(),
        "commands": [one.as_dict() for one in verdicts],
        "errors": [error.as_dict() for error in ran.result.errors],
        **ran.freshness,
    }
    click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())
