"""Store streams: open change streams, and enable pre-images and post-images in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import (
    DocgraphError,
    NotFound,
    NotSupported,
    Overloaded,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.store.change_stream import ChangeEvents
from docgraph.store.change_visibility import DocumentPipelines, EventFilter, shorten_large
from docgraph.store.driver.client import Client
from docgraph.store.driver.command import Commands
from docgraph.store.driver.timed_commands import Observed
from docgraph.store.guard.event_ids import check_ids_unread
from docgraph.store.guard.event_stages import admit_found, guard_database, hide_in_events
from docgraph.store.guard.shield import Guard, Rows
from docgraph.store.guard.shown import Shown
from docgraph.store.guard.stage_checks import STREAM_STAGES, Policy, check_pipeline
from docgraph.store.names import check_database, check_namespace, namespace_of

__all__ = ["StoreStreams"]

Stages = Sequence[Mapping[str, Any]]

_IMAGES: Final = "changeStreamPreAndPostImages"
_BOTH_IMAGES: Final = dict.fromkeys(
    ("full_document", "full_document_before_change"), "whenAvailable"
)
_LOOK_MS: Final = 30_000
_PASSING: Final = (StoreUnavailable, TimeLimitExceeded, Overloaded)


@dataclass
class StoreStreams:
    """The operations on change streams (`Store.streams`)."""

    client: Client
    policy: Policy
    guard: Guard
    commands: Commands
    pipelines: DocumentPipelines = field(init=False)

    def __post_init__(self) -> None:
        self.pipelines = DocumentPipelines(self.commands)

    def watch(  # noqa: PLR0913 - the parts of a stream
        self,
        db: str,
        collection: str | None,
        pipeline: Stages = (),
        *,
        resume_after: Mapping[str, Any] | None = None,
        start_after: Mapping[str, Any] | None = None,
        full_document: str | None = "updateLookup",
        rows: Rows | None = None,
        shown: Shown | None = None,
        images: bool = False,
        comment: Any = None,
    ) -> ChangeEvents:
        """Return the changes of a collection, or of a whole database, from now or from a token on.

        `shown` has the properties of the collection that the reader can see. With `images` (it has
        them, see `has_images`) a change that moves a document into the rows of the reader is
        delivered as an insertion, one that moves it out of them as a deletion.
        """
        if collection is None:
            check_database(db)
            if shown or images:
                raise ValueError("a projection and images are those of one collection")
        else:
            check_namespace(db, collection)
        check_pipeline(list(pipeline), db=db, policy=self.policy, allowed=STREAM_STAGES)
        check_ids_unread(pipeline, shown)
        shield = self.guard.shield(rows, policy=self.policy)
        # Row filters apply to the document, so the event must contain it.
        full_document = "updateLookup" if shield.rows else full_document
        options: Document = {"resume_after": resume_after, "start_after": start_after}
        options |= {"full_document": full_document, "comment": comment}
        if collection is None:
            stages = [*guard_database(db, shield), *pipeline]
            return ChangeEvents(self.client, self.commands, db, None, stages, **options)
        namespace = namespace_of(db, collection)
        row = shield.rows.get(namespace)
        stages = [*hide_in_events(shield.hidden.get(namespace, ()), shown), *pipeline]
        if not row:
            stages = [shorten_large(), *stages]
            return ChangeEvents(self.client, self.commands, db, collection, stages, **options)
        judge = EventFilter(self.commands, db, row, stages, comment) if images else None
        if judge is not None:
            options |= _BOTH_IMAGES
        stages = [shorten_large(), *admit_found(row), *stages]
        options["prepare"] = partial(self._prepare_rows, db, collection, stages, judge)
        return ChangeEvents(self.client, self.commands, db, collection, (), judge=judge, **options)

    def watch_unguarded(self, db: str, pipeline: Stages, **options: Any) -> ChangeEvents:
        """Return the changes of a database with hidden properties: never for data of callers."""
        check_database(db)
        return ChangeEvents(self.client, self.commands, db, None, pipeline, **options)

    async def has_images(self, db: str, collection: str, *, deadline: Deadline) -> bool:
        """Check if the database stores pre-images of the collection's documents."""
        check_namespace(db, collection)
        try:
            options = await self._read_options(db, collection, deadline)
        except _PASSING:
            raise
        except DocgraphError:  # there is none, or we lack the privilege
            return False
        return bool(options.get(_IMAGES, {}).get("enabled"))

    async def enable_images(self, db: str, collection: str, *, deadline: Deadline) -> bool:
        """Enable pre-images from now on; return False if the database or our privileges forbid it.

        Servers before 6.0 do not support it, and no server does for views and time series.
        """
        if await self.has_images(db, collection, deadline=deadline):
            return True
        database = self.client.get_database(db)
        command: Document = {"collMod": collection, _IMAGES: {"enabled": True}}
        seconds = self.commands.budget(deadline)
        try:
            with Observed(db, command):
                await self.commands.within(
                    seconds, lambda: database.command(dict(command)), deadline, writing=True
                )
        except _PASSING:
            raise
        except DocgraphError:
            return False
        return True

    async def _prepare_rows(
        self, db: str, collection: str, stages: Stages, judge: EventFilter | None
    ) -> Stages:
        """Return the stages of a stream of rows; it must compare strings in the same way as reads.

        Otherwise a filter such as `$ne` would admit events of documents that a read does not
        return.
        """
        options = await self._read_options(db, collection, Deadline.after_ms(_LOOK_MS))
        collation = options.get("collation")
        if judge is not None:
            return judge.open(collation)
        if collation is not None:
            raise NotSupported(
                "a row filter cannot be applied to a change stream of a collection with collation",
                hint=f"it can when the collection has {_IMAGES}",
            )
        return stages

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
            found = await self.commands.within(seconds, read, deadline)
        if not found:
            raise NotFound("the collection does not exist")
        options: Mapping[str, Any] = found[0].get("options", {})
        return options
