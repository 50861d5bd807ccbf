"""A store for properties, which are not asynchronous, and parts of filters that they share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.database import Database

from docgraph.store import Store, open_store
from docgraph.store.sections import AggregationSecurity, MClient
from tests.databases import drop, new_name

__all__ = ["Document", "StoreOnLoop", "combine_filters", "new_database"]

Document = dict[str, Any]


class StoreOnLoop:
    """A store on a loop of its own."""

    def __init__(self, uri: str) -> None:
        self._runner = asyncio.Runner()
        section = MClient(min_pool_size=0)
        self._store: Store = open_store(section, AggregationSecurity(), connection_string=uri)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._store.close())
        self._runner.close()


@contextmanager
def new_database(client: MongoClient[Document]) -> Iterator[Database[Document]]:
    """A database that is dropped at the end."""
    name = new_name()
    yield client[name]
    drop(client, name)


def combine_filters(leaves: st.SearchStrategy[Document]) -> st.SearchStrategy[Document]:
    """Filters of these leaves, joined by logical operators."""
    return st.recursive(
        leaves,
        lambda inner: st.builds(
            lambda operator, branches: {operator: branches},
            st.sampled_from(["$and", "$or", "$nor"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        max_leaves=4,
    )
