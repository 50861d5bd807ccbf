"""docgraph as an ASGI application, for servers such as uvicorn, and mounted in other applications.

    application = docgraph.asgi.create_app("docgraph.yml")

The pipeline is that of our own server: `Exchanges` makes the exchange of a request and its answer,
`AsgiConnection` takes the place of a connection. Processes, sockets, TLS and connection limits are
the server's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docgraph.asgi.application import AsgiApplication

__all__ = ["AsgiApplication", "create_app"]


def create_app(
    config: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    instance: str | Path | None = None,
) -> AsgiApplication:
    """Return an ASGI 3 application; it reads its configuration when its lifespan begins.

    `config` is the configuration file; without one, it is found as by `docgraph serve`. `overrides`
    are sections with options (`{"core": {"name": "shop"}}`) or paths (`{"/core/name": "shop"}`).
    Processes that name the same `instance` directory share secrets and counters.
    """
    directory = None if instance is None else Path(instance)
    return AsgiApplication(None if config is None else Path(config), overrides or {}, directory)
