"""Installed plugins: `docgraph plugins`, `docgraph version`, and the commands of plugins.

Reading the configuration and loading plugins takes a moment; help and completion do so only if
plugins may exist.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Collection
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docgraph import __version__
from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import print_table

if TYPE_CHECKING:
    from docgraph.config import ConfigSources, ConfigTree
    from docgraph.plugins import FoundPlugin


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def plugins(sources: ConfigSources, as_json: bool) -> None:
    """List the plugins: name, kind, enabled or not, origin."""
    from docgraph.plugins import is_enabled

    prepared = prepare_sources(sources)
    rows = [
        {
            "name": plugin.name,
            "kind": str(plugin.plugin.kind),
            "enabled": is_enabled(plugin, prepared.config.sections),
            "origin": plugin.origin,
            "description": plugin.plugin.description,
        }
        for plugin in sorted(prepared.found, key=lambda plugin: (plugin.plugin.kind, plugin.name))
    ]
    print_table(rows, as_json=as_json)


GROUP = "docgraph.plugins"  # of entry points
_VARIABLES = ("DOCGRAPH_CONFIG", "DOCGRAPH_OVERRIDES")  # either may name a directory of plugins
_FILE = Path("docgraph.yml")
_DIRECTORY = Path("plugins")


def list_packaged_commands() -> Collection[str]:
    """Return the paths of commands that installed packages provide, without importing them."""
    return entry_points(group="docgraph.commands").names


def list_plugin_commands() -> list[str]:
    """Return the names of plugin commands that the current configuration enables."""
    if not _may_have_plugins():
        return []
    tree, commands = _find_commands()
    return sorted(plugin.name for plugin in commands if _is_on(plugin, tree))


def find_plugin_command(name: str) -> click.Command | None:
    """Return the command of a plugin of that name, if the current configuration has one."""
    if not _may_have_plugins():
        return None
    _, commands = _find_commands()
    for plugin in commands:
        if plugin.name == name:
            return click.Command(
                name,
                params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
                callback=lambda arguments: _run(name, arguments),
                help=plugin.plugin.description,
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
        return file.exists()  # the next reader reports what is wrong with it


@cache
def _find_commands() -> tuple[ConfigTree, tuple[FoundPlugin, ...]]:
    from docgraph.config import ConfigSources, load, peek
    from docgraph.plugins import discover
    from docgraph.plugins.kinds import Kind
    from docgraph.runtime.sections import Core

    tree = load(ConfigSources(), {Core.section_name: Core})
    plugins = discover((), Path(peek(tree, Core).plugins_directory))
    return tree, tuple(plugin for plugin in plugins if plugin.plugin.kind is Kind.COMMAND)


def _is_on(plugin: FoundPlugin, tree: ConfigTree) -> bool:
    node = tree.find(f"/{plugin.name}/enabled")
    return plugin.plugin.enabled_by_default if node is None else node.value is True


def _run(name: str, arguments: tuple[str, ...]) -> None:
    """Run the command with everything that plugins can receive; return its exit code."""
    from docgraph.cli.application import work_on
    from docgraph.config import ConfigSources

    code: int = work_on(
        prepare_sources(ConfigSources()), lambda app: app.plugins.find(name).run(arguments)
    )
    sys.exit(code)


@click.command()
def version() -> None:
    """Print the version of docgraph and of Python."""
    click.echo(f"docgraph {__version__} (Python {platform.python_version()})")
