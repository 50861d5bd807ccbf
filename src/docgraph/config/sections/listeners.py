"""How the outside reaches the instance: listeners, their limits, and CORS.

The limits are those of a careful default: everything that a client can send is bounded in size,
number and time.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from docgraph.config.section import FilePath, Milliseconds, Port, Section, Size

__all__ = ["ConnectionOptions", "Cors", "HttpListener", "HttpsListener"]

Host = Annotated[
    str, Meta(pattern=r"^[^\s/]+\Z", extra={"form": "a host name or an address to listen on"})
]
Origin = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9+.-]*://[^/\s?#]+\Z",
        extra={"form": "an origin such as 'https://example.org', without a path or final slash"},
    ),
]


class HttpListener(Section, frozen=True):
    """The listener for plain HTTP."""

    enabled: Annotated[bool, Meta(description="whether the listener is on")] = True
    host: Annotated[Host, Meta(description="address to listen on; `0.0.0.0` for all")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="port to listen on; 0 takes a free one")] = 8080


class HttpsListener(Section, frozen=True):
    """The listener for HTTPS."""

    enabled: Annotated[bool, Meta(description="whether the listener is on")] = False
    host: Annotated[Host, Meta(description="address to listen on; `0.0.0.0` for all")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="port to listen on; 0 takes a free one")] = 4443
    certificate: Annotated[
        FilePath | None, Meta(description="PEM file with the certificate and its chain")
    ] = None
    # The path is no secret, though its name says `key`.
    key: Annotated[
        FilePath | None,
        Meta(description="PEM file with the private key", extra={"secret": False}),
    ] = None


class Cors(Section, frozen=True):
    """Which pages of other origins may call this instance."""

    allow_origins: Annotated[
        tuple[Origin, ...],
        Meta(
            description="origins that may send credentials; with none, every origin may call "
            "without credentials"
        ),
    ] = ()


class ConnectionOptions(Section, frozen=True):
    """Limits on what clients send, how long they take, and how many they are."""

    max_header_size: Annotated[
        Size, Meta(description="longest header line; more is answered with 431")
    ] = 8192
    max_headers_size: Annotated[
        Size, Meta(description="size of all headers together; more is answered with 431")
    ] = 32_768
    max_headers: Annotated[
        int, Meta(description="number of headers; more is answered with 431", ge=1, le=10_000)
    ] = 100
    max_url_size: Annotated[Size, Meta(description="longest URL; more is answered with 414")] = 8192
    max_parameters: Annotated[
        int,
        Meta(description="number of query parameters; more is answered with 400", ge=1, le=10_000),
    ] = 200
    max_body_size: Annotated[
        Size,
        Meta(
            description="largest request body, whatever a service allows; more is answered with 413"
        ),
    ] = 16_777_216
    header_timeout_ms: Annotated[
        Milliseconds, Meta(description="time to send all headers; 408; 0 means no limit")
    ] = 10_000
    body_timeout_ms: Annotated[
        Milliseconds, Meta(description="time to send the whole body; 408; 0 means no limit")
    ] = 30_000
    min_body_rate: Annotated[
        int,
        Meta(
            description="slowest body accepted, in bytes per second; 408; 0 means no limit",
            ge=0,
            le=1 << 30,
        ),
    ] = 1024
    keep_alive_timeout_ms: Annotated[
        Milliseconds, Meta(description="time an idle connection is kept open")
    ] = 30_000
    write_timeout_ms: Annotated[
        Milliseconds, Meta(description="time a client may stop reading its answer")
    ] = 20_000
    max_connections: Annotated[
        int, Meta(description="open connections of the instance", ge=1, le=1_000_000)
    ] = 2000
    max_requests_in_flight: Annotated[
        int,
        Meta(description="requests of the instance worked on at a time", ge=1, le=100_000),
    ] = 256
    queue: Annotated[
        int,
        Meta(
            description="requests of the instance that wait; more is answered with 503",
            ge=0,
            le=100_000,
        ),
    ] = 256
    max_uploads: Annotated[
        int,
        Meta(
            description="request bodies on their way; with one more the oldest is given up: 503",
            ge=1,
            le=1_000_000,
        ),
    ] = 1024
    max_uploads_per_address: Annotated[
        int, Meta(description="the same for one address", ge=1, le=1_000_000)
    ] = 256
    max_uploads_size: Annotated[
        Size,
        Meta(description="bytes of these bodies; with more the largest is given up: 503"),
    ] = 268_435_456
    max_uploads_size_per_address: Annotated[Size, Meta(description="the same for one address")] = (
        67_108_864
    )
    shutdown_timeout_ms: Annotated[
        Milliseconds, Meta(description="time that accepted requests have to finish on shutdown")
    ] = 10_000
