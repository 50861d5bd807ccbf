"""`docgraph serve`."""

from __future__ import annotations

import sys

import click

from docgraph.cli.options import configured
from docgraph.cli.terminal import notice
from docgraph.config import Sources, load

__all__ = ["serve"]


@click.command()
@configured
def serve(sources: Sources) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Without a connection string (/mclient/connection-string) an embedded MongoDB is started. One
    line on stdout says when all workers listen: "docgraph ready <url>".
    """
    from docgraph.server.host import host

    sys.exit(host(load(sources), say=notice))
