"""Visible events: which change events readers with a row filter can see, from their images.

A change may move a document into the rows of a reader, or out of them. The reader then gets an
insertion or a deletion. A change stream alone cannot do that: a filter only removes events. So the
stream contains both images of a document. `DocumentPipelines` lets the database decide which of
them many row filters admit, many images at a time, and runs the stages of the stream's author on
the visible events. The author's stages see nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

from docgraph.exchange.data import Consistency, Document, Filter, Stages
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import DocgraphError, Overloaded, StoreUnavailable
from docgraph.store.driver.command import Commands
from docgraph.store.driver.errors import StoreDenied, explain
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.exact import keep_names, to_bytes
from docgraph.store.guard.event_stages import AFTER, BEFORE, find_roots, move_below

Collation = Mapping[str, Any] | None
R = TypeVar("R")

_LONGEST_MS: Final = 30_000
_PROMPT_MS: Final = 500
_LOCAL: Final = Consistency(concern="local")
_LARGEST: Final = 15 << 20  # bytes of the images of an event; the database sends 16 MiB at most
_LARGEST_COMMAND: Final = (16 << 20) + (14 << 10)  # the database accepts 2 KiB more
_FRAME: Final = 128  # bytes around a filter or a document in a command
_MAX_PARTS: Final = 500  # filters or documents of a command
_SHORTEST_MS: Final = 500
_OF_ALL: Final = (StoreUnavailable, Overloaded, StoreDenied)
_ID_CHANGED: Final = 280
_UNKNOWN_STAGE: Final = 40324
_DOCUMENTS: Final = "$documents"
_ANY: Final = "docgraph"  # it need not exist
_COLLECT: Final = {"$group": {"_id": None, "n": {"$push": "$n"}}}
_UPDATE: Final = "updateDescription"


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


class _CommandPlace(NamedTuple):
    db: str
    collection: str  # used only where `$documents` is not
    collation: Collation = None


class _Part(NamedTuple):
    """A filter or a document of a command, encoded once."""

    number: int
    raw: RawBSONDocument

    @property
    def size(self) -> int:
        return len(self.raw.raw) + _FRAME


class DocumentPipelines:
    """Runs filters and stages over documents that are sent to the database with the command.

    Every command is bounded in size. One that fails is repeated with halves of its filters or
    events, until those that cause the failure are alone. An error that concerns all of them is
    raised, such as an unreachable database.

    Servers before 5.1 have no `$documents`, and others permit it only to users who can read the
    whole database. There, the documents follow a `$facet` over nothing, which returns exactly one
    document; the collection of the command must be one that can be read.
    """

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._has_documents = True

    async def match_documents(
        self,
        db: str,
        documents: Sequence[Mapping[str, Any]],
        filters: Sequence[Mapping[str, Any]],
        *,
        collation: Collation = None,
        collection: str = _ANY,
    ) -> list[frozenset[int] | DocgraphError]:
        """Return for each filter the positions of the documents that it matches, or its error.

        Pass documents as the database sent them (raw): decoding may change old or invalid values.
        Without documents the database only checks the filters.
        """
        place, deadline = _CommandPlace(db, collection, collation), Deadline.after_ms(_LONGEST_MS)
        errors: dict[int, Any] = {}
        matched: list[set[int]] = [set() for _ in filters]
        parts = _encode(filters, errors, partial(move_below, part="image"))
        sent = [_encode_part(n, {"n": n, "image": image}) for n, image in enumerate(documents)]
        # Documents may have half of the bytes of a command, or less beside large filters.
        longest = max((part.size for part in parts), default=0)
        room = min(_LARGEST_COMMAND // 2, _LARGEST_COMMAND - longest)
        for images in _portions(sent, room) or [[]]:
            run = partial(self._match, place, filters, images)
            remaining = [part for part in parts if part.number not in errors]
            left = _LARGEST_COMMAND - sum(image.size for image in images)
            for portion in _portions(remaining, left):
                for number, result in (await _isolate(run, portion, deadline)).items():
                    if isinstance(result, DocgraphError):
                        errors[number] = result
                    else:
                        matched[number] |= result
        return [errors.get(n) or frozenset(positions) for n, positions in enumerate(matched)]

    async def run_stages(
        self,
        db: str,
        events: Sequence[Mapping[str, Any]],
        stages: Stages,
        *,
        collection: str = _ANY,
        promptly: bool = False,
    ) -> list[Document | DocgraphError | None]:
        """Return what the stages make of each event: None if they remove it, or its error.

        The stages must leave the `_id` of an event, its resume token, as it is. `promptly`: raise
        the error if they fail or take long, instead of finding the events that cause it.
        """
        place, deadline = _CommandPlace(db, collection), Deadline.after_ms(_LONGEST_MS)
        results: dict[int, Any] = {}
        parts = _encode(events, results)
        run = partial(self._run, place, stages, events)
        for some in _portions(parts, _LARGEST_COMMAND - len(to_bytes({"": list(stages)}))):
            if promptly:
                results |= await run(some, Deadline.after_ms(_PROMPT_MS))
            else:
                results |= await _isolate(run, some, deadline)
        return [results.get(number) for number in range(len(events))]

    async def check_stages(self, db: str, stages: Stages, *, collection: str = _ANY) -> None:
        """Let the database parse the stages; raise its error."""
        place, deadline = _CommandPlace(db, collection), Deadline.after_ms(_LONGEST_MS)
        await self._fetch(place, [], stages, deadline)

    async def _match(
        self,
        place: _CommandPlace,
        filters: Sequence[Mapping[str, Any]],
        images: Sequence[_Part],
        parts: Sequence[_Part],
        deadline: Deadline,
    ) -> dict[int, frozenset[int]]:
        sizes = [part.size for part in (*images, *parts)]
        if sum(sizes) > _LARGEST_COMMAND:  # it is one of each
            images = [_reduce(image, filters[parts[0].number]) for image in images]
        facets = {str(part.number): [{"$match": part.raw}, _COLLECT] for part in parts}
        rows = await self._fetch(place, images, [{"$facet": facets}], deadline)
        groups = rows[0] if rows else {}  # a router returns nothing for a dropped database
        with reading_reply():
            return {
                part.number: frozenset(
                    n for group in groups.get(str(part.number), ()) for n in group["n"]
                )
                for part in parts
            }

    async def _run(
        self,
        place: _CommandPlace,
        stages: Stages,
        events: Sequence[Mapping[str, Any]],
        parts: Sequence[_Part],
        deadline: Deadline,
    ) -> dict[int, Document | None]:
        results: dict[int, Document | None] = {part.number: None for part in parts}
        numbers = {to_bytes(events[part.number]["_id"]): part.number for part in parts}
        for event in await self._fetch(place, parts, stages, deadline):
            id = event.get("_id")
            number = numbers.pop(to_bytes(id), None) if isinstance(id, Mapping) else None
            if number is None:
                raise explain(_ID_CHANGED)
            results[number] = event
        return results

    async def _fetch(
        self, place: _CommandPlace, sent: Sequence[_Part], stages: Stages, deadline: Deadline
    ) -> list[Document]:
        documents = {"$literal": [part.raw for part in sent]}  # their strings are no expressions
        has_documents = self._has_documents
        opening = [{_DOCUMENTS: documents}] if has_documents else _produce(documents)
        command: Document = {
            "aggregate": 1 if has_documents else place.collection,
            "pipeline": [*opening, *stages],
            "cursor": {"batchSize": len(sent) + 1},
            "collation": place.collation or {"locale": "simple"},
        }
        try:
            return await self._commands.fetch(place.db, command, deadline, _LOCAL)
        except DocgraphError as error:
            # The database does not know `$documents`, or does not permit it.
            cause = error.__cause__
            is_unknown = isinstance(cause, OperationFailure) and cause.code == _UNKNOWN_STAGE
            is_unknown = is_unknown and f"'{_DOCUMENTS}'" in str(cause)
            if not has_documents or not (is_unknown or isinstance(error, StoreDenied)):
                raise
            self._commands.waits.forget_denial(str(error.__cause__))
        self._has_documents = False
        return await self._fetch(place, sent, stages, deadline)


def _produce(documents: Document) -> list[Document]:
    """Return the stages that produce these documents on a server without `$documents`."""
    return [
        {"$match": {"$alwaysFalse": 1}},
        {"$facet": {"none": [{"$limit": 1}]}},
        {"$project": {"_id": 0, "sent": documents}},
        {"$unwind": "$sent"},
        {"$replaceWith": "$sent"},
    ]


def _reduce(image: _Part, filter: Filter) -> _Part:
    """Return the image with the properties that the filter compares, if these are known."""
    roots = find_roots(filter)
    if roots is None:
        return image
    kept = RawBSONDocument(keep_names(image.raw["image"].raw, roots))
    return _encode_part(image.number, {"n": image.number, "image": kept})


def _encode_part(number: int, document: Mapping[str, Any]) -> _Part:
    return _Part(number, RawBSONDocument(to_bytes(document)))


def _encode(
    sources: Sequence[Mapping[str, Any]],
    errors: dict[int, Any],
    build: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda source: source,
) -> list[_Part]:
    """Encode what can be built and encoded; the others have errors."""
    parts = []
    for number, source in enumerate(sources):
        try:
            parts.append(_encode_part(number, build(source)))
        except DocgraphError as error:
            errors[number] = error
    return parts


def _portions(parts: Sequence[_Part], room: int) -> list[list[_Part]]:
    """Divide into commands of bounded count and size; a part that is too large is alone."""
    portions: list[list[_Part]] = []
    left = 0
    for part in parts:
        if not portions or part.size > left or len(portions[-1]) == _MAX_PARTS:
            portions.append([])
            left = room
        portions[-1].append(part)
        left -= part.size
    return portions


async def _isolate(
    run: Callable[[Sequence[_Part], Deadline], Awaitable[Mapping[int, R]]],
    parts: Sequence[_Part],
    deadline: Deadline,
    limit_ms: int = _LONGEST_MS // 3,
) -> dict[int, R | DocgraphError]:
    """Return the result or the error of each part; half the parts have half the time."""
    try:
        allowed = min(limit_ms, int((deadline.remaining() or 0) * 1000) or 1)
        return {**await run(parts, Deadline.after_ms(allowed))}
    except _OF_ALL:
        raise
    except DocgraphError as error:
        if len(parts) == 1:
            return {parts[0].number: error}
    middle, half = len(parts) // 2, max(limit_ms // 2, _SHORTEST_MS)
    return {
        **await _isolate(run, parts[:middle], deadline, half),
        **await _isolate(run, parts[middle:], deadline, half),
    }
