"""Configuration: where values come from, what they must be, and how to show them.

tree = load(Sources(file=path), SECTIONS)  # all sources, merged, with origins
core = peek(tree, Core)                    # one section early, to find the plugins
config = decode(tree, SECTIONS | plugins)  # everything, or one ConfigError with all mistakes
"""

from __future__ import annotations

from docgraph.config.decode import Decoded, decode, peek
from docgraph.config.section import PluginConfig, Section, ServiceConfig
from docgraph.config.show import list_values, show
from docgraph.config.sources import DEFAULT_FILE, VARIABLES, Sources, load
from docgraph.config.template import template
from docgraph.config.tree import Tree

__all__ = [
    "DEFAULT_FILE",
    "VARIABLES",
    "Decoded",
    "PluginConfig",
    "Section",
    "ServiceConfig",
    "Sources",
    "Tree",
    "decode",
    "list_values",
    "load",
    "peek",
    "show",
    "template",
]
