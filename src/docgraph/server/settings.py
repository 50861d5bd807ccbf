"""Settings of the HTTP server from the configuration, in the units it uses.

`ServerSettings` groups the sections; `Limits` are those of one worker process, in bytes and
seconds, with "no limit" as infinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, inf
from typing import TypeVar, get_type_hints

from docgraph.config.section import Section
from docgraph.events.sections import Events
from docgraph.runtime.sections import Core, Cors
from docgraph.server.sections import (
    ConnectionOptions,
    HttpListener,
    HttpsListener,
    count_probe_connections,
)
from docgraph.store.sections import MClient, count_stream_connections

_S = TypeVar("_S", bound=Section)

# A body may begin slowly (a phone on a mobile network) before its rate counts.
_LONGEST_GRACE = 5.0
_MAX_UNREAD = 256 << 20  # bytes, if none are set


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what clients may send, how long they may take and how many they may be.

    `connections` is for the whole instance; `in_flight`, `queue`, the uploads (bodies being
    received) and the unread bytes are the share of one worker.
    """

    header_size: int
    headers_size: int
    headers: int
    url_size: int
    body_size: int
    body_rate: int
    header_time: float
    body_time: float
    idle_time: float
    write_time: float
    stop_delay: float
    stop_time: float
    connections: int
    max_connections_of_address: int | None  # None: half of them
    in_flight: int
    queue: int
    uploads: int
    uploads_per_address: int
    uploads_size: int
    uploads_size_per_address: int
    unread_size: int
    lingering: int = 64  # connections above the limit that get a rejection before they are closed
    websocket_compression: bool = True
    fits_unread_to_memory: bool = False  # less than that where the process has a memory limit
    wait_time: float | None = None

    @classmethod
    def from_options(
        cls, options: ConnectionOptions, workers: int = 1, *, wait_ms: int = 0
    ) -> Limits:
        """Build the limits of one of so many workers."""
        return cls(
            header_size=options.max_header_size,
            headers_size=options.max_headers_size,
            headers=options.max_headers,
            url_size=options.max_url_size,
            body_size=options.max_body_size,
            body_rate=options.min_body_rate,
            header_time=_seconds(options.header_timeout_ms),
            body_time=_seconds(options.body_timeout_ms),
            idle_time=_seconds(options.keep_alive_timeout_ms),
            write_time=_seconds(options.write_timeout_ms),
            stop_delay=options.shutdown_delay_ms / 1000,
            stop_time=options.shutdown_timeout_ms / 1000,
            connections=options.max_connections,
            max_connections_of_address=options.max_connections_per_address,
            in_flight=ceil(options.max_requests_in_flight / workers),
            queue=ceil(options.queue / workers),
            wait_time=wait_ms / 1000 if wait_ms > 0 else None,
            uploads=ceil(options.max_uploads / workers),
            uploads_per_address=ceil(options.max_uploads_per_address / workers),
            uploads_size=ceil(options.max_uploads_size / workers),
            uploads_size_per_address=ceil(options.max_uploads_size_per_address / workers),
            unread_size=ceil((options.max_unread_size or _MAX_UNREAD) / workers),
            fits_unread_to_memory=options.max_unread_size is None,
            websocket_compression=options.websocket_compression,
        )

    @property
    def probe_connections(self) -> int:
        """The number of connections that answer health checks only."""
        return count_probe_connections(self.connections)

    @property
    def probe_connections_of_address(self) -> int:
        """The number of those that one address may have: a quarter, rounded up."""
        return ceil(self.probe_connections / 4)

    @property
    def request_connections(self) -> int:
        """The number of connections that answer any request."""
        return self.connections - self.probe_connections

    @property
    def connections_of_address(self) -> int:
        """The number of those that one address may have."""
        return self.max_connections_of_address or ceil(self.connections / 2)

    @property
    def longest_stop(self) -> float:
        """Seconds from the request to stop until the last request must have ended."""
        return self.stop_delay + self.stop_time

    @property
    def body_grace(self) -> float:
        """Seconds that a body may be slower than `body_rate`."""
        return min(_LONGEST_GRACE, self.body_time / 6)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The sections that this level of the server reads."""

    core: Core = field(default_factory=Core)
    cors: Cors = field(default_factory=Cors)
    http_listener: HttpListener = field(default_factory=HttpListener)
    https_listener: HttpsListener = field(default_factory=HttpsListener)
    connection_options: ConnectionOptions = field(default_factory=ConnectionOptions)
    mclient: MClient = field(default_factory=MClient)
    events: Events = field(default_factory=Events)

    @classmethod
    def from_sections(cls, sections: Mapping[str, Section]) -> ServerSettings:
        """Take the sections by their names in the configuration; a missing one has its defaults."""
        kinds = get_type_hints(cls)
        return cls(**{name: _pick(sections, kind) for name, kind in kinds.items()})

    @property
    def limits(self) -> Limits:
        return Limits.from_options(
            self.connection_options, self.core.workers, wait_ms=self.core.wait_timeout_ms
        )

    @property
    def database_connections(self) -> int:
        """The number of connections to the database that one worker process may open."""
        cursors = self.events.count_cursors()
        return self.mclient.max_pool_size + count_stream_connections(cursors)


def list_addresses(settings: ServerSettings) -> list[str]:
    """Return the addresses that the server will listen on, as configured."""
    addresses = []
    http, https = settings.http_listener, settings.https_listener
    if http.enabled and http.port is not None:
        addresses.append(f"http on port {http.port} of {http.host}")
    if https.enabled:
        addresses.append(f"https on port {https.port} of {https.host}")
    if http.enabled and http.socket is not None:
        addresses.append(f"http at unix:{http.socket}")
    return addresses


def _pick(sections: Mapping[str, Section], kind: type[_S]) -> _S:
    section = sections.get(kind.section_name)
    return section if isinstance(section, kind) else kind()


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000 if milliseconds > 0 else inf
