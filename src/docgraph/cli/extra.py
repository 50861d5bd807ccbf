"""Commands that plugins bring along: `docgraph <name of the plugin> …`."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import click

from docgraph.cli.options import prepare_sources
from docgraph.config import Sources, Tree, load, peek
from docgraph.plugins import Found, discover
from docgraph.plugins.kinds import Kind
from docgraph.runtime.sections import Core

__all__ = ["find_plugin_command", "list_plugin_commands"]


def list_plugin_commands() -> list[str]:
    """The names of those that the configuration in force turns on; nothing heavy is imported."""
    tree, found = _find_commands()
    return sorted(one.name for one in found if _is_on(one, tree))


def find_plugin_command(name: str) -> click.Command | None:
    """The command of a plugin of that name, where the configuration in force has one."""
    _, found = _find_commands()
    for one in found:
        if one.name == name:
            return click.Command(
                name,
                params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
                callback=lambda arguments: _run(name, arguments),
                help=one.plugin.description,
                context_settings={"ignore_unknown_options": True},
            )
    return None


@cache
def _find_commands() -> tuple[Tree, tuple[Found, ...]]:
    tree = load(Sources(), {Core.section_name: Core})
    found = discover((), Path(peek(tree, Core).plugins_directory))
    return tree, tuple(one for one in found if one.plugin.kind is Kind.COMMAND)


def _is_on(one: Found, tree: Tree) -> bool:
    node = tree.find(f"/{one.name}/enabled")
    return one.plugin.enabled_by_default if node is None else node.value is True


def _run(name: str, arguments: tuple[str, ...]) -> None:
    """Run it with everything a plugin can be given; the result is the exit code."""
    from docgraph.cli.workbench import work_on

    code: int = work_on(
        prepare_sources(Sources()), lambda app: app.plugins.find(name).run(arguments)
    )
    sys.exit(code)
