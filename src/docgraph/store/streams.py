"""Store streams: open change streams, and enable pre-images and post-images in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Final, NamedTuple

from bson import ObjectId, Timestamp
from bson.raw_bson import RawBSONDocument

from docgraph.exchange.data import Document, Filter, Stages
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import (
    TEMPORARY_FAILURES,
    DocgraphError,
    NotFound,
    NotSupported,
    StoreUnavailable,
)
from docgraph.runtime import LruDict
from docgraph.store.change_stream import ChangeEvents
from docgraph.store.change_visibility import DocumentPipelines, shorten_large
from docgraph.store.driver.client import DriverClient
from docgraph.store.driver.command import Commands
from docgraph.store.driver.lenient_decode import decode_event
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.driver.timed_commands import Observed
from docgraph.store.guard.event_stages import (
    AFTER,
    admit_either,
    admit_found,
    check_ids_unread,
    hide_in_events,
    match_below,
)
from docgraph.store.guard.shield import Guard, Rows
from docgraph.store.guard.shown import Paths, Shown
from docgraph.store.guard.stage_checks import STREAM_STAGES, Policy, check_pipeline
from docgraph.store.names import check_database, check_namespace

_IMAGES: Final = "changeStreamPreAndPostImages"
_BOTH_IMAGES: Final = dict.fromkeys(
    ("full_document", "full_document_before_change"), "whenAvailable"
)
_IMAGES_SECONDS: Final = 1.0  # for which it is known whether a collection has images …
_KEPT_IMAGES: Final = 1000  # … and of how many collections
_LOOK_MS: Final = 30_000
_PAST_AWAIT_MS: Final = 1  # the least that the database accepts; 0 means its default, a second
_WIRE_VERSION_OF_6_0: Final = 17
_WATCH_BATCH: Final = 1000  # events
_NO_DOCUMENT: Final = {"operationType": {"$nin": ["insert", "update", "replace", "delete"]}}


@dataclass(frozen=True, slots=True)
class StreamView:
    """What restricts the events of one reader: its row filter, and stages that hide properties."""

    row: Filter | None
    hiding: tuple[Document, ...]
    hidden: Paths


class PrimaryState(NamedTuple):
    """The primary of a replica set, by its election, and the time of its last write.

    `shows_views`: its change streams can report changed views (MongoDB 6.0).
    """

    election: ObjectId
    last_write: Timestamp
    shows_views: bool


@dataclass
class StoreStreams:
    """The operations on change streams (`Store.streams`)."""

    client: DriverClient
    policy: Policy
    guard: Guard
    commands: Commands
    _images: LruDict[tuple[str, str], tuple[float, bool]] = field(
        default_factory=lambda: LruDict(_KEPT_IMAGES)
    )
    pipelines: DocumentPipelines = field(init=False)

    def __post_init__(self) -> None:
        self.pipelines = DocumentPipelines(self.commands)

    def watch(  # noqa: PLR0913 - the parts of a stream
        self,
        db: str,
        collection: str,
        pipeline: Stages = (),
        *,
        resume_after: Mapping[str, Any] | None = None,
        full_document: str | None = "updateLookup",
        rows: Rows | None = None,
        shown: Shown | None = None,
    ) -> ChangeEvents:
        """Return the changes of a collection, from now or from a token on.

        `shown` has the properties of the collection that the reader can see. The pipeline runs in
        the cursor: clients of change streams use `watch_source`, which many of them share.
        """
        options: Document = {"resume_after": resume_after, "full_document": full_document}
        row = (rows or {}).get(check_namespace(db, collection))
        view = self.check_view(db, collection, pipeline, row=row, shown=shown)
        admitted = admit_found(view.row) if view.row else []
        stages = [shorten_large(), *admitted, *view.hiding, *pipeline]
        if view.row:  # it applies to the document, so the event must contain it
            options["full_document"] = "updateLookup"
            options["prepare"] = partial(self.find_collation, db, collection, images=False)
        return ChangeEvents(self.client, self.commands, db, collection, stages, **options)

    def check_view(
        self,
        db: str,
        collection: str,
        pipeline: Stages,
        *,
        row: Filter | None = None,
        shown: Shown | None = None,
        before: bool = False,
    ) -> StreamView:
        """Check the stages and the row filter of a reader; return what restricts its events."""
        namespace = check_namespace(db, collection)
        check_pipeline(list(pipeline), db=db, policy=self.policy, allowed=STREAM_STAGES)
        check_ids_unread(pipeline, shown)
        shield = self.guard.shield({namespace: row} if row else None, policy=self.policy)
        row = shield.rows.get(namespace)
        if row:
            match_below(row, AFTER)  # it rejects filters that cannot be applied to events
        hidden = shield.hidden.get(namespace, ())
        return StreamView(row or None, tuple(hide_in_events(hidden, shown, before=before)), hidden)

    def watch_source(  # noqa: PLR0913 - the parts of a stream
        self,
        db: str,
        collection: str,
        *,
        match: Sequence[Mapping[str, Any]] = (),
        row: Filter | None = None,
        images: bool = False,
        resume_after: Mapping[str, Any] | None = None,
        is_past: bool = False,
    ) -> ChangeEvents:
        """Return the events of a collection as they are, for readers with different permissions.

        No reader may see them like this: `check_view` has what applies to each one. Events that
        do not match all of `match`, or that the row filter admits in no state, are left out. With
        `images` (the collection has them, see `has_images`) events contain both images. `is_past`:
        the database does not wait for events that have not happened yet.
        """
        check_namespace(db, collection)
        stages: list[Mapping[str, Any]] = [shorten_large()]
        if row and images:
            stages.append(admit_either(row))
        elif row:
            stages += admit_found(row)[:-1]
        if match:
            stages.append({"$match": {"$and": list(match)}})
        options: Document = {"full_document": "updateLookup", "resume_after": resume_after}
        options |= _BOTH_IMAGES if images else {}
        options |= {"max_await_time_ms": _PAST_AWAIT_MS} if is_past else {}
        return ChangeEvents(self.client, self.commands, db, collection, stages, **options)

    def decode(self, event: RawBSONDocument, db: str) -> Document:
        """Decode an event as far as possible."""
        return decode_event(event.raw, self.client.codec_options, db)

    def watch_unguarded(self, db: str, pipeline: Stages, **options: Any) -> ChangeEvents:
        """Return the changes of a database without guards: never for data of callers."""
        check_database(db)
        return ChangeEvents(self.client, self.commands, db, None, pipeline, **options)

    def watch_collections(
        self,
        db: str,
        collections: Collection[str],
        *,
        documents: bool,
        views: bool,
        resume_after: Mapping[str, Any] | None,
        await_ms: int,
    ) -> ChangeEvents:
        """Return the changes of some collections of a database, and drops and renames of any.

        Never for data of callers. `documents`: events of updates contain the document. `views`:
        changes of views are reported, too.
        """
        concerned = {"ns.coll": {"$in": sorted(collections)}}
        stages: list[Document] = [{"$match": {"$or": [concerned, _NO_DOCUMENT]}}]
        if documents:
            stages.append(shorten_large())
        full = "updateLookup" if documents else None
        options: Document = {"full_document": full, "resume_after": resume_after}
        options |= {"max_await_time_ms": await_ms, "batch_size": _WATCH_BATCH}
        options |= {"show_expanded_events": True} if views else {}
        return self.watch_unguarded(db, stages, **options)

    async def read_primary(self) -> PrimaryState | str:
        """Return which primary serves, and its last write; `standalone` or `sharded` if none does.

        A router does not know up to when it has received the writes of all shards.
        """
        reply = await self._send_admin({"hello": 1})
        if "setName" not in reply:
            return "sharded" if reply.get("msg") == "isdbgrid" else "standalone"
        with reading_reply():
            last_write = reply.get("lastWrite", {}).get("opTime", {}).get("ts")
            shows_views = reply["maxWireVersion"] >= _WIRE_VERSION_OF_6_0
        election = reply.get("electionId")
        if not isinstance(election, ObjectId) or not isinstance(last_write, Timestamp):
            raise StoreUnavailable("the database has no primary")
        return PrimaryState(election, last_write, shows_views)

    async def read_committed_time(self) -> Timestamp | None:
        """Return a time up to which all writes are committed; None if a router does not know it.

        A later time, such as the cluster time, would include writes that no read returns yet.
        """
        reply = await self._send_admin({"hello": 1})
        with reading_reply():
            time = reply.get("lastWrite", {}).get("majorityOpTime", {}).get("ts")
        return time if isinstance(time, Timestamp) else None

    async def has_happened(self, token: Mapping[str, Any]) -> bool:
        """Return whether the time in a resume token has come, by the clock of the database."""
        reply = await self._send_admin({"ping": 1})
        with reading_reply():
            now: Timestamp = reply["$clusterTime"]["clusterTime"]
            # A snapshot ends one increment after the time at which it was read.
            latest = Timestamp(now.time, now.inc + 1)
        return find_token_time(token) <= latest

    async def _send_admin(self, command: Document) -> Mapping[str, Any]:
        send = partial(self.client.admin.command, command)
        reply: Mapping[str, Any] = await self.commands.within(_LOOK_MS / 1000, send)
        return reply

    async def has_images(self, db: str, collection: str, *, deadline: Deadline) -> bool:
        """Check if the database stores pre-images of the collection's documents.

        The answer is cached for a moment: thousands of open streams ask again and again.
        """
        cached = self._images.get((db, collection))
        if cached is not None and cached[0] > monotonic():
            return cached[1]
        return await self._find_images(db, collection, deadline)

    async def _find_images(self, db: str, collection: str, deadline: Deadline) -> bool:
        check_namespace(db, collection)
        try:
            options = await self._read_options(db, collection, deadline)
        except TEMPORARY_FAILURES:
            raise
        except DocgraphError:  # there is none, or we lack the privilege
            options = {}
        with reading_reply():
            has_images = bool(options.get(_IMAGES, {}).get("enabled"))
        self._images.put((db, collection), (monotonic() + _IMAGES_SECONDS, has_images))
        return has_images

    async def enable_images(self, db: str, collection: str, *, deadline: Deadline) -> bool:
        """Enable pre-images from now on; return False if the database or our privileges forbid it.

        Servers before 6.0 do not support it, and no server does for views and time series.
        """
        if await self._find_images(db, collection, deadline):
            return True
        self._images.pop((db, collection))
        database = self.client.get_database(db)
        command: Document = {"collMod": collection, _IMAGES: {"enabled": True}}
        seconds = self.commands.budget(deadline)
        try:
            with Observed(db, command):
                await self.commands.within(
                    seconds, lambda: database.command(dict(command)), deadline, writing=True
                )
        except TEMPORARY_FAILURES:
            raise
        except DocgraphError:
            return False
        return True

    async def find_collation(
        self, db: str, collection: str, *, images: bool
    ) -> Mapping[str, Any] | None:
        """Return how reads of the collection compare strings: row filters must do the same.

        Otherwise a filter such as `$ne` would admit events of documents that a read does not
        return.
        """
        options = await self._read_options(db, collection, Deadline.after_ms(_LOOK_MS))
        collation: Mapping[str, Any] | None = options.get("collation")
        if collation is not None and not images:
            raise NotSupported(
                "a row filter cannot be applied to a change stream of a collection with collation",
                hint=f"it can when the collection has {_IMAGES}",
            )
        return collation

    async def _read_options(
        self, db: str, collection: str, deadline: Deadline
    ) -> Mapping[str, Any]:
        database = self.client.get_database(db)

        async def read() -> Sequence[Mapping[str, Any]]:
            cursor = await database.list_collections(
                filter={"name": collection}, comment=seen.comment
            )
            return await cursor.to_list()

        with Observed(db, {"listCollections": ""}) as seen:
            seconds = self.commands.budget(deadline)
            collections = await self.commands.within(seconds, read, deadline)
        if not collections:
            raise NotFound("the collection does not exist")
        with reading_reply():
            options: Mapping[str, Any] = collections[0].get("options", {})
            options.get("collation")
        return options


def find_token_time(token: Mapping[str, Any]) -> Timestamp:
    """Return the time in a resume token: its type, the seconds, and a number within the second."""
    digits = token["_data"][2:18].ljust(16, "0")
    return Timestamp(int(digits[:8], 16), int(digits[8:], 16))
