"""Configuration sections of the listeners, connection limits and batches.

The defaults are cautious: everything that a client can send is limited in size, number and time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from docgraph.config.section import (
    ByteSize,
    FilePath,
    Host,
    Milliseconds,
    Port,
    Section,
    ServiceConfig,
    Uri,
    View,
)
from docgraph.exchange.errors import Problem
from docgraph.runtime.sections import Core
from docgraph.store.sections import MClient

_PROBE_CONNECTIONS: Final = 16
WILDCARDS: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 - compared with, not bound to
_REQUESTS_PER_CONNECTION: Final = 4


class HttpListener(Section, frozen=True):
    """The listener for plain HTTP."""

    section_name: ClassVar[str] = "http-listener"
    enabled: Annotated[bool, "whether the listener is on"] = True
    host: Annotated[Host, "address to listen on; `0.0.0.0` for all, `::` for all of IPv6"] = (
        "127.0.0.1"
    )
    port: Annotated[Port | None, "port to listen on; 0 takes a free one; null: only `socket`"] = (
        8080
    )
    socket: Annotated[
        FilePath | None, "path of a Unix domain socket to listen on, in addition to the port"
    ] = None
    socket_mode: Annotated[
        str,
        Meta(pattern=r"^0?[0-7]{3}\Z", extra={"form": "three octal digits, as text: '660'"}),
        "permissions of the socket; a process that may write to it may connect",
    ] = "660"

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Reject an instance without a listener."""
        if self.enabled and self.port is None and self.socket is None:
            yield view.blame(
                "/http-listener/port",
                "http-listener is on and has neither a port nor a socket",
                "set one of them",
            )
        if not self.enabled and view.knows(HttpsListener) and not view.on(HttpsListener):
            yield view.blame(
                "/http-listener/enabled",
                "no listener is on",
                "set it to true, or use https-listener",
            )
        yield from _find_probe_conflict(self, view)


