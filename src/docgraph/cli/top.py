"""`docgraph top`: the GraphQL operations that are running in the database, live."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import print_table
from docgraph.config import ConfigSources

if TYPE_CHECKING:
    from docgraph.server.app import Docgraph

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
            "ms": round(one.milliseconds, 1),
            "app": one.app,
            "operation": one.operation,
            "field": one.field,
            "collection": one.namespace,
            "plan": one.plan,
            "request": one.request,
        }
        for one in await list_running(app.store, Deadline.after_ms(_LIMIT_MS))
    ]
