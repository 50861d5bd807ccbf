"""`docgraph serve` and `docgraph mongod`: the server, and the embedded MongoDB alone."""

from __future__ import annotations

import signal
import sys

import click

from docgraph.cli.options import configured, listening, mongo_port
from docgraph.cli.terminal import notice
from docgraph.config import ConfigSources, load, peek
from docgraph.config.sources import locating


@click.command()
@configured
@listening
def serve(sources: ConfigSources) -> None:
    """Serve until SIGTERM or Ctrl-C.

    SIGHUP loads certificates and keys again, and opens log files again that were renamed. SIGUSR1
    opens log files only, SIGUSR2 is ignored.

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


@click.command()
@configured
@mongo_port
def mongod(sources: ConfigSources) -> None:
    """Run the embedded MongoDB alone, until SIGTERM or Ctrl-C.

    Prints its connection string. The data is in /core/data-directory.
    """
    from docgraph.embedded import EmbeddedMongo, MongodOptions
    from docgraph.runtime.sections import Core

    core = peek(load(sources), Core)
    options = MongodOptions(port=core.embedded_port)
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with EmbeddedMongo(core.data_directory, options=options, on_progress=notice) as address:
        click.echo(address)
        signal.sigwait(signals)
