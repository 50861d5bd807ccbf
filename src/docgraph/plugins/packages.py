"""Parts that installed packages add: commands, tools below `/_tools`, advice on data.

A package declares them as entry points in one of the groups below. Each is imported when it is
used, so that a server or another command does not pay for it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, ClassVar, Final

from docgraph.exchange import StartupError

COMMANDS: Final = "docgraph.commands"
"""Commands of click, by their path: `apps.infer` is `docgraph apps infer`."""
TOOLS: Final = "docgraph.tools"
"""Classes of `docgraph.tools.endpoints.AuthorTool`, by the name of their path below `/_tools`."""
ADVISERS: Final = "docgraph.advisers"
"""A class of `docgraph.cli.adviser.Adviser`, under the name `data`."""

_WORKBENCH: Final = "docgraph-workbench"
KNOWN: Final[Mapping[tuple[str, str], str]] = {
    (COMMANDS, "apps.infer"): _WORKBENCH,
    (COMMANDS, "apps.advise"): _WORKBENCH,
    (COMMANDS, "access.fuzz"): _WORKBENCH,
    (TOOLS, "infer"): _WORKBENCH,
    (TOOLS, "advise"): _WORKBENCH,
    (ADVISERS, "data"): _WORKBENCH,
    (COMMANDS, "migrate"): "docgraph-migrate",
}
"""The package of each of our own parts."""


class MissingPackage(StartupError):
    """A command, or an option of one, needs a package that is not installed."""

    exit_code: ClassVar[int] = 2

    def __init__(self, group: str, name: str) -> None:
        package = KNOWN.get((group, name), "")
        extra = package.removeprefix("docgraph-")
        what = f"`docgraph {name.replace('.', ' ')}`" if group == COMMANDS else "this"
        super().__init__(
            f"{what} needs the package {package}, which is not installed",
            hint=f"install it: pip install 'docgraph[{extra}]'",
        )


def find_entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group, of the packages on the current path."""
    return _read_entry_points(tuple(sys.path), group)


@lru_cache(maxsize=8)
def _read_entry_points(path: tuple[str, ...], group: str) -> EntryPoints:
    """Return the entry points of a group; slow, as it opens every package."""
    return entry_points(group=group)


def find_part(group: str, name: str) -> EntryPoint | None:
    """Return the entry point of that name; None if no package has it."""
    return next(iter(find_entry_points(group).select(name=name)), None)


def list_parts(group: str) -> list[str]:
    """Return the names that can be loaded: ours in the order of the table above, then others."""
    installed = find_entry_points(group).names
    bundled = [name for of, name in KNOWN if of == group and name in installed]
    return [*bundled, *sorted(installed - set(bundled))]


def load_part(group: str, name: str) -> Any:
    """Return the part of that name; raise `MissingPackage` if no package has it."""
    point = find_part(group, name)
    if point is None:
        raise MissingPackage(group, name)
    return point.load()
