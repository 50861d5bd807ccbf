"""Sections of the description: `openapi` for programs, `openapiPage` for people."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from docgraph.config.section import ServiceConfig, Uri


class OpenApi(ServiceConfig, frozen=True):
    """Describes what is served, in OpenAPI 3.1."""

    section_name: ClassVar[str] = "openapi"
    enabled: Annotated[bool, "whether the service is on"] = True
    uri: Annotated[Uri, "path of the service"] = "/openapi.json"
    secured: Annotated[bool, "whether requests have to pass an authorizer"] = True
    max_collections: Annotated[
        int, Meta(ge=0, le=10_000), "most collections that are described one by one"
    ] = 100


class OpenApiPage(ServiceConfig, frozen=True):
    """The description of `openapi` as a page for people."""

    section_name: ClassVar[str] = "openapiPage"
    enabled: Annotated[bool, "whether the service is on"] = True
    uri: Annotated[Uri, "path of the page"] = "/openapi"
    secured: Annotated[bool, "whether requests have to pass an authorizer"] = True
