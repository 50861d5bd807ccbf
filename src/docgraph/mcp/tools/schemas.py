"""`list_apps`, `get_schema`, `search_schema`: what there is, in portions that an agent can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from docgraph.exchange.errors import BodyError
from docgraph.graphql.apps.stored_definitions import Entry
from docgraph.graphql.describe.sdl import render_schema, render_types
from docgraph.graphql.describe.search import search_schema, split_words
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.mcp.call import Call
from docgraph.mcp.desk import Admission, Desk
from docgraph.mcp.tools.tool import Outcome, Tool, as_json, object_schema, text_of

__all__ = ["SchemaTools", "describe_app", "require_introspection"]

_APP: Final = text_of("the app, as list_apps names it")
_APPS_PER_PAGE: Final = 100
_MOST_APPS_SEARCHED: Final = 20
_MOST_HITS: Final = 25
_LONGEST_TEXT: Final = 200
_LONGEST_SIGNATURE: Final = 500
_RESERVED: Final = 1_024  # bytes of a page for what is not an app
_SCHEMA_BYTES: Final = 32_768
_INTROSPECTION: Final = GraphqlRequest("{ __schema { queryType { name } } }")


class SchemaTools:
    """The tools that tell what can be asked."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def list_tools(self) -> list[Tool]:
        """These tools."""
        return [
            Tool(
                "list_apps",
                "List the apps",
                "The GraphQL apps that you may query, with their descriptions. Begin here.",
                object_schema({"after": text_of("the `next` of the page before")}),
                self._list_apps,
            ),
            Tool(
                "get_schema",
                "Read a schema",
                "The schema of an app as SDL, or only some of its types. A schema that is too long "
                "comes as Query and the names of the other types.",
                object_schema(
                    {
                        "app": _APP,
                        "types": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "names of the types that you need",
                        },
                    },
                    "app",
                ),
                self._get_schema,
            ),
            Tool(
                "search_schema",
                "Search the schemas",
                "Fields and types whose names or descriptions have these words, the best first.",
                object_schema(
                    {"words": text_of("words to look for"), "app": text_of("only in this app")},
                    "words",
                ),
                self._search_schema,
            ),
        ]

    async def _list_apps(self, call: Call, arguments: Mapping[str, Any]) -> Outcome:
        page: list[dict[str, Any]] = []
        room = self._desk.settings.max_result_bytes
        async for entry in self._desk.find_apps(call, after=arguments.get("after") or ""):
            app = describe_app(entry)
            room -= len(orjson.dumps(app)) + 1
            if page and (room < _RESERVED or len(page) == _APPS_PER_PAGE):
                return as_json({"apps": page, "next": page[-1]["app"]})
            page.append(app)
        return as_json({"apps": page})

    async def _get_schema(self, call: Call, arguments: Mapping[str, Any]) -> Outcome:
        admission = await self._desk.admit(call, arguments["app"])
        await require_introspection(self._desk, admission)
        schema, limit = admission.view.schema, self.schema_limit
        types = arguments.get("types")
        aside = self._desk.graphql.work_aside
        if types:
            return Outcome(await aside(render_types, schema, types, limit))
        return Outcome(await aside(render_schema, schema, limit))

    @property
    def schema_limit(self) -> int:
        """Bytes of a schema that an agent is given at once."""
        return min(_SCHEMA_BYTES, self._desk.settings.max_result_bytes)

    async def _search_schema(self, call: Call, arguments: Mapping[str, Any]) -> Outcome:
        words = split_words(arguments["words"])
        if not words:
            raise BodyError("the argument 'words' has no word in it")
        if arguments.get("app") is not None:
            admissions = [await self._desk.admit(call, arguments["app"])]
            await require_introspection(self._desk, admissions[0])
        else:
            admissions = await self._admit_some(call)
        content = await self._desk.graphql.work_aside(_collect_hits, admissions, words)
        if len(admissions) == _MOST_APPS_SEARCHED:
            content["note"] = f"only the first {_MOST_APPS_SEARCHED} apps were searched: name one"
        return as_json(content)

    async def _admit_some(self, call: Call) -> list[Admission]:
        found: list[Admission] = []
        if not self._desk.graphql.may_introspect(call.exchange.account):
            return found
        async for entry in self._desk.find_apps(call):
            admission = await self._desk.try_admit(call, entry)
            if admission is not None:
                found.append(admission)
            if len(found) == _MOST_APPS_SEARCHED:
                break
        return found


def describe_app(entry: Entry) -> dict[str, Any]:
    """An app in a few words."""
    descriptor = entry.document.get("descriptor")
    text = descriptor.get("description") if isinstance(descriptor, dict) else None
    description = text if isinstance(text, str) else ""
    return {"app": entry.uri, "description": description[:_LONGEST_TEXT]}


async def require_introspection(desk: Desk, admission: Admission) -> None:
    """Raise what the endpoint of the app says to callers who may not read its schema."""
    await desk.graphql.plan(admission.app, _INTROSPECTION, admission.exchange)


def _collect_hits(admissions: Sequence[Admission], words: Sequence[str]) -> dict[str, Any]:
    hits = [
        (hit, admission.app.definition.uri)
        for admission in admissions
        for hit in search_schema(admission.view.schema, words)
    ]
    hits.sort(key=lambda one: -one[0].score)
    shown = [
        {
            "app": app,
            "is": hit.signature[:_LONGEST_SIGNATURE],
            "description": hit.description[:_LONGEST_TEXT],
        }
        for hit, app in hits[:_MOST_HITS]
    ]
    return {"hits": shown, "total": len(hits)}
