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
_PER_PAGE: Final = 100  # apps
_LONGEST_TEXT: Final = 16_384


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
        found: list[Resource] = []
        count, last = 0, ""
        has_schemas = self._desk.graphql.may_introspect(call.exchange.account)
        async for entry in self._desk.find_apps(call, after=cursor or ""):
            if count == _PER_PAGE:
                return found, last
            count, last = count + 1, entry.uri
            address, text = _BASE + quote(entry.uri, safe=""), describe_app(entry)["description"]
            found.append(Resource(f"{address}/{_DESCRIPTION}", f"about {entry.uri}", text))
            if has_schemas:
                found.append(Resource(f"{address}/{_SCHEMA}", f"schema of {entry.uri}", "as SDL"))
        return found, None

    async def read(self, call: Call, uri: str) -> str:
        """The content; raises `NotFound` for what is not there for the caller."""
        name, _, kind = uri.removeprefix(_BASE).rpartition("/")
        if not uri.startswith(_BASE) or kind not in (_SCHEMA, _DESCRIPTION):
            raise NotFound("resource not found")
        try:
            admission = await self._desk.admit(call, unquote(name, errors="strict"))
            if kind == _DESCRIPTION:
                return admission.app.definition.description[:_LONGEST_TEXT]
            await require_introspection(self._desk, admission)
        except (DocgraphError, UnicodeDecodeError) as error:
            if isinstance(error, DocgraphError) and error.status >= 500:  # noqa: PLR2004
                raise
            raise NotFound("resource not found") from None
        limit = self._desk.settings.max_result_bytes
        return await self._desk.graphql.work_aside(render_schema, admission.view.schema, limit)
