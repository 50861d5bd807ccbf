"""Tool `history`: the versions of an app, one of them, and the difference between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from docgraph.authoring.requests import ToolArguments
from docgraph.authoring.responses import ToolResponses
from docgraph.codec import JsonMode, to_json
from docgraph.exchange import Document, Exchange
from docgraph.exchange.errors import BodyError, Forbidden, NotFound
from docgraph.graphql.apps.history import History, Version
from docgraph.graphql.apps.stored_definitions import build_key
from docgraph.graphql.apps.version_changes import describe_versions
from docgraph.graphql.definition.definition_diff import find_change
from docgraph.graphql.sections import Graphql
from docgraph.runtime import run_blocking


@dataclass(frozen=True, slots=True)
class AppVersions:
    """Reads versions for the root role: what was once in a definition stays in its versions."""

    answers: ToolResponses
    settings: Graphql

    async def history(self, exchange: Exchange, wanted: ToolArguments) -> dict[str, Any]:
        """Return all versions of an app, or one of them and its difference `since` another."""
        sessions, lane, mode = self.answers.sessions, self.answers.lane, self.settings.json_mode
        if not sessions.is_root(exchange):
            raise Forbidden("only the root role may read the versions of an app")
        if wanted.app is None:
            raise BodyError("'app' is missing", hint="give the `_id` of an app")
        versions = await History(sessions.store, self.settings).list_of(build_key(wanted.app))
        if wanted.version is None:
            return {"versions": await run_blocking(lane, describe_versions, versions, mode)}
        definition = _choose(versions, wanted.version)
        content = {"definition": to_json(definition, JsonMode.STANDARD)}
        if wanted.since is None:
            return content
        former = _choose(versions, wanted.since)
        labels = (f" (version {wanted.since})", f" (version {wanted.version})")
        change = await run_blocking(lane, find_change, former, definition, mode, labels)
        return content | await self.answers.render_change(change)


def _choose(versions: Sequence[Version], number: int) -> Document:
    """Return the definition of a version."""
    chosen = next((version for version in versions if version.number == number), None)
    if chosen is None or chosen.definition is None:
        raise NotFound(f"version {number} has no definition, or is not kept")
    return chosen.definition
