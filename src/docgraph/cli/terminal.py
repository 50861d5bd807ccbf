"""What people see: errors, hints and progress, on stderr, in colour only on a terminal."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from docgraph.exchange import StartupError

__all__ = [
    "escape_unprintable",
    "notice",
    "own_command",
    "print_table",
    "progress",
    "report_failure",
]

_PATIENCE = 1.0  # seconds before a wait is explained
_PIPE_WIDTH = 10_000  # a pipe has no edge: nothing is folded or cut


def notice(text: str = "") -> None:
    """A line for the person at the terminal."""
    click.echo(text, err=True)


def print_table(
    rows: Sequence[Mapping[str, Any]], *, as_json: bool, if_empty: str | None = None
) -> None:
    """Rows of equal keys on stdout: a table for people, or JSON for machines."""
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(list(rows))).decode())
        return
    if not rows and if_empty is not None:
        notice(if_empty)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, name in enumerate(rows[0] if rows else ()):
        table.add_column(name, no_wrap=place == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))  # no markup
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = "" if value is None else str(value)
    return escape_unprintable(text, lambda char: "\N{REPLACEMENT CHARACTER}")


def escape_unprintable(text: str, escape: Callable[[str], str]) -> str:
    """What people stored does not steer the terminal."""
    return "".join(char if char.isprintable() else escape(char) for char in text)


def own_command() -> str:
    """What to type for the command that is running: where it is, unless the shell would find it."""
    here = Path(sys.argv[0])
    found = shutil.which("docgraph")
    if here.name != "docgraph" or (found is not None and Path(found).samefile(here)):
        return "docgraph"
    return str(here)


def report_failure(error: StartupError) -> int:
    """Print why something could not start and what to do; the result is the exit code."""
    from docgraph.exchange import ConfigError

    if isinstance(error, ConfigError):
        count = len(error.problems)
        notice(_red(f"docgraph: {count} mistake{'s' if count > 1 else ''} in the configuration"))
        for problem in error.problems:
            notice(f"  {problem}")
    else:
        notice(_red(f"docgraph: {error.message}"))
        if error.hint:
            notice(f"  {error.hint}")
    return error.exit_code


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Say what is going on, once it has taken longer than a second."""
    done = threading.Event()

    def explain() -> None:
        if not done.wait(_PATIENCE):
            notice(f"{text} …")

    watcher = threading.Thread(target=explain, daemon=True)
    started = time.monotonic()
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        elapsed = time.monotonic() - started
        if elapsed > _PATIENCE and sys.exc_info()[0] is None:
            notice(f"{text}: done in {elapsed:.1f} s")


def _red(text: str) -> str:
    return click.style(text, fg="red", bold=True) if sys.stderr.isatty() else text
