"""`docgraph serve`."""

from __future__ import annotations

import sys

import click

from docgraph.cli.options import configured, listening
from docgraph.cli.terminal import notice
from docgraph.config import ConfigSources
from docgraph.config.locate import locating


@click.command()
@configured
@listening
def serve(sources: ConfigSources) -> None:
    """Serve until SIGTERM or Ctrl-C.

    SIGHUP loads certificates and keys again, and opens log files again that were renamed.

    Without a connection string (/mclient/connection-string) an embedded MongoDB is started. One
    line on stdout reports that all workers are ready: "docgraph ready <url>". A problem with the
    database follows the url.
    """
    from docgraph.cli.parts import check_parts
    from docgraph.server.prepare import load_tree, prepare
    from docgraph.server.process.host import host

    tree = load_tree(sources)
    with locating(tree):
        check_parts(prepare(tree))  # before a database is started in vain
        sys.exit(host(tree, say=notice, load_again=lambda: load_tree(sources)))