class HttpsListener(Section, frozen=True):
    """The listener for HTTPS."""

    section_name: ClassVar[str] = "https-listener"
    enabled: Annotated[bool, "whether the listener is on"] = False
    host: Annotated[Host, "address to listen on; `0.0.0.0` for all, `::` for all of IPv6"] = (
        "127.0.0.1"
    )
    port: Annotated[Port, "port to listen on; 0 takes a free one"] = 4443
    certificate: Annotated[FilePath | None, "PEM file with the certificate and its chain"] = None
    # The path is no secret, though its name contains `key`.
    key: Annotated[
        FilePath | None, Meta(extra={"secret": False}), "PEM file with the private key"
    ] = None
    check_interval_ms: Annotated[
        Milliseconds,
        "time between two checks whether certificate or key have changed; 0: they are read again "
        "on SIGHUP only",
    ] = 60_000

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Require certificate and key for TLS, and different addresses for both listeners."""
        if not self.enabled:
            return
        for name in ("certificate", "key"):
            if getattr(self, name) is None:
                yield view.blame(
                    f"/https-listener/{name}",
                    f"https-listener is on and has no {name}",
                    f"set /https-listener/{name} to the path of a PEM file",
                    "/https-listener/enabled",
                )
        http = view.on(HttpListener)
        if http and http.port and (http.host, http.port) == (self.host, self.port):
            yield view.blame(
                "/https-listener/port",
                f"both listeners use {self.host}:{self.port}",
                "give one of them another port",
                "/http-listener/port",
            )
        yield from _find_probe_conflict(self, view)


def _find_probe_conflict(listener: HttpListener | HttpsListener, view: View) -> Iterator[Problem]:
    """Reject a probe listener with the port of another listener."""
    core = view.get(Core)
    if core is None or not listener.enabled or not listener.port:
        return
    probes = core.probe_listener
    is_same_host = probes.host == listener.host or not WILDCARDS.isdisjoint(
        (probes.host, listener.host)
    )
    if probes.port == listener.port and is_same_host:
        yield view.blame(
            "/core/probe-listener/port",
            f"{listener.section_name} uses port {probes.port}, too",
            "give one of them another port",
            f"/{listener.section_name}/port",
        )


class ConnectionOptions(Section, frozen=True):
    """Limits on what clients send, how long they take, and how many they are."""

    section_name: ClassVar[str] = "connection-options"
    max_header_size: Annotated[ByteSize, "longest header line; more is answered with 431"] = 8192
    max_headers_size: Annotated[
        ByteSize, "size of all headers together; more is answered with 431"
    ] = 32_768
    max_headers: Annotated[
        int, Meta(ge=1, le=10_000), "number of headers; more is answered with 431"
    ] = 100
    max_url_size: Annotated[ByteSize, "longest URL; more is answered with 414"] = 8192
    max_parameters: Annotated[
        int, Meta(ge=1, le=10_000), "number of query parameters; more is answered with 400"
    ] = 200
    max_body_size: Annotated[
        ByteSize, "largest request body, whatever a service allows; more is answered with 413"
    ] = 16_777_216
    header_timeout_ms: Annotated[
        Milliseconds, "time to send all headers; 408; 0 means no limit"
    ] = 10_000
    body_timeout_ms: Annotated[
        Milliseconds, "time to send the whole body; 408; 0 means no limit"
    ] = 30_000
    min_body_rate: Annotated[
        int,
        Meta(ge=0, le=1 << 30),
        "slowest body accepted, in bytes per second; 408; 0 means no limit",
    ] = 1024
    keep_alive_timeout_ms: Annotated[Milliseconds, "time an idle connection is kept open"] = 30_000
    write_timeout_ms: Annotated[Milliseconds, "time a client may stop reading its answer"] = 20_000
    max_connections: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        "open connections of the instance; the last 16 of them (half of fewer than 32) answer "
        "`/ping` and `/health/db` only",
    ] = 2000
    max_connections_per_address: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        "open connections of one address (IPv6: of a network of 64 bits); not for "
        "`core.trusted-proxies` and `http-listener.socket`; null: half of `max-connections`",
    ] = None
    max_requests_in_flight: Annotated[
        int, Meta(ge=1, le=100_000), "requests of the instance in progress at the same time"
    ] = 256
    queue: Annotated[
        int, Meta(ge=0, le=100_000), "requests of the instance that wait; more is answered with 503"
    ] = 256
    max_uploads: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        "request bodies of the instance that are read at a time; more wait",
    ] = 1024
    max_uploads_per_address: Annotated[
        int, Meta(ge=1, le=1_000_000), "the same for one address"
    ] = 256
    max_uploads_size: Annotated[
        ByteSize, "bytes of bodies on their way; with more the largest is given up: 503"
    ] = 268_435_456
    max_uploads_size_per_address: Annotated[ByteSize, "the same for one address"] = 67_108_864
    max_unread_size: Annotated[
        ByteSize | None,
        "bytes of answers that their clients have not read yet; with more the one that is read "
        "for longest is given up; null: 256 MiB, and at most a third of what the memory limit of "
        "the process leaves",
    ] = None
    websocket_compression: Annotated[
        bool, "whether WebSocket messages are compressed for clients that offer it"
    ] = True
    max_answer_bytes: Annotated[
        ByteSize | None,
        "memory of a worker process for the large answers that it builds at the same time; more "
        "wait, then 503; null: a third of what the memory limit of the process leaves, at most 1 "
        "GiB",
    ] = None
    shutdown_delay_ms: Annotated[
        int,
        Meta(ge=0, le=600_000),
        "time for which a server that is asked to stop still takes requests, while `/health/db` "
        "is 503: a proxy that asks there sends them elsewhere meanwhile",
    ] = 0
    shutdown_timeout_ms: Annotated[
        Milliseconds, "time that accepted requests have to finish on shutdown"
    ] = 10_000

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Check that the limit of one is not above the limit of all."""
        yield from view.compare(self, "max-header-size", "max-headers-size")
        yield from view.compare(self, "max-connections-per-address", "max-connections")

    def give_advice(self, view: View) -> Iterator[Problem]:
        """Advise when few connections leave even fewer for requests, or many requests share few."""
        for_probes = count_probe_connections(self.max_connections)
        if for_probes < _PROBE_CONNECTIONS:
            yield view.blame(
                "/connection-options/max-connections",
                f"{for_probes} of {self.max_connections} connections answer health checks only",
                f"raise it to {2 * _PROBE_CONNECTIONS} or more",
            )
        core, mclient = view.get(Core), view.get(MClient)
        if core is None or mclient is None:
            return
        requests = ceil(self.max_requests_in_flight / core.workers)
        if requests > _REQUESTS_PER_CONNECTION * mclient.max_pool_size:
            yield view.blame(
                "/connection-options/max-requests-in-flight",
                f"the {requests} requests of a worker process share {mclient.max_pool_size} "
                "connections to the database: most of them wait for one",
                "lower it, or raise /mclient/max-pool-size",
                "/mclient/max-pool-size",
                "/core/workers",
            )


def count_probe_connections(connections: int) -> int:
    """Return how many of the connections answer health checks only: at most half of them."""
    return min(_PROBE_CONNECTIONS, connections // 2)


class Batch(ServiceConfig, frozen=True):
    """Several requests for documents in one transaction."""

    section_name: ClassVar[str] = "batch"
    enabled: Annotated[bool, "whether the service is on"] = True
    uri: Annotated[Uri, "path of the service"] = "/_batch"
    secured: Annotated[
        bool, "whether batches have to pass an authorizer; each of their entries has to in any case"
    ] = True
    time_limit: Annotated[
        int, Meta(ge=1, le=60_000), "time limit of a batch, in ms; then nothing of it is written"
    ] = 30_000
