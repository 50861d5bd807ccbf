"""Indexes that docgraph itself relies on; those of people are in `administration.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo import IndexModel

from docgraph.exchange.deadline import Deadline
from docgraph.store.driver.command import Commands, Observed
from docgraph.store.names import check_namespace

__all__ = ["ensure_index"]


async def ensure_index(
    commands: Commands,
    namespace: tuple[str, str],
    keys: Mapping[str, Any],
    options: Mapping[str, Any],
    deadline: Deadline,
    *,
    create: bool = True,
) -> None:
    """Make the index if it is not there; without `create`, only where the collection exists."""
    db, collection = namespace
    check_namespace(db, collection)
    database = commands.client.get_database(db)

    async def exists() -> bool:
        with Observed(db, {"listCollections": ""}):
            names = await commands.within(
                commands.budget(deadline),
                lambda: database.list_collection_names(filter={"name": collection}),
            )
        return bool(names)

    if create or await exists():
        target = database.get_collection(collection)
        index = IndexModel(list(keys.items()), **options)
        with Observed(db, {"createIndexes": collection}):
            await commands.within(
                commands.budget(deadline), lambda: target.create_indexes([index]), writing=True
            )
