"""Whatever a filter is made of, a fence changes no answer, and no hidden row changes one.

Decision 49: documents are found under a row filter, among hidden ones that are like them and would
make expressions fail; the expected answer is that of a plain `find` where only visible ones exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Regex
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from docgraph.exchange import Deadline
from docgraph.exchange.errors import DocgraphError
from tests.chance import examples
from tests.properties.stores import Document, StoreOnLoop, combine_filters, new_database

SOON = Deadline.never()
ROW = {"owner": "eve"}

# --- documents ------------------------------------------------------------------------------------

texts = st.sampled_from(["a", "ab", "abc", "Ab", "b", "a.b", "5", ""])
scalars = st.one_of(texts, st.sampled_from([None, 0, 1, 2.5, True]))
objects = st.dictionaries(st.sampled_from(["b", "c"]), scalars, max_size=2)
values = st.one_of(scalars, objects, st.lists(st.one_of(scalars, objects), max_size=3))
documents = st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2)

# --- filters --------------------------------------------------------------------------------------

paths = st.sampled_from(["a", "b", "a.b", "a.0", "b.c"])
patterns = st.sampled_from(["^a", "^ab", "^abc?", "^a\\.", "b$", "^(a|b)", "^a|5", "\\Aa", "^A"])
flags = st.sampled_from([0, re.IGNORECASE, re.MULTILINE, re.DOTALL])
regexes = st.builds(Regex, patterns, flags)
options = st.sampled_from(["", "i", "m", "s"])
conditions: st.SearchStrategy[Any] = st.deferred(
    lambda: st.one_of(
        values,
        regexes,
        st.builds(lambda one, how: {"$regex": one, "$options": how}, patterns, options),
        st.builds(lambda one: {"$regex": one}, regexes),
        st.builds(
            lambda operator, value: {operator: value},
            st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]),
            scalars,
        ),
        st.builds(
            lambda operator, several: {operator: several},
            st.sampled_from(["$in", "$nin", "$all"]),
            st.lists(st.one_of(scalars, regexes), min_size=1, max_size=2),
        ),
        st.builds(lambda one, value: {"$regex": one, "$gte": value}, patterns, texts),
        st.builds(lambda one: {"$not": one}, regexes),
        st.builds(lambda one: {"$not": {"$regex": one}}, patterns),
        st.builds(lambda one: {"$elemMatch": {"$regex": one}}, patterns),
        st.builds(lambda one: {"$elemMatch": {"b": one}}, conditions),
        st.sampled_from([{"$size": 1}, {"$type": "string"}, {"$exists": True}, {"$mod": [2, 0]}]),
    )
)
expressions = st.sampled_from(
    [
        {"$eq": ["$a", "$b"]},
        {"$gt": [{"$strLenCP": {"$ifNull": ["$poison", ""]}}, -1]},
        {"$divide": [1, {"$cond": [{"$ne": [{"$type": "$poison"}, "missing"]}, 0, 1]}]},
    ]
)
leaves = st.one_of(
    st.dictionaries(paths, conditions, min_size=1, max_size=2),
    st.builds(lambda one: {"$expr": one}, expressions),
    st.just({"$jsonSchema": {"required": ["a"]}}),
)
filters = combine_filters(leaves)
sorts = st.sampled_from([{"_id": 1}, {"_id": -1}, {"a": 1}, {"a": -1, "b": 1}, {"b": -1}])
projections = st.sampled_from(
    [None, {"a": 1}, {"a": 0}, {"_id": 0, "a": 1}, {"a": {"$slice": 1}}, {"x": "$a"}]
)
indexes = st.sampled_from([None, [("owner", 1)], [("owner", 1), ("a", 1)], [("a", 1), ("_id", 1)]])


class Reader(StoreOnLoop):
    """Reads rows through the store."""

    def find(self, db: str, filter: Document, **parts: Any) -> list[Document]:
        """What somebody finds who may see the rows."""
        self._store.stats.forget()
        rows = {f"{db}.mixed": ROW}
        work = self._store.find(db, "mixed", filter, deadline=SOON, rows=rows, **parts)
        return self._runner.run(work)

    def count(self, db: str, filter: Document) -> int:
        """How many of them there are."""
        rows = {f"{db}.mixed": ROW}
        work = self._store.count(db, "mixed", filter, limit=99, deadline=SOON, rows=rows)
        return self._runner.run(work)

    def aggregate(self, db: str, stages: list[Document]) -> list[Document]:
        """The results of a pipeline on the rows."""
        rows = {f"{db}.mixed": ROW}
        work = self._store.aggregate(db, "mixed", stages, limit=99, deadline=SOON, rows=rows)
        return self._runner.run(work)


@pytest.fixture
def reader(mongo_uri: str) -> Iterator[Reader]:
    """One for all examples."""
    with Reader(mongo_uri) as reader:
        yield reader


@pytest.fixture(scope="module")
def base(mongo_client: MongoClient[Document]) -> Iterator[Database[Document]]:
    """`mixed` has visible and hidden documents, `visible` those that are visible."""
    with new_database(mongo_client) as base:
        yield base


def fill(base: Database[Document], found: list[Document], index: Any) -> None:
    visible = [{"_id": id, "owner": "eve", **one} for id, one in enumerate(found)]
    hidden = [
        {"_id": 100 + id, "owner": "bob", "poison": True, **one} for id, one in enumerate(found)
    ]
    for name, stored in (("mixed", [*hidden, *visible]), ("visible", visible)):
        base[name].delete_many({})
        base[name].drop_indexes()
        base[name].insert_many(stored)
        if index:
            base[name].create_index(index)


@settings(max_examples=examples(120), deadline=None)
@given(
    found=st.lists(documents, min_size=1, max_size=5),
    filter=filters,
    sort=sorts,
    projection=projections,
    bounds=st.tuples(st.sampled_from([0, 1]), st.sampled_from([1, 2, 9])),
    index=indexes,
)
def test_a_fence_changes_no_answer(  # noqa: PLR0917 - what is generated
    reader: Reader,
    base: Database[Document],
    found: list[Document],
    filter: Document,
    sort: Document,
    projection: Document | None,
    bounds: tuple[int, int],
    index: Any,
) -> None:
    fill(base, found, index)
    skip, limit = bounds
    complete = {**sort, "_id": sort.get("_id", list(sort.values())[-1])}
    parts = {"sort": complete, "projection": projection, "skip": skip, "limit": limit}
    try:
        expected = list(base.visible.find(filter, **parts))
    except OperationFailure:
        with pytest.raises(DocgraphError):
            reader.find(base.name, filter, complete=True, **parts)
        return

    assert reader.find(base.name, filter, complete=True, **parts) == expected
    assert reader.find(base.name, filter, **parts) == expected
    assert reader.count(base.name, filter) == base.visible.count_documents(filter)
    stages: list[dict[str, Any]] = [
        {"$match": filter},
        {"$sort": complete},
        {"$skip": skip},
        {"$limit": limit},
    ]
    assert reader.aggregate(base.name, stages) == list(base.visible.aggregate(stages))


def build(stage: Document, collection: str) -> Document:
    """A stage that reads the collection once more, where it reads one."""
    ((name, body),) = stage.items()
    key = {"$lookup": "from", "$unionWith": "coll"}.get(name)
    return stage if key is None else {name: {**body, key: collection}}


stages_between = st.sampled_from(
    [
        {"$sort": {"a": 1, "_id": 1}},
        {"$unset": "z"},
        {"$set": {"z": 1}},
        {"$project": {"a": 1, "b": 1, "poison": 1}},
        {"$unwind": {"path": "$a", "preserveNullAndEmptyArrays": True}},
        {"$lookup": {"localField": "a", "foreignField": "b", "as": "z"}},
        {"$lookup": {"pipeline": [{"$match": {"$expr": {"$eq": ["$a", 1]}}}], "as": "z"}},
        {"$unionWith": {"pipeline": [{"$match": {"a": {"$regex": "^a"}}}]}},
        {"$limit": 9},
        {"$match": {"a": {"$gte": "a"}}},
    ]
)
last_stages = st.sampled_from(
    [[], [{"$group": {"_id": "$a", "n": {"$sum": 1}}}], [{"$count": "n"}], [{"$project": {"b": 1}}]]
)


@settings(max_examples=examples(120), deadline=None)
@given(
    found=st.lists(documents, min_size=1, max_size=5),
    between=st.lists(stages_between, max_size=3),
    filter=filters,
    last=last_stages,
    index=indexes,
)
def test_a_fence_changes_no_pipeline(  # noqa: PLR0917 - what is generated
    reader: Reader,
    base: Database[Document],
    found: list[Document],
    between: list[Document],
    filter: Document,
    last: list[Document],
    index: Any,
) -> None:
    fill(base, found, index)
    stages = [*between, {"$match": filter}, *last]

    def run() -> list[str]:
        own = [build(stage, "mixed") for stage in stages]
        return sorted(map(_describe, reader.aggregate(base.name, own)))

    # A missing property is null if the database reads it from an index, as it may under the row
    # filter: so there are two right answers where only visible documents exist.
    own = [build(stage, "visible") for stage in stages]
    try:
        answers = [list(base.visible.aggregate(first + own)) for first in ([], [{"$match": ROW}])]
    except OperationFailure:
        with pytest.raises(DocgraphError):
            run()
        return
    assert run() in [sorted(map(_describe, results)) for results in answers]


def _describe(result: Document) -> str:
    """A result, in which what was joined may have any order."""
    joined = result.get("z")
    shown = sorted(map(str, joined)) if isinstance(joined, list) else joined
    return str({**result, "z": shown})
