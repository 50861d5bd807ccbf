"""Configuration sections of authentication as a whole, and of the service `roles`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from docgraph.config.section import Section, ServiceConfig, Uri


class AuthenticationOptions(Section, frozen=True):
    """What credentials mean, whatever mechanism reads them."""

    section_name: ClassVar[str] = "authentication"
    anonymous_fallback: Annotated[
        bool,
        Meta(
            description="credentials that no mechanism accepts count as none for reads of the "
            "REST API and for GraphQL, instead of 401; for moved installations"
        ),
    ] = False


class Roles(ServiceConfig, frozen=True):
    """Tells callers their roles, at `<uri>/<userid>`."""

    section_name: ClassVar[str] = "roles"
    enabled: Annotated[bool, Meta(description="whether the service is on")] = True
    uri: Annotated[Uri, Meta(description="base path of the service")] = "/roles"
