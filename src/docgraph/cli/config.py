"""`docgraph config`: show, template, check."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import notice, paint, print_table
from docgraph.config import ConfigSources, list_values
from docgraph.config import show as render
from docgraph.config import template as render_template
from docgraph.config.render import MINIMAL_TEMPLATE
from docgraph.config.sources import locating


@click.group()
def config() -> None:
    """Show, check and create configurations."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def show(sources: ConfigSources, as_json: bool) -> None:
    """Print the effective configuration with the origin of each value; secrets are masked."""
    prepared = prepare_sources(sources)
    if as_json:
        print_table(list_values(prepared.tree, prepared.config), as_json=True)
        return
    for line in render(prepared.tree, prepared.config).split("\n"):
        value, mark, origin = line.rpartition("  # ")
        click.echo(f"{value}{paint(mark + origin, 'bright_black')}" if mark else line)


@config.command()
@click.option("--minimal", is_flag=True, help="Only the options that most servers set.")
@configured
def template(sources: ConfigSources, minimal: bool) -> None:
    """Print a configuration file with every option, its description and its default."""
    from docgraph.server.prepare import find_plugins, load_tree, sections_of

    if minimal:
        click.echo(MINIMAL_TEMPLATE, nl=False)
        return
    click.echo(render_template(sections_of(find_plugins(load_tree(sources)))))


@config.command()
@click.argument(
    "file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False
)
@configured
def check(sources: ConfigSources, file: Path | None) -> None:
    """Check a configuration file; exit code 2 and every mistake when it cannot work.

    Give the file as FILE or with --config.
    """
    from docgraph.cli.parts import check_parts
    from docgraph.server.prepare import load_tree, prepare, require_allower

    if file is not None and sources.file is not None:
        raise click.UsageError("give FILE or --config, not both")
    file = file or sources.file
    if file is None:
        raise click.UsageError("give a configuration file: FILE, or --config FILE")
    tree = load_tree(replace(sources, file=file))
    with locating(tree):
        prepared = prepare(tree)
        require_allower(prepared)
        part_warnings = check_parts(prepared)
    warnings = [*prepared.config.warnings, *part_warnings]
    for warning in warnings:
        notice(f"warning: {warning}")
    notice(f"{file} works, with warnings" if warnings else f"{file} is fine")
    sys.exit(0)
