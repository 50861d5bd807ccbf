"""The instance itself: `core`, `logging` and the connection to the database, `mclient`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from docgraph.config.section import (
    ConnectionString,
    FilePath,
    Milliseconds,
    Section,
    Size,
    View,
)
from docgraph.exchange.errors import Problem

__all__ = ["Core", "Logging", "MClient"]

HeaderName = Annotated[
    str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z", extra={"form": "the name of a header"})
]


class Core(Section, frozen=True):
    """The instance: its processes, its directories, what stands in front of it."""

    section_name: ClassVar[str] = "core"
    name: Annotated[
        str,
        Meta(
            description="name of this instance, in logs and greetings",
            pattern=r"^[^\x00-\x1f\x7f]{1,64}\Z",
            extra={"form": "1 to 64 printable characters"},
        ),
    ] = "docgraph"
    workers: Annotated[int, Meta(description="worker processes", ge=1, le=256)] = 1
    data_directory: Annotated[
        FilePath, Meta(description="where the embedded MongoDB keeps its data")
    ] = "./data"
    plugins_directory: Annotated[
        str,
        Meta(
            description="where plugins are looked for; relative to the configuration file",
            min_length=1,
            extra={"path": "beside-configuration"},
        ),
    ] = "plugins"
    trusted_proxies: Annotated[
        tuple[str, ...],
        Meta(
            description="addresses or networks of proxies whose `X-Forwarded-*` headers are "
            "believed"
        ),
    ] = ()
    tracing_headers: Annotated[
        tuple[HeaderName, ...],
        Meta(
            description="request headers that are sent back and logged; the first one present "
            "is the request id"
        ),
    ] = ()
    base_url: Annotated[
        Annotated[
            str,
            Meta(
                pattern=r"^https?://[^/\s?#]+(/[^\s?#]*)?\Z",
                extra={"form": "an address such as 'https://api.example.org'"},
            ),
        ]
        | None,
        Meta(description="public address of this instance, used in `Location` and documents"),
    ] = None
    workers_scheduler_parallelism: Annotated[
        int,
        Meta(
            description="threads for blocking work; 0 or less means 1.5 times the core count",
            ge=-1024,
            le=1024,
        ),
    ] = 0
    workers_scheduler_max_pool_size: Annotated[
        int, Meta(description="most threads for blocking work", ge=1, le=4096)
    ] = 256
    force_gzip_encoding: Annotated[
        bool, Meta(description="refuse requests whose client does not accept compression")
    ] = False


class Logging(Section, frozen=True):
    """What is logged to stderr, and how."""

    section_name: ClassVar[str] = "logging"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="least severity logged")
    ] = "info"
    format: Annotated[
        Literal["auto", "console", "json"],
        Meta(
            description="`console` for people, `json` for machines, one line each; `auto` is "
            "`console` on a terminal and `json` elsewhere"
        ),
    ] = "auto"
    requests: Annotated[bool, Meta(description="log one line per request")] = True
    requests_exclude_patterns: Annotated[
        tuple[str, ...],
        Meta(
            description="paths whose requests are logged once per interval only; `*` stands for "
            "any text"
        ),
    ] = ()
    requests_exclude_interval_ms: Annotated[
        Milliseconds,
        Meta(description="interval for excluded paths; 0 logs only the first request"),
    ] = 600_000
    max_field_size: Annotated[
        Size, Meta(description="longest value in a log line; the rest is cut")
    ] = 1024


class MClient(Section, frozen=True):
    """The connection to MongoDB."""

    section_name: ClassVar[str] = "mclient"
    connection_string: Annotated[
        ConnectionString | None,
        Meta(description="address of the MongoDB; none starts the embedded one"),
    ] = None
    command_ceiling_ms: Annotated[
        Milliseconds,
        Meta(description="longest time of one database command; 0 means no ceiling"),
    ] = 300_000
    max_pool_size: Annotated[
        int, Meta(description="most connections per worker process", ge=1, le=10_000)
    ] = 100
    min_pool_size: Annotated[
        int, Meta(description="connections kept open per worker process", ge=0, le=10_000)
    ] = 5
    max_connecting: Annotated[
        int, Meta(description="connections that are opened at the same time", ge=1, le=100)
    ] = 2
    wait_queue_timeout_ms: Annotated[
        int, Meta(description="longest wait for a free connection", ge=1, le=600_000)
    ] = 2000
    connect_timeout_ms: Annotated[
        int, Meta(description="longest time to open a connection", ge=1, le=600_000)
    ] = 2000
    heartbeat_frequency_ms: Annotated[
        int, Meta(description="time between two looks at the servers", ge=500, le=600_000)
    ] = 2000
    server_selection_timeout_ms: Annotated[
        int,
        Meta(description="longest wait for a server, such as a new primary", ge=1, le=600_000),
    ] = 15_000

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """A pool cannot keep more than it may have."""
        yield from view.compare(self, "min-pool-size", "max-pool-size")
