"""The provider `mclient`: the driver's client, for plugins."""

from __future__ import annotations

from typing import ClassVar

from docgraph.config.section import PluginConfig
from docgraph.plugins.kinds import Provider
from docgraph.store.driver.client import Client
from docgraph.store.store import Store

__all__ = ["ClientProvider"]


class ClientProvider(Provider):
    """Gives the driver's client to plugins that ask for `mclient`.

    What they do with it passes neither the checks nor the guards of the store.
    """

    name: ClassVar[str] = "mclientProvider"
    description: ClassVar[str] = "the client of the MongoDB driver, for plugins"
    provides: ClassVar[str] = "mclient"

    def __init__(self, config: PluginConfig, store: Store) -> None:
        self._store = store

    def get(self) -> Client:
        """The client that the store itself uses."""
        return self._store.client
