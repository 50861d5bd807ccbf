"""A change stream of rows tells what somebody computes who reads before and after every write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.collection import Collection

from tests.chance import examples
from tests.properties.stores import Document, StoreOnLoop, combine_filters, new_database
from tests.watched import watching

Told = tuple[str, Any, Document | None]
Things = Collection[Document]

FIRST: Document = {"_id": "first"}
LAST: Document = {"_id": "last"}

# --- filters --------------------------------------------------------------------------------------

scalars = st.sampled_from([None, 0, 1, 2, "a", "ab", "b", True])
objects = st.dictionaries(st.sampled_from(["b", "c", "0"]), scalars, max_size=2)
values = st.one_of(scalars, objects, st.lists(st.one_of(scalars, objects), max_size=3))
paths = st.sampled_from(["a", "b", "a.b", "a.0", "a.0.b", "b.c"])
several = st.lists(scalars, min_size=1, max_size=3)
conditions = st.one_of(
    values,
    st.builds(
        lambda operator, value: {operator: value},
        st.sampled_from(["$eq", "$ne", "$gt", "$lte"]),
        scalars,
    ),
    st.builds(lambda values: {"$in": values}, several),
    st.builds(lambda values: {"$nin": values}, several),
    st.builds(lambda values: {"$all": values}, several),
    st.builds(lambda exists: {"$exists": exists}, st.booleans()),
    st.builds(lambda value: {"$elemMatch": {"b": value}}, values),
    st.builds(lambda value: {"$elemMatch": {"$gt": value}}, scalars),
    st.builds(lambda value: {"$not": {"$gte": value}}, scalars),
    st.sampled_from([{"$regex": "^a"}, {"$size": 1}, {"$type": "array"}, {"$type": "null"}]),
)
expressions = st.sampled_from(
    [
        {"$eq": ["$a", "$b"]},
        {"$gt": ["$a.b", 0]},
        {"$ne": [{"$type": "$$CURRENT.a"}, "missing"]},
        {"$in": ["$b", [1, "a"]]},
        {"$let": {"vars": {"a": "$b"}, "in": {"$eq": ["$$a", "$a"]}}},
    ]
)
schemas = st.sampled_from([{"required": ["a"]}, {"properties": {"a": {"bsonType": "string"}}}])
leaves = st.one_of(
    st.dictionaries(paths, conditions, max_size=2),
    st.dictionaries(paths, conditions, min_size=1, max_size=1),
    st.builds(lambda expression: {"$expr": expression}, expressions),
    st.builds(lambda schema: {"$jsonSchema": schema}, schemas),
)
filters = combine_filters(leaves)

# --- writes ---------------------------------------------------------------------------------------

ids = st.sampled_from([1, 2])
documents = st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2)
writes = st.one_of(
    st.tuples(st.just("replace"), ids, documents),
    st.tuples(st.just("replace"), ids, documents),
    st.tuples(
        st.just("set"), ids, st.dictionaries(st.sampled_from(["a", "b"]), values, min_size=1)
    ),
    st.tuples(st.just("unset"), ids, st.sampled_from([{"a": 1}, {"b": 1}, {"a.b": 1}])),
    st.tuples(st.just("delete"), ids, st.none()),
)


class Reader:
    """Somebody who reads rows with `find`, before and after each write."""

    def __init__(self, things: Things, row: Document) -> None:
        self._things = things
        self._row = row

    def write(self, write: tuple[str, Any, Any]) -> Told | None:
        """What there is to tell of a write: nothing where it changes nothing."""
        kind, id, content = write
        one = {"_id": id}
        before = self._find(id)
        if kind == "delete":
            self._things.delete_one(one)
            return ("delete", id, None) if before is not None else None
        if kind == "replace":
            result = self._things.replace_one(one, content, upsert=True)
        else:
            result = self._things.update_one(one, {f"${kind}": content})
        if not result.modified_count and result.upserted_id is None:
            return None
        return self._tell("replace" if kind == "replace" else "update", id, before)

    def replace(self, id: Any, content: Document) -> Told | None:
        """What there is to tell of a whole document by somebody who has never seen one before."""
        result = self._things.replace_one({"_id": id}, content, upsert=True)
        kind = "replace" if result.upserted_id is None else "insert"
        after = self._find(id)
        is_told = after is not None and (result.modified_count or kind == "insert")
        return (kind, id, after) if is_told else None

    def _tell(self, kind: str, id: Any, before: Document | None) -> Told | None:
        after = self._find(id)
        if after is None:
            return ("delete", id, None) if before is not None else None
        return (kind if before is not None else "insert"), id, after

    def _find(self, id: Any) -> Document | None:
        return self._things.find_one({"$and": [{"_id": id}, self._row]})


class Listener(StoreOnLoop):
    """Watches rows through the store."""

    def hear(
        self, things: Things, row: Document, write: Callable[[], list[Told | None]], images: bool
    ) -> tuple[list[Told], list[Told]]:
        """What is told, and what should be."""
        return self._runner.run(self._hear(things, row, write, images))

    async def _hear(
        self, things: Things, row: Document, write: Callable[[], list[Told | None]], images: bool
    ) -> tuple[list[Told], list[Told]]:
        either = {"$or": [row, FIRST, LAST]}
        told: list[Told] = []
        async with watching(self._store, things, row=either, images=images) as events:
            things.insert_one(FIRST)
            while (await anext(events))["documentKey"] != FIRST:
                pass
            expected = write()
            things.insert_one(LAST)
            async with asyncio.timeout(60):
                while (event := await anext(events))["documentKey"] != LAST:
                    assert ("updateDescription" in event) == (event["operationType"] == "update")
                    told.append(_read(event))
        return told, [one for one in expected if one is not None]


def _read(event: Mapping[str, Any]) -> Told:
    return event["operationType"], event["documentKey"]["_id"], event.get("fullDocument")


@pytest.fixture
def listener(mongo_uri: str) -> Iterator[Listener]:
    """One for all examples."""
    with Listener(mongo_uri) as listener:
        yield listener


@pytest.fixture(scope="module")
def things(mongo_client: MongoClient[Document]) -> Iterator[Things]:
    """A collection that keeps images."""
    images = {"enabled": True}
    with new_database(mongo_client) as base:
        yield base.create_collection("things", changeStreamPreAndPostImages=images)


@settings(max_examples=examples(80))
@given(row=filters, first=st.tuples(documents, documents), done=st.lists(writes, max_size=6))
def test_a_stream_of_rows_tells_what_reads_show(
    listener: Listener, things: Things, row: Document, first: Any, done: Any
) -> None:
    things.delete_many({})
    things.insert_many([{"_id": id, **document} for id, document in enumerate(first, start=1)])

    reader = Reader(things, row)

    told, expected = listener.hear(
        things, row, lambda: [reader.write(write) for write in done], images=True
    )

    assert told == expected


@settings(max_examples=examples(40))
@given(row=filters, done=st.lists(st.tuples(ids, documents), max_size=6))
def test_without_images_whole_documents_are_told_where_a_read_shows_them(
    listener: Listener, things: Things, row: Document, done: Any
) -> None:
    things.delete_many({})
    reader = Reader(things, row)

    told, expected = listener.hear(
        things, row, lambda: [reader.replace(*write) for write in done], images=False
    )

    assert told == expected
