"""The provider `registry`: plugins that find each other by name, such as a mechanism its realm.

It is filled when everything is constructed, so it is of use from `provision` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docgraph.plugins.kinds import Kind, Plugin

__all__ = ["PluginRegistry"]


class PluginRegistry:
    """The enabled plugins."""

    def __init__(self) -> None:
        self._plugins: list[Plugin] = []

    def fill(self, plugins: Sequence[Plugin]) -> None:
        """Called once, after construction."""
        self._plugins = list(plugins)

    def find(self, name: str) -> Any | None:
        """The enabled plugin of that name."""
        return next((one for one in self._plugins if one.name == name), None)

    def of_kind(self, kind: Kind) -> list[Any]:
        """The enabled plugins of a kind, by their `priority` where they have one."""
        chosen = [plugin for plugin in self._plugins if plugin.kind is kind]
        return sorted(chosen, key=lambda plugin: getattr(plugin, "priority", 0))
