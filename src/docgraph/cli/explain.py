"""`docgraph explain`: the plan of a query, and what running it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.config import Sources
from docgraph.exchange import Account, DocgraphError, Exchange, Request

if TYPE_CHECKING:
    from docgraph.graphql.http.service import Ran
    from docgraph.server.app import Docgraph

__all__ = ["explain"]


@click.command()
@click.argument("app")
@click.argument("query")
@click.option("--role", "roles", multiple=True, help="Ask as somebody with this role.")
@click.option("--variables", default="{}", help="The variables of the query, as JSON.")
@configured
def explain(sources: Sources, app: str, query: str, roles: tuple[str, ...], variables: str) -> None:
    """Run QUERY against the stored APP (its uri) and print its plan and commands."""
    from docgraph.cli.workbench import work_on
    from docgraph.graphql.http.body import GraphqlRequest

    request = GraphqlRequest(query, _read_variables(variables))
    account = Account("explain", tuple(roles)) if roles else None
    exchange = Exchange(Request("POST", b"/"), "explain", account=account)

    async def run(bench: Docgraph) -> Ran:
        apps = bench.plugins.values["gql-app-definition-cache"]
        ran: Ran = await bench.plugins.find("graphql").run_freely(
            await apps.find(app), request, exchange
        )
        return ran

    _print(work_on(prepare_sources(sources), run))


def _read_variables(text: str) -> dict[str, Any]:
    from docgraph.codec import decode_json

    try:
        variables = decode_json(text)
    except (DocgraphError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--variables") from None
    if not isinstance(variables, dict):
        raise click.BadParameter("give a JSON object", param_hint="--variables")
    return variables


def _print(ran: Ran) -> None:
    click.echo(ran.plan.explain())
    for command in ran.result.commands:
        click.echo(
            f"{command.milliseconds:8.2f} ms  {command.documents:6} documents  "
            f"{command.kind} {command.collection} for {command.field}"
        )
    for error in ran.result.errors:
        click.echo(f"error: {error.message}")
