"""An answer that changes was invalidated by the change events of the writes in between.

Random documents, queries, row filters and writes on collections, collations, views and capped
collections; everything comes out of one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest
from bson import Decimal128, Int64, Regex
from graphql import parse, validate
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database

from docgraph.exchange import Permission
from docgraph.graphql.apps.compiled_app import VisibleApp, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.execute import fetch_by_in
from docgraph.graphql.freshness.invalidation_index import InvalidationIndex
from docgraph.graphql.freshness.read_sources import ReadSource, Sources
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.graphql.sections import Graphql
from tests.chance import examples
from tests.databases import drop, new_name
from tests.properties.changes import Changes, Writer, follow
from tests.properties.engine_cases import KEYS, make_case, make_document
from tests.properties.engine_queries import QueryMaker
from tests.properties.engine_runner import Engine

Document = dict[str, Any]
SETTINGS = Graphql(default_limit=3, max_limit=6, count_time_limit=60_000)
SEEDS = settings(
    max_examples=examples(20),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
ROUNDS = 4
QUERIES = 10
FILTERS = 30
COLLECTIONS = ("a", "b", "c")
# Few values, so that most writes matter to some query and most queries find something.
VALUES: tuple[Any, ...] = (
    1,
    1,
    2,
    2,
    "x",
    "x",
    "X",
    1.0,
    Int64(2),
    Decimal128("1"),
    True,
    None,
    [1],
)
VIEW = [
    {"$match": {"n": {"$in": [1, 2]}}},
    {"$lookup": {"from": "b", "localField": "key", "foreignField": "key", "as": "bs"}},
]
PATHS = ("key", "key", "keys", "sub.key", "subs.key", "n", "name", "keys.0", "_id")


@given(seed=st.integers(0, 2**32 - 1))
@SEEDS
def test_filters_whose_documents_change_were_invalidated(
    engine: Engine, mongo_client: MongoClient[Document], seed: int
) -> None:
    """Many filters without the engine: all documents, the first two, and their number."""
    random = Random(seed)
    with followed_data(mongo_client, random, make_row) as (database, changes):
        collection, writer = database.a, Writer(random, make_row, VALUES)
        options = collection.options()
        filters = [make_filter(random) for _ in range(FILTERS)]
        source = ReadSource(frozenset({collection.full_name}), True, "collation" not in options)
        index, sources = InvalidationIndex(), Sources(engine.store)
        read = partial(read_entries, collection, source=source, sources=sources)
        entries = [entry for one in filters for entry in read(one)]
        for _ in range(2 * ROUNDS):
            for entry in entries:
                index.add(entry.dependencies, mark_outdated(entry))
            done = writer.write(database, ["a"])
            for facts in changes.read():
                index.apply(facts)
            now = [entry for one in filters for entry in read(one)]
            for number, (entry, other) in enumerate(zip(entries, now, strict=True)):
                case = (filters[number // 3], number % 3, entry, other.answer, done)
                assert entry.is_outdated or entry.answer == other.answer, case
            index.reset()
            entries = now


@given(seed=st.integers(0, 2**32 - 1))
@SEEDS
def test_answers_that_change_were_invalidated(
    engine: Engine, mongo_client: MongoClient[Document], seed: int
) -> None:
    random = Random(seed)
    with followed_data(mongo_client, random, make_row) as (database, changes):
        app, queries = build_fields(database.name, random)
        watch = Watch(engine, app, changes, make_rows(database.name, random))
        check_rounds(watch, queries, database, Writer(random, make_row, VALUES))


@given(seed=st.integers(0, 2**32 - 1))
@SEEDS
def test_answers_of_random_apps_that_change_were_invalidated(
    engine: Engine, mongo_client: MongoClient[Document], seed: int
) -> None:
    random = Random(seed)
    with (
        followed_data(mongo_client, random, make_document) as (database, changes),
        pytest.MonkeyPatch.context() as patch,
    ):
        if seed % 2:
            patch.setattr(fetch_by_in, "FIRST_TRY", 1)
        case = make_case(seed, database.name)
        app = build_app(decode_definition(case.definition), SETTINGS).visible_to(())
        makers = [QueryMaker(app.schema, case.random) for _ in range(3)]
        texts = [(maker.make(), maker.variables) for maker in makers]
        watch = Watch(engine, app, changes, make_rows(database.name, random))
        check_rounds(watch, texts, database, Writer(random, make_document, KEYS))


# --- what is checked ------------------------------------------------------------------------------


@dataclass
class Entry:
    """An answer, and whether it was invalidated."""

    answer: Any
    dependencies: Any
    is_outdated: bool = False


@dataclass
class Watch:
    """Answers with their dependencies in an index."""

    engine: Engine
    app: VisibleApp
    changes: Changes
    rows: dict[str, Any]
    index: InvalidationIndex = field(default_factory=InvalidationIndex)
    sources: Sources = field(init=False)

    def __post_init__(self) -> None:
        self.sources = Sources(self.engine.store)

    def answer(self, query: tuple[str, Document]) -> Entry:
        """Answer a query, and register what the answer depends on."""
        recorder = DependencyRecorder(self.sources)
        permission = Permission("test", read_filters=self.rows)
        text, variables = query
        document = parse(text)
        assert validate(self.app.schema, document, max_errors=3) == [], text
        answer = self.engine.answer(
            self.app, document, variables, recorder=recorder, permission=permission
        )
        entry = Entry(answer, self.engine.find_dependencies(recorder))
        if not isinstance(entry.dependencies, str):
            self.index.add(entry.dependencies, mark_outdated(entry))
        return entry


def read_entries(
    collection: Collection[Document], filter_: Document, *, source: ReadSource, sources: Sources
) -> list[Entry]:
    """The documents of a filter, the first two of them, and their number."""
    found = list(collection.find(filter_).sort("_id"))
    recorder = DependencyRecorder(sources)
    reads = [recorder.record_find(collection.full_name, filter_, None) for _ in range(3)]
    reads[0].close(found)
    if len(found) < 2:
        reads[1].close(found)
    answers = [repr(found), repr(found[:2]), repr(len(found))]
    return [
        Entry(answer, read.build({collection.full_name: source}))
        for answer, read in zip(answers, reads, strict=True)
    ]


def mark_outdated(entry: Entry) -> Callable[[], None]:
    def mark() -> None:
        entry.is_outdated = True

    return mark


def check_rounds(
    watch: Watch, queries: list[tuple[str, Document]], database: Database[Document], writer: Writer
) -> None:
    entries = [watch.answer(query) for query in queries]
    for _ in range(ROUNDS):
        done = writer.write(database, COLLECTIONS)
        for facts in watch.changes.read():
            watch.index.apply(facts)
        for number, query in enumerate(queries):
            entry = entries[number]
            entries[number] = now = watch.answer(query)
            if isinstance(entry.dependencies, str) or now.answer == entry.answer:
                continue
            assert entry.is_outdated, (query, watch.rows, entry.dependencies, done)


# --- data -----------------------------------------------------------------------------------------


@contextmanager
def followed_data(
    client: MongoClient[Document], random: Random, make: Callable[[Random, int, str], Document]
) -> Iterator[tuple[Database[Document], Changes]]:
    """A database with collections of several kinds, dropped at the end, and its change events.

    The documents of the events are nearly always looked up.
    """
    name = new_name()
    database = client[name]
    options: list[Document] = [{}, {"collation": {"locale": "en", "strength": 2}}]
    try:
        for kind in COLLECTIONS:
            database.create_collection(kind, **random.choice(options))
            count = random.choice([0, 5, 12])
            if documents := [make(random, n, kind) for n in range(count)]:
                database[kind].insert_many(documents)
        database.create_collection("view", viewOn="a", pipeline=VIEW)
        with follow(database, is_looked_up=random.random() < 0.8) as changes:
            yield database, changes
    finally:
        drop(client, name)


def make_row(random: Random, number: int, kind: str) -> Document:
    """A document with values that repeat."""

    def pick() -> Any:
        return random.choice(VALUES)

    def pick_some() -> list[Any]:
        return [pick() for _ in range(random.randrange(3))]

    row = {
        "_id": number,
        "k": kind,
        "n": random.choice([0, 1, 2]),
        "name": random.choice(["x", "X", "y"]),
        "key": pick(),
        "keys": pick_some(),
        "sub": {"key": pick()},
        "subs": [{"key": one} for one in pick_some()],
        "ref": pick(),
        "refs": pick_some(),
    }
    for name in [name for name in row if name not in ("_id", "k") and random.random() < 0.08]:
        del row[name]
    return row


def make_rows(db: str, random: Random) -> dict[str, Any]:
    """Row filters of some collections; the view is named, since they refuse it otherwise (58)."""
    rows: dict[str, Any] = {
        f"{db}.{name}": make_filter(random, 1) for name in COLLECTIONS if random.random() < 0.25
    }
    return {f"{db}.view": {}, **rows} if rows else rows


# --- queries --------------------------------------------------------------------------------------

SCHEMA = """
type Row { n: String rows: [Row] one: Row total: Int after: [Row] whole: [BsonDocument] }
type Group { name: BsonDocument count: Int }
type Query { ROOTS }
"""
BELOW = ("", "rows { n }", "one { n }", "total", "after { n }", "whole", "rows { one { n } }")


def make_filter(random: Random, depth: int = 0) -> Document:
    """A filter of every shape, with keys in it more often than not."""
    path, value, some = random.choice(PATHS), random.choice(VALUES), random.sample(VALUES, 2)
    shapes: list[Document] = [
        {path: {"$eq": value}},
        {path: {"$eq": value}},
        {path: value},
        {path: value, "n": {"$lte": 1}},
        {path: {"$in": some}},
        {path: {"$in": some}, "n": {"$gte": 1}},
        {path: {"$in": [*some, Regex("^x")]}},
        {path: {"$gte": 1}},
        {path: {"$ne": value}},
        {"n": random.choice([0, 1, 2]), "name": random.choice(["x", "X", "y"])},
        {"subs": {"$elemMatch": {"key": value}}, "name": "x"},
        {"$expr": {"$eq": ["$n", "$key"]}, "name": "x"},
    ]
    if depth < 2:
        branches = [make_filter(random, depth + 1) for _ in range(random.randrange(1, 3))]
        shapes += [{"$and": branches}, {"$or": branches}, {"$nor": branches}, {}]
    return random.choice(shapes)


def build_fields(db: str, random: Random) -> tuple[VisibleApp, list[tuple[str, Document]]]:
    """An app, and queries with a root field of its own for each of them."""
    roots: list[str] = []
    queries: list[tuple[str, Document]] = []
    mappings: Document = {}
    for number in range(QUERIES):
        type_, mapping = make_field(random)
        roots.append(f"f{number}: {type_}")
        queries.append((f"{{ f{number} {select(type_, random)} }}", {}))
        mappings[f"f{number}"] = {"db": db, **mapping}
    other = {"db": db, "collection": random.choice(COLLECTIONS)}
    row = {
        "rows": {**other, "find": {"key": {"$fk": "ref"}}, "sort": {"_id": 1}},
        "one": {**other, "find": {"key": {"$fk": "ref"}, "n": {"$gte": 0}}, "sort": {"_id": 1}},
        "total": {**other, "find": {"keys": {"$fk": "ref"}}, "count": True},
        "after": {**other, "find": {"n": {"$gt": {"$fk": "n"}}}, "sort": {"_id": 1}},
        "whole": {**other, "find": {"keys": {"$in": {"$fk": "refs"}}}, "sort": {"_id": 1}},
    }
    schema = SCHEMA.replace("ROOTS", " ".join(roots))
    definition = {"_id": "test", "schema": schema, "mappings": {"Query": mappings, "Row": row}}
    return build_app(decode_definition(definition), SETTINGS).visible_to(()), queries


def make_field(random: Random) -> tuple[str, Document]:
    """The type of a root field, and its mapping."""
    place: Document = {"collection": random.choice((*COLLECTIONS, *COLLECTIONS, "view"))}
    query = {**place, "find": make_filter(random)}
    if random.random() < 0.7:
        query["sort"] = random.choice([{"_id": 1}, {"n": -1, "_id": 1}, {"name": 1, "_id": -1}])
    paged = {**query, **random.choice([{}, {"limit": 1}, {"limit": 2}, {"skip": 1}])}
    stages: list[Document] = [
        {"$match": query["find"]},
        random.choice(
            [
                {"$group": {"_id": "$name", "count": {"$sum": 1}}},
                {"$lookup": {"from": "b", "localField": "key", "foreignField": "key", "as": "x"}},
                {"$unionWith": {"coll": "c", "pipeline": [{"$match": make_filter(random)}]}},
                {"$unionWith": "view"},
                {"$match": make_filter(random)},
                {"$facet": {"x": [{"$match": {"n": 1}}], "y": [{"$unionWith": "a"}]}},
            ]
        ),
        {"$sort": {"_id": 1, "n": 1}},
        {"$limit": 6},
    ]
    one = {name: query[name] for name in query if name != "skip"}
    return random.choice(
        [
            ("[Row]", paged),
            ("[Row]", paged),
            ("[BsonDocument]", paged),
            ("Row", one),
            ("Row", one),
            ("Int", {**place, "find": query["find"], "count": True}),
            ("[Group]", {**place, "find": query["find"], "group": {"by": ["name"]}}),
            ("[BsonDocument]", {**place, "stages": stages}),
            ("[Row!]!", {**query, "sort": {"n": 1}, "connection": {}}),
        ]
    )


def select(type_: str, random: Random) -> str:
    """What a query selects of a field."""
    row = f"{{ n {' '.join(random.sample(BELOW, 2))} }}"
    page = f"(first: {random.randrange(3)}) {{ nodes {row} pageInfo {{ hasNextPage }} totalCount }}"
    return {"[Row]": row, "Row": row, "[Group]": "{ name count }", "[Row!]!": page}.get(type_, "")
