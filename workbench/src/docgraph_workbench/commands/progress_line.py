"""Progress of a command that reads many collections."""

from __future__ import annotations

import sys

import click

from docgraph.tools.commands import make_printable


class ProgressLine:
    """One line on stderr, if that is a terminal; the next one replaces it."""

    def __init__(self) -> None:
        self._is_shown = False

    def show_reading(self, number: int, total: int, name: str) -> None:
        """Print which of so many collections is being read."""
        if sys.stderr.isatty():
            self._is_shown = True
            line = f"reading {make_printable(name)} ({number + 1} of {total}) …"
            click.echo(f"\r\x1b[K{line}", nl=False, err=True)

    def end(self) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)
