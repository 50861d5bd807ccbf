"""Configuration section of the batch service: `batch`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from docgraph.config.section import ServiceConfig, Uri


class Batch(ServiceConfig, frozen=True):
    """Several requests for documents in one transaction."""

    section_name: ClassVar[str] = "batch"
    enabled: Annotated[bool, Meta(description="whether the service is on")] = True
    uri: Annotated[Uri, Meta(description="path of the service")] = "/_batch"
    secured: Annotated[
        bool,
        Meta(
            description="whether batches have to pass an authorizer; each of their entries has to "
            "in any case"
        ),
    ] = True
    time_limit: Annotated[
        int,
        Meta(
            description="time limit of a batch, in ms; then nothing of it is written",
            ge=1,
            le=60_000,
        ),
    ] = 30_000
