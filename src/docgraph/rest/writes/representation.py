"""`Prefer: return=representation`: the answer to a write shows the document as it is now.

It shows what a plain GET of the document would show to the same caller. Who may write and not read
gets an empty body: a permission to write is none to read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from docgraph.exchange import Document, Read, Resource, ResourceType
from docgraph.exchange.path import encode_path
from docgraph.rest.call import Call
from docgraph.rest.links import document_path

__all__ = ["APPLIED", "find_representation", "rehearse_representation"]

APPLIED: Final = ("Preference-Applied", "return=representation")


async def rehearse_representation(call: Call, id: Any) -> None:
    """Refuse `keys` that the caller may not ask for before the write, not after it."""
    keys = call.parameters.keys
    if keys is None or not _is_wanted(call):
        return
    if (seen := await _imagine_get(call, id)) is not None:
        await seen.rehearse_read(Read(projection=keys, limit=1))


async def find_representation(call: Call, id: Any) -> Document | None:
    """The document as the caller may see it; None where they may not, or did not ask for it."""
    if not _is_wanted(call) or (seen := await _imagine_get(call, id)) is None:
        return None
    found = await seen.read(Read(filter={"_id": id}, projection=call.parameters.keys, limit=1))
    return found[0] if found else None


async def _imagine_get(call: Call, id: Any) -> Call | None:
    """The same call under the permission of a GET of that document; None: there is none."""
    segments = call.request.segments
    if call.resource.type is ResourceType.DOCUMENT:
        segments = segments[:-1]
    # Ids that no path leads to are found in the list.
    path = document_path(segments, id) or encode_path(segments)
    service, decision = await call.context.foresight.decide_get(call.exchange, path)
    if decision is None or service != call.exchange.service:
        return None
    return replace(
        call,
        exchange=replace(call.exchange, permission=decision.permission),
        resource=Resource(ResourceType.DOCUMENT, call.db, call.collection, id),
    )


def _is_wanted(call: Call) -> bool:
    preferences = ",".join(call.request.headers.get_list("prefer")).lower()
    return any(
        one.replace(" ", "").replace('"', "") == "return=representation"
        for part in preferences.split(",")
        for one in part.split(";")[:1]
    )
