"""`docgraph apps sdl`: the schema of a subgraph, for pipelines that compose graphs."""

from __future__ import annotations

import click

from docgraph.cli.apps.stored import Definitions, run_on
from docgraph.cli.completion import complete_apps
from docgraph.cli.options import configured
from docgraph.config import ConfigSources
from docgraph.exchange import DocgraphError, StartupError


@click.command()
@click.argument("app", shell_complete=complete_apps)
@click.option("--as", "roles", multiple=True, metavar="ROLE", help="As a caller with this role.")
@configured
def sdl(sources: ConfigSources, app: str, roles: tuple[str, ...]) -> None:
    """Print the SDL of a stored app with descriptor.federation, as gateways compose it.

    Without --as it has what a caller without roles sees.
    """

    async def print_sdl(bench: Definitions) -> str:
        from docgraph.graphql.apps.compiled_app import build_app
        from docgraph.graphql.definition.definition import decode_definition

        definition = decode_definition(await bench.require(app))
        policy = bench.app.store.policy
        try:
            compiled = build_app(definition, bench.settings, policy=policy, is_stored=True)
            return compiled.print_sdl(roles)
        except DocgraphError as error:
            raise StartupError(f"{app}: {error.message}", hint=error.hint) from error

    click.echo(run_on(sources, print_sdl))
