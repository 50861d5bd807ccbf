"""Configuration files for tools: values with the lines they are from, overrides, and the check.

`check_file` checks a file as `docgraph config check` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from docgraph.config import ConfigSources
from docgraph.config.config_node import EMPTY, ConfigNode, Origin, from_plain, merge, to_plain
from docgraph.config.config_tree import (
    Override,
    PathError,
    apply_override,
    parse_entries,
    read_entry,
)
from docgraph.config.options import find_option
from docgraph.config.parse import parse_yaml, resolve_scalar
from docgraph.config.render import render_block
from docgraph.config.section import Section
from docgraph.config.sources import load_file, read_text
from docgraph.exchange import ConfigError, Problem

if TYPE_CHECKING:
    from docgraph.server.prepare import LoadedConfiguration

__all__ = [
    "EMPTY",
    "ConfigError",
    "ConfigNode",
    "Origin",
    "Override",
    "PathError",
    "Problem",
    "Section",
    "apply_override",
    "check_file",
    "find_option",
    "find_sections",
    "from_plain",
    "load_file",
    "merge",
    "parse_entries",
    "parse_yaml",
    "read_entry",
    "read_text",
    "render_block",
    "resolve_scalar",
    "to_plain",
]


def find_sections() -> Mapping[str, type[Section]]:
    """Return the sections of docgraph and of the installed plugins by their names."""
    from docgraph.server.prepare import find_plugins, load_tree, sections_of

    return sections_of(find_plugins(load_tree(ConfigSources(environ={}))))


def check_file(file: Path) -> LoadedConfiguration:
    """Check a file without the environment; raise `ConfigError` with every mistake."""
    from docgraph.cli.parts import check_parts
    from docgraph.server.prepare import load_tree, prepare, require_allower

    prepared = prepare(load_tree(ConfigSources(file=file, environ={})))
    require_allower(prepared)
    check_parts(prepared)
    return prepared
