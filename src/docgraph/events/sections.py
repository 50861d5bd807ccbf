"""Configuration section of change streams: `events`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from docgraph.config.section import PluginConfig, Size

__all__ = ["Events"]


class Events(PluginConfig, frozen=True):
    """Change streams over WebSocket and server-sent events."""

    section_name: ClassVar[str] = "events"
    enabled: Annotated[bool, Meta(description="whether change streams are served")] = True
    max_cursors: Annotated[
        int,
        Meta(description="change streams of the database that an instance opens", ge=1, le=10_000),
    ] = 200
    max_filters: Annotated[
        int,
        Meta(
            description="different row filters and stages of streams that need the database",
            ge=1,
            le=1_000_000,
        ),
    ] = 5000
    max_connections_per_user: Annotated[
        int, Meta(description="open streams of one user", ge=1, le=100_000)
    ] = 50
    max_connections_per_address: Annotated[
        int, Meta(description="open streams of one address", ge=1, le=100_000)
    ] = 200
    max_behind: Annotated[
        int, Meta(description="events that a client may be behind", ge=1, le=1_000_000)
    ] = 1000
    max_behind_size: Annotated[Size, Meta(description="bytes that a client may be behind")] = (
        1_048_576
    )
    max_log_size: Annotated[
        Size, Meta(description="bytes of events that a worker retains for all clients together")
    ] = 134_217_728
    heartbeat_interval_ms: Annotated[
        int, Meta(description="silence after which a comment is sent", ge=100, le=3_600_000)
    ] = 20_000
    renewal_interval_ms: Annotated[
        int,
        Meta(
            description="how often it is asked whether a client still may see its stream",
            ge=1000,
            le=60_000,
        ),
    ] = 50_000
