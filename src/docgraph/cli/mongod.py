"""`docgraph mongod`: the embedded MongoDB alone."""

from __future__ import annotations

import signal

import click

from docgraph.cli.options import configured
from docgraph.cli.terminal import notice
from docgraph.config import ConfigSources, load, peek


@click.command()
@configured
def mongod(sources: ConfigSources) -> None:
    """Run the embedded MongoDB alone, until SIGTERM or Ctrl-C.

    Prints its connection string. The data is in /core/data-directory.
    """
    from docgraph.embedded.mongo import EmbeddedMongo
    from docgraph.runtime.sections import Core

    directory = peek(load(sources), Core).data_directory
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with EmbeddedMongo(directory, on_progress=notice) as address:
        click.echo(address)
        signal.sigwait(signals)
