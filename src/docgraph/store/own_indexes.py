"""Internal indexes that docgraph itself needs; those of callers are in `administration.py`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pymongo import IndexModel

from docgraph.exchange.deadline import Deadline
from docgraph.store.driver.collection_uuid import find_collection, pinned
from docgraph.store.driver.command import Commands
from docgraph.store.driver.errors import CollectionGone
from docgraph.store.driver.timed_commands import Observed
from docgraph.store.names import check_namespace


async def ensure_index(
    commands: Commands,
    namespace: tuple[str, str],
    keys: Mapping[str, Any],
    options: Mapping[str, Any],
    deadline: Deadline,
    *,
    create: bool = True,
) -> None:
    """Create the index if it is missing; without `create`, only if the collection exists."""
    db, collection = namespace
    check_namespace(db, collection)
    index = IndexModel(list(keys.items()), **options)
    if create:
        await _create(commands, namespace, index, deadline)
        return
    with Observed(db, {"listCollections": ""}) as seen:
        found = await commands.within(
            commands.budget(deadline),
            lambda: find_collection(commands.client, db, collection, seen.comment),
        )
    if found is None:
        return
    with suppress(CollectionGone):  # dropped in between: there is nothing to index
        await _create(commands, namespace, index, deadline, found.id)


async def _create(
    commands: Commands,
    namespace: tuple[str, str],
    index: IndexModel,
    deadline: Deadline,
    collection_id: bytes | None = None,
) -> None:
    db, collection = namespace
    target = commands.client.get_database(db).get_collection(collection)

    async def run() -> None:
        async with pinned(commands.client, collection_id) as session:
            await target.create_indexes([index], session=session, comment=seen.comment)

    with Observed(db, {"createIndexes": collection}) as seen:
        await commands.within(commands.budget(deadline), run, writing=True)
