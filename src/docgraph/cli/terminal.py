"""Terminal output: errors, hints and progress on stderr, results on stdout.

On a terminal there are colours (unless `NO_COLOR` is set) and tables in columns. Elsewhere the
output is plain lines with tabs, whose format depends only on the content.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from docgraph.exchange import StartupError

_PATIENCE = 1.0  # seconds before a wait is explained
Colour = Literal["red", "yellow", "green", "bright_black"]


def notice(text: str = "") -> None:
    """Print a line to stderr; commands in it can be typed as they are."""
    if "docgraph " in text:
        from docgraph.exchange.program import name_commands

        text = name_commands(text)
    click.echo(text, err=True)


def print_table(
    rows: Sequence[Mapping[str, Any]], *, as_json: bool, if_empty: str | None = None
) -> None:
    """Print rows of equal keys: a table, lines with tabs in a pipe, or JSON for machines."""
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(list(rows))).decode())
        return
    if not rows and if_empty is not None:
        notice(if_empty)
        return
    if sys.stdout.isatty():
        _draw_table(rows)
        return
    for cells in (rows[0] if rows else {}, *(row.values() for row in rows)):
        click.echo("\t".join(map(_cell, cells)))


def print_json(content: Any) -> None:
    import orjson

    click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())


def _draw_table(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = has_colours(sys.stdout)
    table = Table(box=None, header_style="bold" if colours else "", pad_edge=False)
    for place, name in enumerate(rows[0] if rows else ()):
        table.add_column(name, no_wrap=place == 0, overflow="fold")
    for row in rows:  # texts are not markup
        table.add_row(
            *(Text(_cell(value), "dim" if value is False else "") for value in row.values())
        )
    Console(no_color=not colours, color_system="auto" if colours else None).print(table)


def paint(text: str, colour: Colour, *, err: bool = False) -> str:
    """Return the text in a colour, if it goes to a terminal and colours are enabled."""
    return click.style(text, fg=colour) if has_colours(sys.stderr if err else sys.stdout) else text


def has_colours(stream: IO[str]) -> bool:
    """Return whether the stream shows colours (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return make_printable("" if value is None else str(value))


def make_printable(text: str) -> str:
    """Return a stored name or text on one line, without terminal control characters."""
    return escape_unprintable(text, lambda char: "\N{REPLACEMENT CHARACTER}")


def escape_unprintable(text: str, escape: Callable[[str], str]) -> str:
    """Escape control characters, so that stored text does not control the terminal."""
    return "".join(char if char.isprintable() else escape(char) for char in text)


def report_failure(error: StartupError) -> int:
    """Print why something could not start and what to do; return the exit code."""
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
    """Print the work in progress, once it has taken longer than a second."""
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
    return paint(text, "red", err=True)
