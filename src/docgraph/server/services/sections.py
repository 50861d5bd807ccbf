"""Configuration sections of `ping`, `database-probe`, `metrics`, `visibleApps`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from docgraph.config.section import ServiceConfig, Uri

_Enabled = Annotated[bool, "whether the service is on"]
_Path = Annotated[Uri, "path of the service"]
_Secured = Annotated[bool, "whether requests have to pass an authorizer"]


class Ping(ServiceConfig, frozen=True):
    """Says that the instance is there."""

    section_name: ClassVar[str] = "ping"
    enabled: _Enabled = True
    uri: _Path = "/ping"
    secured: _Secured = False
    msg: Annotated[str, "the greeting"] = "docgraph is here"
    enable_extended_response: Annotated[
        bool, "also tell the caller's address, the host and the version"
    ] = True


class DatabaseProbe(ServiceConfig, frozen=True):
    """Says whether the database answers."""

    section_name: ClassVar[str] = "database-probe"
    enabled: _Enabled = True
    uri: _Path = "/health/db"
    secured: _Secured = False
    timeout_ms: Annotated[int, Meta(ge=1, le=60_000), "longest wait for the database"] = 2000
    dbname: Annotated[
        str,
        Meta(pattern=r"^[^/\\. \"$*<>:|?\0]{1,63}\Z", extra={"form": "the name of a database"}),
        "database that is asked",
    ] = "admin"


class Metrics(ServiceConfig, frozen=True):
    """Numbers about the instance for Prometheus."""

    section_name: ClassVar[str] = "metrics"
    enabled: _Enabled = True
    uri: _Path = "/metrics"
    secured: _Secured = True


class VisibleApps(ServiceConfig, frozen=True):
    """Names the GraphQL apps that the caller may ask."""

    section_name: ClassVar[str] = "visibleApps"
    enabled: _Enabled = True
    uri: _Path = "/_tools/apps"
    secured: _Secured = False


class OwnRights(ServiceConfig, frozen=True):
    """Lists the methods that the caller may use at given paths."""

    section_name: ClassVar[str] = "ownRights"
    enabled: _Enabled = True
    uri: _Path = "/_tools/rights"
    secured: _Secured = False
