"""Configuration section of the service for the caller's own roles: `roles`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from docgraph.config.section import ServiceConfig, Uri


class Roles(ServiceConfig, frozen=True):
    """Tells callers their roles, at `<uri>/<userid>`."""

    section_name: ClassVar[str] = "roles"
    enabled: Annotated[bool, Meta(description="whether the service is on")] = True
    uri: Annotated[Uri, Meta(description="base path of the service")] = "/roles"
