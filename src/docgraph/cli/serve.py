"""`docgraph serve`."""

from __future__ import annotations

import sys

import click

from docgraph.cli.options import configured, listening
from docgraph.cli.terminal import notice
from docgraph.config import Sources
from docgraph.config.locate import locating

__all__ = ["serve"]


@click.command()
@configured
@listening
def serve(sources: Sources) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Without a connection string (/mclient/connection-string) an embedded MongoDB is started. One
    line on stdout says when all workers listen: "docgraph ready <url>".
    """
    from docgraph.cli.parts import check_parts
    from docgraph.server.prepare import load_tree, prepare
    from docgraph.server.process.host import host

    tree = load_tree(sources)
    with locating(tree):
        check_parts(prepare(tree))  # before a database is started for nothing
        sys.exit(host(tree, say=notice))
