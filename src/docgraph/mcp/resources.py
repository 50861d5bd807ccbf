"""Resources: the description and the schema of each app, at addresses of our own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from docgraph.exchange.errors import DocgraphError, NotFound
from docgraph.graphql.describe.sdl import render_schema
from docgraph.mcp.call import Call
from docgraph.mcp.desk import Desk
from docgraph.mcp.tools.schemas import describe_app, require_introspection

__all__ = ["Resource", "Resources"]

_BASE: Final = "docgraph://apps/"
_SCHEMA: Final = "schema"
_DESCRIPTION: Final = "description"
_PER_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Resource:
    """Something to read, without its content."""

    uri: str
    name: str
    description: str
    media_type: str = "text/plain"


class Resources:
    """What callers may read, by address."""

    templates: Final = (
        Resource(f"{_BASE}{{app}}/{_SCHEMA}", "schema of an app", "The schema of an app as SDL"),
        Resource(f"{_BASE}{{app}}/{_DESCRIPTION}", "about an app", "What an app is about"),
    )

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list_page(
        self, call: Call, cursor: str | None
    ) -> tuple[Sequence[Resource], str | None]:
        """A page of them, and the cursor of the next page."""
        apps = [one for one in await self._desk.list_apps(call) if one.uri > (cursor or "")]
        page = apps[:_PER_PAGE]
        found: list[Resource] = []
        for entry in page:
            address, text = _BASE + quote(entry.uri, safe=""), describe_app(entry)["description"]
            found.append(Resource(f"{address}/{_DESCRIPTION}", f"about {entry.uri}", text))
            found.append(Resource(f"{address}/{_SCHEMA}", f"schema of {entry.uri}", "as SDL"))
        return found, page[-1].uri if len(apps) > len(page) else None

    async def read(self, call: Call, uri: str) -> str:
        """The content; raises `NotFound` for what is not there for the caller."""
        name, _, kind = uri.removeprefix(_BASE).rpartition("/")
        if not uri.startswith(_BASE) or kind not in (_SCHEMA, _DESCRIPTION):
            raise NotFound("resource not found")
        try:
            admission = await self._desk.admit(call, unquote(name, errors="strict"))
            if kind == _DESCRIPTION:
                return admission.app.definition.description
            await require_introspection(self._desk, admission)
        except (DocgraphError, UnicodeDecodeError) as error:
            if isinstance(error, DocgraphError) and error.status >= 500:  # noqa: PLR2004
                raise
            raise NotFound("resource not found") from None
        return render_schema(admission.view.schema, self._desk.settings.max_result_bytes)
