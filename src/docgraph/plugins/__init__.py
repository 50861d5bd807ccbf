"""Plugins: kinds, discovery, construction and lifecycle."""

from docgraph.plugins.assemble import PluginSet, assemble, is_enabled
from docgraph.plugins.discover import FoundPlugin, discover

__all__ = ["FoundPlugin", "PluginSet", "assemble", "discover", "is_enabled"]
