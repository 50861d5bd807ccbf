"""`docgraph version`."""

from __future__ import annotations

import platform

import click

from docgraph import __version__


@click.command()
def version() -> None:
    """Print the version of docgraph and of Python."""
    click.echo(f"docgraph {__version__} (Python {platform.python_version()})")
