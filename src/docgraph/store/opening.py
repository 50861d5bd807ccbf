"""From the configuration to the store of a process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from docgraph.store.driver.client import build_client
from docgraph.store.driver.contact import Contact
from docgraph.store.driver.rights import Right
from docgraph.store.guard.stages import Policy
from docgraph.store.sections import AggregationSecurity, MClient
from docgraph.store.store import Store

__all__ = ["open_store"]


def open_store(
    mclient: MClient,
    security: AggregationSecurity,
    *,
    connection_string: str | None = None,
    wait_timeout_ms: int = 15_000,
    origin: str = "",
    rights: Sequence[Right] = (),
) -> Store:
    """The store of this process; `connection_string` is that of the embedded database.

    `origin` says where the address was set, `rights` what docgraph needs there.
    """
    address = mclient.connection_string or connection_string
    if address is None:
        raise ValueError("neither configured nor embedded: there is no connection string")
    return Store(
        build_client(mclient, address),
        policy=Policy.from_section(security),
        ceiling_ms=mclient.command_ceiling_ms,
        wait_timeout_ms=wait_timeout_ms,
        contact=replace(
            Contact.read(address, origin, rights), is_embedded=mclient.connection_string is None
        ),
    )
