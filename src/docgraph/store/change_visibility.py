"""Event filter: which change events readers with a row filter can see, from pre- and post-images.

A change may move a document into the rows of a reader, or out of them. The reader then gets an
insertion or a deletion. A change stream alone cannot do that: a filter only removes events. So the
stream contains both images of a document. One more command lets the database decide which of them
the row filter admits, build the visible event, and run the stages of the stream's author on it. The
author's stages see nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import bson
from bson.raw_bson import RawBSONDocument

from docgraph.exchange.data import Consistency, Document
from docgraph.exchange.deadline import Deadline
from docgraph.store.driver.command import Commands
from docgraph.store.guard.below import match_below
from docgraph.store.guard.event_stages import AFTER, BEFORE, OF_COLLECTIONS, admit_either

__all__ = ["EventFilter", "shorten_large"]

Stages = Sequence[Mapping[str, Any]]

_LONGEST_MS: Final = 30_000
_LOCAL: Final = Consistency(concern="local")
_LARGEST: Final = 15 << 20  # bytes of the images of an event; the database sends 16 MiB at most
_UPDATE: Final = "updateDescription"
# The images that an event of each kind contains; other kinds contain no document.
_IMAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "insert": (AFTER,),
    "update": (BEFORE, AFTER),
    "replace": (BEFORE, AFTER),
    "delete": (BEFORE,),
}


def shorten_large() -> Document:
    """Return the stage that shortens events whose parts are too large: they would end the stream.

    It removes the pre-image, and with it the difference between the images.
    """
    parts = (AFTER, BEFORE, _UPDATE)
    sizes = [{"$ifNull": [{"$bsonSize": f"${part}"}, 0]} for part in parts]
    is_update = {"$in": ["$operationType", ["update", "replace"]]}
    is_large = {"$and": [is_update, {"$gt": [{"$add": sizes}, _LARGEST]}]}
    kept = {part: {"$cond": [is_large, "$$REMOVE", f"${part}"]} for part in (BEFORE, _UPDATE)}
    return {"$set": kept}


class EventFilter:
    """Turns events with images into visible events; `stages` run on the result."""

    def __init__(
        self,
        commands: Commands,
        db: str,
        row: Mapping[str, Any],
        stages: Stages,
        comment: Any = None,
    ) -> None:
        self._commands = commands
        self._db = db
        self._admitted = match_below(row, "image")
        self._front = admit_either(row)
        self._collation: Mapping[str, Any] | None = None
        self._stages = stages
        self._comment = comment

    def open(self, collation: Mapping[str, Any] | None) -> Stages:
        """Return the stages of the stream itself: events with an image that the row filter admits.

        A stream compares strings by their bytes. If the collection does not, the stream has all
        events.
        """
        self._collation = collation
        return [shorten_large()] if collation else [shorten_large(), self._front]

    async def filter(self, event: RawBSONDocument) -> Document | None:
        """Return the visible form of the event, or None if it is not visible."""
        opening = self._match_images(event)
        if not opening:
            return None
        command: Document = {"aggregate": 1, "pipeline": [*opening, *self._stages], "cursor": {}}
        if self._comment:
            command["comment"] = self._comment
        if self._collation:
            command["collation"] = self._collation
        deadline = Deadline.after_ms(_LONGEST_MS)
        told = await self._commands.fetch(self._db, command, deadline, _LOCAL)
        return {**told[0], "_id": bson.decode(event["_id"].raw)} if told else None

    def _match_images(self, event: RawBSONDocument) -> list[Document]:
        kind = event["operationType"]
        plain = {key: value for key, value in event.items() if key not in (AFTER, BEFORE, _UPDATE)}
        parts = _IMAGES.get(kind)
        if parts is None:
            return [_documents([plain])] if kind in OF_COLLECTIONS else []
        images = [_read_image(event, part) for part in parts]
        present = [image for image in images if image is not None]
        if not present:
            return []
        after = {"$max": {"$cond": [{"$eq": ["$side", AFTER]}, "$image", None]}}
        return [
            _documents(present),
            {"$match": self._admitted},
            {"$group": {"_id": None, "sides": {"$push": "$side"}, "after": after}},
            {"$replaceWith": _choose_told(plain, kind, event.get(_UPDATE))},
        ]


def _read_image(event: RawBSONDocument, part: str) -> Document | None:
    """Return the image with the name of its side; a missing image counts as not visible."""
    image = event.get(part)
    return {"side": part, "image": image} if isinstance(image, Mapping) else None


def _choose_told(plain: Document, kind: str, update: Any) -> Document:
    """Return the visible event, by the sides that the row filter admits: at least one."""
    told: Document = {"fullDocument": "$after"}
    changed = {**told, "updateDescription": {"$literal": update}} if update is not None else told
    both = {"$and": [{"$in": [BEFORE, "$sides"]}, {"$in": [AFTER, "$sides"]}]}
    branches = [
        {"case": both, "then": _build(plain, kind, changed)},
        {"case": {"$in": [AFTER, "$sides"]}, "then": _build(plain, "insert", told)},
    ]
    return {"$switch": {"branches": branches, "default": _build(plain, "delete", {})}}


def _build(plain: Document, kind: str, content: Document) -> Document:
    return {"$mergeObjects": [{"$literal": {**plain, "operationType": kind}}, content]}


def _documents(documents: list[Document]) -> Document:
    """Return a stage that produces these documents; their strings are never expressions."""
    return {"$documents": {"$literal": documents}}
