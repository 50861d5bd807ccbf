"""The part of the store that opens change streams, and has the database keep images for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from docgraph.store.driver.client import Client
from docgraph.store.driver.command import Commands
from docgraph.store.driver.observed import Observed
from docgraph.store.guard.event_ids import check_ids_unread
from docgraph.store.guard.events import admit_found, guard_database, hide_in_events
from docgraph.store.guard.rows import Guard, Key, Rows, Shield
from docgraph.store.guard.shown import Shown
from docgraph.store.guard.stages import STREAM_STAGES, Policy, check_filter, check_pipeline
from docgraph.store.judge import Judge, shorten_large
from docgraph.store.names import check_database, check_namespace, namespace_of
from docgraph.store.watch import ChangeEvents

__all__ = ["Watching"]

Stages = Sequence[Mapping[str, Any]]

_IMAGES: Final = "changeStreamPreAndPostImages"
_BOTH_IMAGES: Final = dict.fromkeys(
    ("full_document", "full_document_before_change"), "whenAvailable"
)
_LOOK_MS: Final = 30_000
_PASSING: Final = (StoreUnavailable, TimeLimitExceeded, Overloaded)


class Watching:
    """The operations on change streams."""

    client: Client
    policy: Policy
    guard: Guard
    _commands: Commands

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
        """The changes of a collection, or of a whole database, from now or from a token on.

        `shown` is what a reader is shown of the collection. With `images` (it has them, see
        `has_images`) a change that brings a document into the rows of the reader is told as an
        insertion, one that takes it out of them as a deletion.
        """
        if collection is None:
            check_database(db)
            if shown or images:
                raise ValueError("a projection and images are those of one collection")
        else:
            check_namespace(db, collection)
        check_pipeline(list(pipeline), db=db, policy=self.policy, allowed=STREAM_STAGES)
        check_ids_unread(pipeline, shown)
        shield = self._shield(rows)
        # Row filters are asked of the document, so that there has to be one.
        full_document = "updateLookup" if shield.rows else full_document
        options: Document = {"resume_after": resume_after, "start_after": start_after}
        options |= {"full_document": full_document, "comment": comment}
        if collection is None:
            stages = [*guard_database(db, shield), *pipeline]
            return ChangeEvents(self.client, self._commands, db, None, stages, **options)
        namespace = namespace_of(db, collection)
        row = shield.rows.get(namespace)
        stages = [*hide_in_events(shield.hidden.get(namespace, ()), shown), *pipeline]
        if not row:
            stages = [shorten_large(), *stages]
            return ChangeEvents(self.client, self._commands, db, collection, stages, **options)
        judge = Judge(self._commands, db, row, stages, comment) if images else None
        if judge is not None:
            options |= _BOTH_IMAGES
        stages = [shorten_large(), *admit_found(row), *stages]
        options["prepare"] = partial(self._prepare_rows, db, collection, stages, judge)
        return ChangeEvents(self.client, self._commands, db, collection, (), judge=judge, **options)

    def watch_unguarded(self, db: str, pipeline: Stages, **options: Any) -> ChangeEvents:
        """The changes of a database with hidden properties: never for what people ask or see."""
        check_database(db)
        return ChangeEvents(self.client, self._commands, db, None, pipeline, **options)

    async def has_images(self, db: str, collection: str, *, deadline: Deadline) -> bool:
        """Whether the database keeps what documents of the collection were before a change."""
        check_namespace(db, collection)
        try:
            options = await self._read_options(db, collection, deadline)
        except _PASSING:
            raise
        except DocgraphError:  # there is none, or we may not look
            return False
        return bool(options.get(_IMAGES, {}).get("enabled"))

    async def enable_images(self, db: str, collection: str, *, deadline: Deadline) -> bool:
        """Have the database keep images from now on; False where it does not, or we may not.

        Servers before 6.0 do not, and no server does it for views and time series.
        """
        if await self.has_images(db, collection, deadline=deadline):
            return True
        database = self.client.get_database(db)
        command: Document = {"collMod": collection, _IMAGES: {"enabled": True}}
        seconds = self._commands.budget(deadline)
        try:
            with Observed(db, command):
                await self._commands.within(
                    seconds, lambda: database.command(dict(command)), deadline, writing=True
                )
        except _PASSING:
            raise
        except DocgraphError:
            return False
        return True

    async def _prepare_rows(
        self, db: str, collection: str, stages: Stages, judge: Judge | None
    ) -> Stages:
        """The stages of a stream of rows; it may not compare texts in another way than reads do.

        A filter such as `$ne` would admit there what it does not admit in a read.
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
            seconds = self._commands.budget(deadline)
            found = await self._commands.within(seconds, read, deadline)
        if not found:
            raise NotFound("the collection does not exist")
        options: Mapping[str, Any] = found[0].get("options", {})
        return options

    def _shield(self, rows: Rows | None, reveal: Iterable[Key] = ()) -> Shield:
        """What the call has to respect; row filters are checked like any other filter."""
        if rows:
            for row in rows.values():
                check_filter(row, policy=self.policy, trusted=True, origin="row filter")
        return self.guard.shield(rows, reveal)
