"""Section of the console: `console`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from docgraph.config.section import ServiceConfig, Uri


class Console(ServiceConfig, frozen=True):
    """The page in which people see, ask and change what they may."""

    section_name: ClassVar[str] = "console"
    enabled: Annotated[bool, "whether the service is on"] = True
    uri: Annotated[Uri, "path of the page"] = "/console"
    secured: Annotated[
        bool, "whether the page itself, which holds no data, has to pass an authorizer"
    ] = False
