"""Section of the authoring tools: `tools`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from docgraph.config.section import ByteSize, Milliseconds, ServiceConfig, Uri


class Tools(ServiceConfig, frozen=True):
    """Checks, tries, explains, infers, advises on apps; stores nothing. Goes off with `graphql`."""

    section_name: ClassVar[str] = "tools"
    enabled: Annotated[bool, "whether the service is on"] = True
    uri: Annotated[Uri, "path above the tools"] = "/_tools"
    secured: Annotated[bool, "whether requests have to pass an authorizer"] = True
    max_body_size: Annotated[ByteSize, "largest request body; more is 413"] = 2_097_152
    query_time_limit: Annotated[
        Milliseconds,
        "time limit of a tool, in ms, also where `graphql.query-time-limit` is higher or off; 0 "
        "means that one",
    ] = 30_000
