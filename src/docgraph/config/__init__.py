"""Configuration: sources, sections with validation, decoding and rendering.

tree = load(ConfigSources(file=path), SECTIONS)  # all sources, merged, with origins
core = peek(tree, Core)                          # one section early, to find the plugins
config = decode(tree, SECTIONS | plugins)        # everything, or one ConfigError with all mistakes
"""

from __future__ import annotations

from docgraph.config.config_tree import ConfigTree
from docgraph.config.decode import Decoded, decode, peek
from docgraph.config.render import list_values, show, template
from docgraph.config.section import PluginConfig, Section, ServiceConfig
from docgraph.config.sources import DEFAULT_FILE, VARIABLES, ConfigSources, load

__all__ = [
    "DEFAULT_FILE",
    "VARIABLES",
    "ConfigSources",
    "ConfigTree",
    "Decoded",
    "PluginConfig",
    "Section",
    "ServiceConfig",
    "decode",
    "list_values",
    "load",
    "peek",
    "show",
    "template",
]
