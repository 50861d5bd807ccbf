"""MCP resources: the description and the schema of each app, at our own URIs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from docgraph.exchange.errors import DocgraphError, NotFound
from docgraph.graphql.http.app_access import AppAccess
from docgraph.graphql.schema_description import render_schema
from docgraph.mcp.rpc import McpCall
from docgraph.mcp.schema_tools import describe_app, require_introspection
from docgraph.mcp.sections import Mcp

_BASE: Final = "docgraph://apps/"
_SCHEMA: Final = "schema"
_DESCRIPTION: Final = "description"
_PER_PAGE: Final = 100  # apps
_LONGEST_TEXT: Final = 16_384


@dataclass(frozen=True, slots=True)
class McpResource:
    """A resource without its content."""

    uri: str
    name: str
    description: str
    media_type: str = "text/plain"


class Resources:
    """The resources of callers, by URI."""

    templates: Final = (
        McpResource(f"{_BASE}{{app}}/{_SCHEMA}", "schema of an app", "The schema of an app as SDL"),
        McpResource(f"{_BASE}{{app}}/{_DESCRIPTION}", "about an app", "What an app is about"),
    )

    def __init__(self, access: AppAccess, settings: Mcp) -> None:
        self._access = access
        self._settings = settings

    async def list_page(
        self, call: McpCall, cursor: str | None
    ) -> tuple[Sequence[McpResource], str | None]:
        """Return a page of resources, and the cursor of the next page."""
        page: list[McpResource] = []
        count, last = 0, ""
        has_schemas = self._access.graphql.may_introspect(call.exchange.account)
        async for entry in self._access.find_apps(call.exchange, after=cursor or ""):
            if count == _PER_PAGE:
                return page, last
            count, last = count + 1, entry.uri
            address, text = _BASE + quote(entry.uri, safe=""), describe_app(entry)["description"]
            page.append(McpResource(f"{address}/{_DESCRIPTION}", f"about {entry.uri}", text))
            if has_schemas:
                page.append(McpResource(f"{address}/{_SCHEMA}", f"schema of {entry.uri}", "as SDL"))
        return page, None

    async def read(self, call: McpCall, uri: str) -> str:
        """Return the content; raise `NotFound` if it does not exist for the caller."""
        name, _, kind = uri.removeprefix(_BASE).rpartition("/")
        if not uri.startswith(_BASE) or kind not in (_SCHEMA, _DESCRIPTION):
            raise NotFound("resource not found")
        try:
            session = await self._access.admit(call.exchange, unquote(name, errors="strict"))
            if kind == _DESCRIPTION:
                return session.app.definition.description[:_LONGEST_TEXT]
            await require_introspection(self._access, session)
        except (DocgraphError, UnicodeDecodeError) as error:
            if isinstance(error, DocgraphError) and error.status >= 500:  # noqa: PLR2004
                raise
            raise NotFound("resource not found") from None
        limit = self._settings.max_result_bytes
        schema = (await self._access.view(session)).schema
        return await self._access.graphql.work_aside(render_schema, schema, limit)
