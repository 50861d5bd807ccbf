"""`docgraph mcp`: MCP server on stdin and stdout, for an agent on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.config import ConfigSources
from docgraph.exchange import Account, StartupError
from docgraph.exchange.errors import NotFound

if TYPE_CHECKING:
    from docgraph.mcp.sections import Mcp
    from docgraph.server.app import Docgraph


@click.command()
@click.option("--user", required=True, help="The user whose roles and rules the agent has.")
@configured
def mcp(sources: ConfigSources, user: str) -> None:
    """Offer the apps to an agent on stdin and stdout, under the rules of a user.

    Clients start this command themselves; it needs no server, and the option mcp.enabled is for
    servers only.
    """
    from docgraph.cli.application import work_on
    from docgraph.mcp.sections import Mcp

    prepared = prepare_sources(sources)
    settings = prepared.config.get(Mcp)
    work_on(prepared, lambda bench: _serve(bench, settings, user))


async def _serve(bench: Docgraph, settings: Mcp, user: str) -> None:
    from docgraph.mcp.service import build_access, build_methods
    from docgraph.mcp.stdio import LocalAgent, serve_stdio

    async def find_account() -> Account:
        account = await _find_user(bench, user)
        if account is None:
            raise NotFound(f"there is no user {user!r}")
        return account

    values = bench.plugins.values
    dry_runs = values["imagined-requests"]
    apps = values["gql-app-definition-cache"]
    access = build_access(values["registry"], apps, dry_runs, settings)
    if await _find_user(bench, user) is None:
        raise StartupError(f"there is no user {user!r}", hint="'docgraph users list' shows them")
    agent = LocalAgent(settings, dry_runs.authorization, find_account)
    await serve_stdio(build_methods(access, settings), agent, settings.max_body_size)


async def _find_user(bench: Docgraph, user: str) -> Account | None:
    """Return the account from the first realm that knows the name."""
    from docgraph.auth.authenticators.db_users import DatabaseRealm
    from docgraph.auth.authenticators.file_users import FileRealm

    for realm in bench.plugins.plugins:
        if isinstance(realm, DatabaseRealm | FileRealm):
            account = await realm.find(user)
            if account is not None:
                return account
    return None
