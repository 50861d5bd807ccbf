"""`Prefer: return=representation`: the response to a write has the written document.

It has what a plain GET of the document would return to the same caller. A caller who may write but
not read gets an empty body: a permission to write does not include reading.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from docgraph.exchange import Document, Read, Resource, ResourceType
from docgraph.exchange.path import encode_path
from docgraph.rest.call import RestCall
from docgraph.rest.links import document_path

APPLIED: Final = ("Preference-Applied", "return=representation")


async def rehearse_representation(call: RestCall, id: Any) -> None:
    """Reject forbidden `keys` before the write, not after it."""
    keys = call.parameters.keys
    if keys is None or not _is_wanted(call):
        return
    if (seen := await _check_get(call, id)) is not None:
        await seen.rehearse_read(Read(projection=keys, limit=1))


async def find_representation(call: RestCall, id: Any) -> Document | None:
    """Return the document that the caller can see; None without permission or without request."""
    if not _is_wanted(call) or (seen := await _check_get(call, id)) is None:
        return None
    found = await seen.read(Read(filter={"_id": id}, projection=call.parameters.keys, limit=1))
    return found[0] if found else None


async def _check_get(call: RestCall, id: Any) -> RestCall | None:
    """Return the call under the permission of a GET of that document; None: it is denied."""
    segments = call.request.segments
    if call.resource.type is ResourceType.DOCUMENT:
        segments = segments[:-1]
    # Documents whose ids have no path are found in the list.
    path = document_path(segments, id) or encode_path(segments)
    service, decision = await call.context.dry_run.decide_get(call.exchange, path)
    if decision is None or service != call.exchange.service:
        return None
    return replace(
        call,
        exchange=replace(call.exchange, permission=decision.permission),
        resource=Resource(ResourceType.DOCUMENT, call.db, call.collection, id),
    )


def _is_wanted(call: RestCall) -> bool:
    preferences = ",".join(call.request.headers.get_list("prefer")).lower()
    return any(
        one.replace(" ", "").replace('"', "") == "return=representation"
        for part in preferences.split(",")
        for one in part.split(";")[:1]
    )
