"""Configuration section of change streams: `events`."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta

from docgraph.config.section import ByteSize, PluginConfig, View
from docgraph.exchange.errors import Problem
from docgraph.runtime.sections import Core
from docgraph.store.sections import MClient, count_stream_connections


class Events(PluginConfig, frozen=True):
    """Change streams over WebSocket and server-sent events."""

    section_name: ClassVar[str] = "events"
    enabled: Annotated[bool, "whether change streams are served"] = True
    max_cursors: Annotated[
        int,
        Meta(ge=1, le=10_000),
        "change streams of the database that an instance opens, each with a connection of its own "
        "besides those of `mclient`",
    ] = 200
    max_filters: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        "different row filters and stages of streams that need the database",
    ] = 5000
    max_connections_per_user: Annotated[int, Meta(ge=1, le=100_000), "open streams of one user"] = (
        50
    )
    max_connections_per_address: Annotated[
        int, Meta(ge=1, le=100_000), "open streams of one address"
    ] = 200
    max_behind: Annotated[int, Meta(ge=1, le=1_000_000), "events that a client may be behind"] = (
        1000
    )
    max_behind_size: Annotated[ByteSize, "bytes that a client may be behind"] = 1_048_576
    max_log_size: Annotated[
        ByteSize, "bytes of events that a worker retains for all clients together"
    ] = 134_217_728
    heartbeat_interval_ms: Annotated[
        int, Meta(ge=100, le=3_600_000), "silence after which a comment is sent"
    ] = 20_000
    renewal_interval_ms: Annotated[
        int,
        Meta(ge=1000, le=60_000),
        "how often it is asked whether a client still may see its stream",
    ] = 50_000

    def count_cursors(self) -> int:
        """Return how many change streams the workers open for callers, or one of them alone."""
        return self.max_cursors if self.enabled else 0

    def give_advice(self, view: View) -> Iterator[Problem]:
        """Advise when the connections to the database use up the open files of a worker."""
        core, mclient = view.get(Core), view.get(MClient)
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if core is None or mclient is None or allowed == resource.RLIM_INFINITY:
            return
        streams = count_stream_connections(self.count_cursors())
        if streams + mclient.max_pool_size > allowed // 2:
            yield view.blame(
                "/events/max-cursors",
                f"a worker may open {streams} connections to the database for change streams and "
                f"{mclient.max_pool_size} for requests: more than half of the {allowed} files that "
                "the system allows it",
                "lower it, or raise the limit of open files (ulimit -n, LimitNOFILE=)",
                "/mclient/max-pool-size",
            )
