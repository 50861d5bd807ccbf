"""Plugins: their kinds, where they are found, how they are put together."""

from docgraph.plugins.assemble import PluginSet, assemble, is_enabled
from docgraph.plugins.discover import Found, discover

__all__ = ["Found", "PluginSet", "assemble", "discover", "is_enabled"]
