"""Read preference, read concern and write concern: the caller's consistency for the driver.

Impossible requests are rejected immediately: a read that no server can answer, and a write that
more servers must confirm than exist.
"""

from __future__ import annotations

from typing import Final

import pymongo
from pymongo import ReadPreference
from pymongo.server_type import SERVER_TYPE
from pymongo.topology_description import TOPOLOGY_TYPE, TopologyDescription

from docgraph.exchange.data import Consistency, WriteConcern
from docgraph.exchange.errors import QueryError
from docgraph.store.driver.driver_internals import ServerMode

MAJORITY: Final = "majority"
_LINEARIZABLE: Final = "linearizable"
READ_CONCERNS: Final = ("local", "available", MAJORITY, _LINEARIZABLE, "snapshot")

_PREFERENCES: Final[dict[str, ServerMode]] = {
    "primary": ReadPreference.PRIMARY,
    "primaryPreferred": ReadPreference.PRIMARY_PREFERRED,
    "secondary": ReadPreference.SECONDARY,
    "secondaryPreferred": ReadPreference.SECONDARY_PREFERRED,
    "nearest": ReadPreference.NEAREST,
}
_NO_SECONDARIES: Final = {SERVER_TYPE.Standalone, SERVER_TYPE.RSPrimary}
READ_PREFERENCES: Final = tuple(_PREFERENCES)


def choose_preference(
    consistency: Consistency, default: ServerMode, topology: TopologyDescription
) -> ServerMode:
    """Return the servers to read from; raise `QueryError` if there can be none."""
    if consistency.preference is not None:
        preference = _PREFERENCES[consistency.preference]
    else:
        preference = default
    if consistency.concern == _LINEARIZABLE and preference != ReadPreference.PRIMARY:
        if consistency.preference is not None:
            raise QueryError(
                f"a {_LINEARIZABLE} read is made from the primary, not by readPreference "
                f"{consistency.preference}",
                hint=f"leave out readPreference, or read with readConcern={MAJORITY}",
            )
        return ReadPreference.PRIMARY
    is_asked = consistency.preference is not None
    if preference == ReadPreference.SECONDARY and _lacks_secondary(topology, is_asked):
        raise QueryError(
            "there is no secondary to read from",
            hint="readPreference=secondaryPreferred reads from the primary then",
        )
    return preference


def _lacks_secondary(topology: TopologyDescription, is_asked: bool) -> bool:
    """Check if servers are known, and no secondary is among them.

    A standalone server, or one with a direct connection, always answers the driver; a caller who
    requests a secondary gets an error, because it is none.
    """
    if topology.topology_type == TOPOLOGY_TYPE.Single:
        kinds = {server.server_type for server in topology.server_descriptions().values()}
        return is_asked and kinds <= _NO_SECONDARIES
    return topology.has_readable_server(
        ReadPreference.NEAREST
    ) and not topology.has_readable_server(ReadPreference.SECONDARY)


def choose_concern(concern: WriteConcern, topology: TopologyDescription) -> pymongo.WriteConcern:
    """Return the write concern for the driver; raise `QueryError` if there are too few servers."""
    if isinstance(concern.servers, int):
        # Servers outside of a replica set report no members; then the database decides.
        servers = topology.server_descriptions().values()
        members = {host for server in servers for host in server.all_hosts}
        if members and concern.servers > len(members):
            raise QueryError(
                f"{concern.servers} servers cannot confirm the write: there are {len(members)}",
                hint=f"writeConcern={MAJORITY} is right for any number of servers",
            )
    return pymongo.WriteConcern(concern.servers, j=concern.journal)
