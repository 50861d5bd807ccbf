"""Configuration sections of authentication as a whole, and of the brute force protection."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from docgraph.config.section import PluginConfig, Section, ServiceConfig, Uri


class AuthenticationOptions(Section, frozen=True):
    """What credentials mean, whatever mechanism reads them."""

    section_name: ClassVar[str] = "authentication"
    anonymous_fallback: Annotated[
        bool,
        "credentials that no mechanism accepts count as none for reads of the REST API and for "
        "GraphQL, instead of 401; for moved installations",
    ] = False


class Roles(ServiceConfig, frozen=True):
    """Tells callers their roles, at `<uri>/<userid>`."""

    section_name: ClassVar[str] = "roles"
    enabled: Annotated[bool, "whether the service is on"] = True
    uri: Annotated[Uri, "base path of the service"] = "/roles"


class BruteForceAttackGuard(PluginConfig, frozen=True):
    """Answers 429 to those who try passwords."""

    section_name: ClassVar[str] = "bruteForceAttackGuard"
    enabled: Annotated[bool, "whether the guard is on"] = True
    max_failed_attempts: Annotated[
        int, Meta(ge=1, le=100_000), "failures of one address with one user in the window"
    ] = 10
    max_failed_attempts_per_address: Annotated[
        int, Meta(ge=1, le=1_000_000), "failures of one address in the window"
    ] = 100
    max_failed_attempts_long_window: Annotated[
        int, Meta(ge=1, le=1_000_000), "failures of one address with one user in the long window"
    ] = 100
    window_ms: Annotated[int, Meta(ge=1000, le=86_400_000), "length of the window"] = 10_000
    long_window_ms: Annotated[int, Meta(ge=1000, le=86_400_000), "length of the long window"] = (
        3_600_000
    )
