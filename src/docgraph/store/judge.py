"""What readers of some rows are told of a change, from the document as it was before and after it.

A change may bring a document into the rows of a reader, or take it out of them; the reader is then
told of an insertion, or of a deletion. A change stream alone cannot say so: a filter leaves out, it
does not mark. So the stream brings both images of a document, and one more command has the database
say which of them the row filter admits, make the event that is told, and run over it the stages of
the stream's author, who sees nothing else.
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
from docgraph.store.guard.events import AFTER, BEFORE, OF_COLLECTIONS, admit_either

__all__ = ["Judge", "shorten_large"]

Stages = Sequence[Mapping[str, Any]]

_LONGEST_MS: Final = 30_000
_LOCAL: Final = Consistency(concern="local")
_LARGEST: Final = 15 << 20  # of the images of an event; the database sends no more than 16 MiB
_UPDATE: Final = "updateDescription"
# Of which image an event of each kind tells; those of other kinds tell of no document.
_IMAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "insert": (AFTER,),
    "update": (BEFORE, AFTER),
    "replace": (BEFORE, AFTER),
    "delete": (BEFORE,),
}


def shorten_large() -> Document:
    """The stage for events with parts that are too large together: they would end the stream.

    The image from before stays away then, and with it what leads from one to the other.
    """
    parts = (AFTER, BEFORE, _UPDATE)
    sizes = [{"$ifNull": [{"$bsonSize": f"${part}"}, 0]} for part in parts]
    is_update = {"$in": ["$operationType", ["update", "replace"]]}
    is_large = {"$and": [is_update, {"$gt": [{"$add": sizes}, _LARGEST]}]}
    kept = {part: {"$cond": [is_large, "$$REMOVE", f"${part}"]} for part in (BEFORE, _UPDATE)}
    return {"$set": kept}


class Judge:
    """Turns events with images into what is told of them; `stages` are run over the result."""

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
        """The stages of the stream itself: events with an image that the row filter admits.

        A stream compares texts by their bytes. Where the collection does not, all events come.
        """
        self._collation = collation
        return [shorten_large()] if collation else [shorten_large(), self._front]

    async def tell(self, event: RawBSONDocument) -> Document | None:
        """What is told of the event, or None when that is nothing."""
        opening = self._judge(event)
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

    def _judge(self, event: RawBSONDocument) -> list[Document]:
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
    """The image with the name of its side; one that is missing counts as not visible."""
    image = event.get(part)
    return {"side": part, "image": image} if isinstance(image, Mapping) else None


def _choose_told(plain: Document, kind: str, update: Any) -> Document:
    """The event as it is told, by the sides that the row filter admits: at least one."""
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
    """A stage that gives these, whatever they hold: a text may look like an expression."""
    return {"$documents": {"$literal": documents}}
