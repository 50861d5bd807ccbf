"""`docgraph migrate restheart`: convert a configuration, and compare what is stored."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from docgraph.cli.migrate.convert import Conversion, Fate, Remark
from docgraph.cli.migrate.restheart_config import load_restheart
from docgraph.cli.terminal import notice, print_table
from docgraph.config import ConfigSources
from docgraph.exchange import StartupError

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group()
def migrate() -> None:
    """Move an installation of another server to docgraph."""


@migrate.command()
@click.argument("config", type=_FILE)
@click.option("-o", "--override", type=_FILE, help="The override file of RESTHeart (-o, RHO_FILE).")
@click.option("--env", "with_environment", is_flag=True, help="Also read the variable RHO.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("docgraph.yml"),
    show_default=True,
    help="The file to write; it must not exist.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def restheart(
    config: Path, override: Path | None, with_environment: bool, output: Path, as_json: bool
) -> None:
    """Convert CONFIG, a configuration file of RESTHeart 8 or 9, to one of docgraph.

    The report says what is taken over, what changes in meaning and what is not supported. Exit
    code 1: callers would see more than before.
    """
    from docgraph.server.prepare import find_plugins, load_tree, sections_of

    known = sections_of(find_plugins(load_tree(ConfigSources(environ={}))))
    environment = os.environ.get("RHO") if with_environment else None
    found = load_restheart(config, override, environment)
    conversion = Conversion(found, config.parent, known)
    conversion.run()
    write_private(output, conversion.render())
    _print_report(conversion.remarks, as_json=as_json)
    notice(f"{config} is of version {found.version}; its defaults apply where nothing is set")
    notice(f"{output} is written; try it with `docgraph config check {output}`")
    sys.exit(1 if any(one.shows_more for one in conversion.remarks) else 0)


def write_private(file: Path, text: str) -> None:
    """Write a new file that only its owner can read: it may contain secrets."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        hint = "name another one with --output, or move this one away"
        raise StartupError(f"the file {file} exists already", hint=hint) from None
    except OSError as error:
        raise StartupError(f"the file {file} cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as target:
        target.write(text)


def _print_report(remarks: Sequence[Remark], *, as_json: bool) -> None:
    order = list(Fate)
    rows = [
        {
            "result": one.fate.value,
            "where": one.where,
            "remark": one.text,
            "shows more": one.shows_more,
        }
        for one in sorted(remarks, key=lambda one: order.index(one.fate))
    ]
    print_table(rows, as_json=as_json)
