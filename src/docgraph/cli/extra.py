"""Commands that plugins bring along: `docgraph <name of the plugin> …`."""

from __future__ import annotations

import sys

import click

from docgraph.cli.options import prepare_sources
from docgraph.config import Sources
from docgraph.plugins.kinds import Kind

__all__ = ["find_plugin_command"]


def find_plugin_command(name: str) -> click.Command | None:
    """The command of a plugin of that name, where the configuration in force has one."""
    from docgraph.server.prepare import find_plugins, load_tree

    for found in find_plugins(load_tree(Sources())):
        if found.name == name and found.plugin.kind is Kind.COMMAND:
            return click.Command(
                name,
                params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
                callback=lambda arguments: _run(name, arguments),
                help=found.plugin.description,
                context_settings={"ignore_unknown_options": True},
            )
    return None


def _run(name: str, arguments: tuple[str, ...]) -> None:
    """Run it with everything a plugin can be given; the result is the exit code."""
    from docgraph.cli.workbench import work_on

    code: int = work_on(
        prepare_sources(Sources()), lambda app: app.plugins.find(name).run(arguments)
    )
    sys.exit(code)
