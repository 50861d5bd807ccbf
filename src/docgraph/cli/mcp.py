"""`docgraph mcp`: the apps for an agent on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.config import Sources
from docgraph.exchange import Account, StartupError
from docgraph.exchange.errors import Forbidden

if TYPE_CHECKING:
    from docgraph.mcp.sections import Mcp
    from docgraph.server.app import Docgraph

__all__ = ["mcp"]


@click.command()
@click.option("--user", required=True, help="The user whose roles and rules the agent has.")
@configured
def mcp(sources: Sources, user: str) -> None:
    """Offer the apps to an agent on stdin and stdout, under the rules of a user.

    Clients start this command themselves; it needs no server, and the option mcp.enabled is for
    servers only.
    """
    from docgraph.cli.workbench import work_on
    from docgraph.mcp.sections import Mcp

    prepared = prepare_sources(sources)
    settings = prepared.config.get(Mcp)
    work_on(prepared, lambda bench: _serve(bench, settings, user))


async def _serve(bench: Docgraph, settings: Mcp, user: str) -> None:
    from docgraph import __version__
    from docgraph.access.authorize import Authorization
    from docgraph.mcp.service import build_desk, load_library
    from docgraph.plugins.kinds import Kind

    async def find_account() -> Account:
        account = await _find_user(bench, user)
        if account is None:
            raise Forbidden(f"there is no user {user!r}")
        return account

    (stdio,) = load_library("stdio")
    values = bench.plugins.values
    desk = build_desk(
        values["registry"],
        values["gql-app-definition-cache"],
        values["imagined-requests"],
        settings,
    )
    if await _find_user(bench, user) is None:
        raise StartupError(f"there is no user {user!r}", hint="'docgraph users list' shows them")
    authorization = Authorization(bench.plugins.of_kind(Kind.AUTHORIZER))
    await stdio.serve_stdio(desk, authorization, find_account, __version__)


async def _find_user(bench: Docgraph, user: str) -> Account | None:
    """The first realm that knows the name tells."""
    from docgraph.auth.authenticators.database import DatabaseRealm
    from docgraph.auth.authenticators.file import FileRealm

    for realm in bench.plugins.plugins:
        if isinstance(realm, DatabaseRealm | FileRealm):
            account = await realm.find(user)
            if account is not None:
                return account
    return None
