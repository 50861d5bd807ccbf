"""A read that is held to an index, which is gone by then: tried again, and handed over once."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from docgraph.exchange import Deadline, Document
from docgraph.exchange.errors import QueryError
from docgraph.store import Store
from docgraph.store.driver import fast_path, portions

pytestmark = pytest.mark.anyio

Sync = MongoClient[dict[str, Any]]
SOON = Deadline.never()
BAD_VALUE = 2  # as the database says of a hint that it does not know


@pytest.fixture(autouse=True)
def _portions_of_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_path, "LARGE", 0)
    monkeypatch.setattr(portions, "PORTION", 1)


@pytest.fixture
def ages(mongo_client: Sync, database: str) -> Any:
    """A collection of ten documents with ties, and with an index that serves their sort."""
    collection = mongo_client[database].ages
    collection.insert_many({"_id": n, "age": n % 2} for n in range(10))
    collection.create_index("age")
    return collection


async def find(store: Store, ages: Any, take: Any) -> list[Document]:
    db, name = ages.database.name, ages.name
    return await store.find(
        db, name, {}, limit=20, deadline=SOON, sort={"age": 1}, complete=True, take=take
    )


async def test_each_document_is_taken_once_when_the_index_is_gone(store: Store, ages: Any) -> None:
    taken: list[int] = []

    async def take(documents: list[Document]) -> None:
        taken.extend(document["_id"] for document in documents)

    await find(store, ages, take)
    with_index, taken = taken, []
    ages.drop_index("age_1")
    await find(store, ages, take)

    assert sorted(with_index) == list(range(10))
    assert taken == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]


async def test_what_was_taken_in_part_is_not_read_again(store: Store, ages: Any) -> None:
    """Whoever takes the documents may ask the database, too, and be refused."""
    taken: list[list[Document]] = []

    async def take(documents: list[Document]) -> None:
        taken.append(documents)
        if len(taken) == 2:
            raise QueryError("refused") from OperationFailure("bad hint", BAD_VALUE)

    with pytest.raises(QueryError, match="refused"):
        await find(store, ages, take)

    assert len(taken) == 2
