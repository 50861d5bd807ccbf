"""Configuration sections of the instance, `core`, and of cross-origin requests, `cors`."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Annotated, ClassVar, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from docgraph.config.section import (
    FilePath,
    HeaderName,
    Host,
    Milliseconds,
    PluginsDirectory,
    Port,
    Section,
    View,
)
from docgraph.exchange.errors import Problem

AllowedOrigin = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9+.-]*://[^/\s?#]+\Z",
        extra={"form": "an origin such as 'https://example.org', without a path or final slash"},
    ),
]
_HOST: Final = r"([0-9A-Za-z_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_HOST_FORM: Final = "a host such as 'api.example.org' or 'api.example.org:8443'"
AllowedHost = Annotated[str, Meta(pattern=rf"^{_HOST}\Z", extra={"form": _HOST_FORM})]
ANY_HOST: Final = "*"


class ProbeListener(Section, frozen=True):
    """A listener for health checks, answered by the parent process: no worker delays it."""

    host: Annotated[Host, "address to listen on; `0.0.0.0` for all"] = "127.0.0.1"
    port: Annotated[
        Port | None, "port to listen on; 0 takes a free one; null: there is no such listener"
    ] = None
    metrics: Annotated[bool, "also answer `/metrics` there, to callers without credentials"] = False

    @property
    def is_on(self) -> bool:
        return self.port is not None


class Core(Section, frozen=True):
    """The instance: its processes, its directories, its proxies."""

    section_name: ClassVar[str] = "core"
    name: Annotated[
        str,
        Meta(pattern=r"^[^\x00-\x1f\x7f]{1,64}\Z", extra={"form": "1 to 64 printable characters"}),
        "name of this instance, in logs and greetings",
    ] = "docgraph"
    workers: Annotated[int, Meta(ge=1, le=256), "worker processes"] = 1
    data_directory: Annotated[FilePath, "where the embedded MongoDB keeps its data"] = "./data"
    embedded_port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | None,
        "port of the embedded MongoDB on 127.0.0.1, also for existing data; without one, that of "
        "the first start, which is random",
    ] = None
    plugins_directory: Annotated[
        PluginsDirectory, "where plugins are looked for; relative to the configuration file"
    ] = "plugins"
    trusted_proxies: Annotated[
        tuple[str, ...],
        "addresses or networks of proxies whose `X-Forwarded-*` headers are believed; `unix` for "
        "those at `http-listener.socket`",
    ] = ()
    allowed_hosts: Annotated[
        tuple[
            Annotated[
                str,
                Meta(pattern=rf"^({_HOST}|\*)\Z", extra={"form": f"{_HOST_FORM}, or '*' for all"}),
            ],
            ...,
        ],
        "`Host` values accepted in addition to loopback and that of `base-url`; one without a "
        "port matches every port, `*` every host. Not set: listeners on loopback accept no "
        "others, other listeners accept any",
    ] = ()
    tracing_headers: Annotated[
        tuple[HeaderName, ...],
        "request headers that are sent back and logged; the first one present is the request id",
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
        "public address of this instance, used in `Location` and documents",
    ] = None
    wait_timeout_ms: Annotated[
        Milliseconds,
        "longest time that a request waits: for its turn, for users and rules, for a server of "
        "the database and a connection to it; 0 means no limit",
    ] = 15_000
    workers_scheduler_parallelism: Annotated[
        int,
        Meta(ge=-1024, le=1024),
        "threads of a worker process for computing of docgraph itself, not for services of "
        "plugins that block; 0 or less means 1.5 times the core count",
    ] = 0
    workers_scheduler_max_pool_size: Annotated[
        int,
        Meta(ge=1, le=4096),
        "most threads of a worker process for services of plugins that block, and the same for "
        "other methods of plugins",
    ] = 256
    force_gzip_encoding: Annotated[
        bool, "refuse requests whose client does not accept compression"
    ] = False

    probe_listener: Annotated[
        ProbeListener, "a separate listener for `/ping` and `/health/db`; on when it has a port"
    ] = msgspec.field(default_factory=ProbeListener)

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Reject proxies given as names: a name could resolve to an address of another party.

        Reject a base URL with a path, too, while the console is on, whose links begin at the root.
        """
        console = view.sections.get("console")
        if urlsplit(self.base_url or "").path.strip("/") and getattr(console, "enabled", False):
            yield view.blame(
                "/core/base-url",
                "the console does not work below a path",
                "give docgraph a host name of its own, or set /console/enabled to false",
            )
        for number, proxy in enumerate(self.trusted_proxies, 1):
            try:
                if proxy != "unix":
                    ip_network(proxy, strict=False)
            except ValueError:
                yield view.blame(
                    f"/core/trusted-proxies[{number}]",
                    f"'{proxy}' is not an address or network"
                    if proxy.isprintable()
                    else "no address",
                    "write it like '10.0.0.1' or '10.0.0.0/8'",
                )

    def give_advice(self, view: View) -> Iterator[Problem]:
        """Advise when options of a probe listener have no effect."""
        probes = self.probe_listener
        if not probes.is_on and probes != ProbeListener():
            yield view.blame(
                "/core/probe-listener/host",
                "the probe listener has no port, and is off",
                "set /core/probe-listener/port",
                "/core/probe-listener/metrics",
            )


class Cors(Section, frozen=True):
    """Which pages of other origins may call this instance."""

    section_name: ClassVar[str] = "cors"
    allow_origins: Annotated[
        tuple[AllowedOrigin, ...],
        "origins that may send credentials; with none, every origin may call without credentials",
    ] = ()
