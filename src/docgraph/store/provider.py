"""Store provider: open the store of a process, and provide the driver's client to plugins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from docgraph.config.section import PluginConfig
from docgraph.plugins.kinds import Provider
from docgraph.store.driver.client import Client, build_client
from docgraph.store.driver.connection_status import ConnectionStatus
from docgraph.store.driver.rights import Right
from docgraph.store.guard.stage_checks import Policy
from docgraph.store.sections import AggregationSecurity, MClient, count_stream_connections
from docgraph.store.store import Store


def open_store(  # noqa: PLR0913 - what differs between processes
    mclient: MClient,
    security: AggregationSecurity,
    *,
    connection_string: str | None = None,
    wait_timeout_ms: int = 15_000,
    origin: str = "",
    rights: Sequence[Right] = (),
    max_cursors: int = 1,
) -> Store:
    """Return the store of this process; `connection_string` is that of the embedded database.

    `origin` is where the address was configured, `rights` what docgraph needs there. `max_cursors`
    bounds the change streams that this process opens for callers.
    """
    address = mclient.connection_string or connection_string
    if address is None:
        raise ValueError("neither configured nor embedded: there is no connection string")
    return Store(
        build_client(mclient, address, wait_ms=wait_timeout_ms),
        stream_client=build_client(
            mclient,
            address,
            wait_ms=wait_timeout_ms,
            stream_connections=count_stream_connections(max_cursors),
        ),
        policy=Policy.from_section(security),
        ceiling_ms=mclient.command_ceiling_ms,
        wait_timeout_ms=wait_timeout_ms,
        contact=replace(
            ConnectionStatus.read(address, origin, rights),
            is_embedded=mclient.connection_string is None,
        ),
    )


class ClientProvider(Provider):
    """Provides the driver's client to plugins that request `mclient`.

    Their use of it passes neither the checks nor the guards of the store.
    """

    name: ClassVar[str] = "mclientProvider"
    description: ClassVar[str] = "the client of the MongoDB driver, for plugins"
    provides: ClassVar[str] = "mclient"

    def __init__(self, config: PluginConfig, store: Store) -> None:
        self._store = store

    def get(self) -> Client:
        """Return the client that the store itself uses."""
        return self._store.client
