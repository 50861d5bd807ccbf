"""Commands that plugins bring along: `docgraph <name of the plugin> …`.

Reading the configuration and loading plugins takes a moment, which help and completion have only
where there may be some.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docgraph.cli.options import prepare_sources

if TYPE_CHECKING:
    from docgraph.config import Tree
    from docgraph.plugins import Found

__all__ = ["GROUP", "find_plugin_command", "list_plugin_commands"]

GROUP = "docgraph.plugins"  # of entry points
_VARIABLES = ("DOCGRAPH_CONFIG", "DOCGRAPH_OVERRIDES")  # either may name a directory of plugins
_FILE = Path("docgraph.yml")
_DIRECTORY = Path("plugins")


def list_plugin_commands() -> list[str]:
    """The names of those that the configuration in force turns on."""
    if not _may_have_plugins():
        return []
    tree, found = _find_commands()
    return sorted(one.name for one in found if _is_on(one, tree))


def find_plugin_command(name: str) -> click.Command | None:
    """The command of a plugin of that name, where the configuration in force has one."""
    if not _may_have_plugins():
        return None
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


def _may_have_plugins() -> bool:
    return (
        any(os.environ.get(name) for name in _VARIABLES)
        or _DIRECTORY.exists()
        or _names_directory(_FILE)
        or bool(entry_points(group=GROUP))
    )


def _names_directory(file: Path) -> bool:
    try:
        return b"plugins-directory" in file.read_bytes()
    except OSError:
        return file.exists()  # whoever reads it next says what is wrong with it


@cache
def _find_commands() -> tuple[Tree, tuple[Found, ...]]:
    from docgraph.config import Sources, load, peek
    from docgraph.plugins import discover
    from docgraph.plugins.kinds import Kind
    from docgraph.runtime.sections import Core

    tree = load(Sources(), {Core.section_name: Core})
    found = discover((), Path(peek(tree, Core).plugins_directory))
    return tree, tuple(one for one in found if one.plugin.kind is Kind.COMMAND)


def _is_on(one: Found, tree: Tree) -> bool:
    node = tree.find(f"/{one.name}/enabled")
    return one.plugin.enabled_by_default if node is None else node.value is True


def _run(name: str, arguments: tuple[str, ...]) -> None:
    """Run it with everything a plugin can be given; the result is the exit code."""
    from docgraph.cli.workbench import work_on
    from docgraph.config import Sources

    code: int = work_on(
        prepare_sources(Sources()), lambda app: app.plugins.find(name).run(arguments)
    )
    sys.exit(code)
