"""Provider `registry`: finds plugins by name, such as the authenticator of a mechanism.

It is filled after all plugins are constructed, so use it from `provision` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docgraph.plugins.kinds import Kind, Plugin


class PluginRegistry:
    """The enabled plugins."""

    def __init__(self) -> None:
        self._plugins: list[Plugin] = []

    def fill(self, plugins: Sequence[Plugin]) -> None:
        """Store the plugins; called once, after construction."""
        self._plugins = list(plugins)

    def find(self, name: str) -> Any | None:
        """Return the enabled plugin of that name."""
        return next((one for one in self._plugins if one.name == name), None)

    def of_kind(self, kind: Kind) -> list[Any]:
        """Return the enabled plugins of a kind, by their `priority` if they have one."""
        chosen = [plugin for plugin in self._plugins if plugin.kind is kind]
        return sorted(chosen, key=lambda plugin: getattr(plugin, "priority", 0))
