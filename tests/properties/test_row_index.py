"""The index of row filters, and filters over images that are sent along, decide as `find` does."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import bson
import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.codec_options import CodecOptions
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.collection import Collection

from docgraph.events.row_index import RowIndex
from docgraph.store.exact import decode_exactly, keep_names
from docgraph.store.guard.event_stages import find_roots
from tests.chance import examples
from tests.properties.stores import Document, StoreOnLoop, new_database
from tests.properties.test_watched_rows import filters as general_filters

Things = Collection[Document]
Value = tuple[int, bytes]  # of BSON: a type, and the bytes after the name

# --- filters --------------------------------------------------------------------------------------

SCALARS = [
    True, False, 0, 1, 2, -1, -0.0, 1.0, 1.5, 0.1, 1e300, float("nan"), float("inf"), -float("inf"),
    Int64(1), Int64(2**53 + 1), float(2**53), Int64(2**63 - 1), float(2**63), Int64(-(2**63)),
    Decimal128("1.0"), Decimal128("-0"), Decimal128("0E+6000"), Decimal128("0.1"),
    Decimal128("0.1000000000000000055511151231257827"), Decimal128("9007199254740993"),
    Decimal128("9223372036854775807.0"), Decimal128("9223372036854775808"), Decimal128("1E+300"),
    Decimal128("1.00E+400"), Decimal128("10E+399"), Decimal128("1E-6176"), Decimal128("NaN"),
    Decimal128("sNaN"), Decimal128("-Infinity"), "", "a", "ab", "1", "é", "e\u0301", "a\0b", "$a",
    "long " * 250, ObjectId(b"docgraph-key"), datetime(2020, 1, 1), datetime(1, 1, 1),
    datetime(2020, 1, 1) + timedelta(microseconds=999), DatetimeMS(2**62), DatetimeMS(2**53 + 1),
    DatetimeMS(0), b"", b"a", Binary(b"a", 5), Binary(b"a", 2), Binary(b"0123456789abcdef", 4),
    Timestamp(1, 2), Timestamp(0, 0),
]  # fmt: skip
scalars = st.sampled_from(SCALARS)
lists = st.lists(scalars, max_size=4)
conditions = st.one_of(
    scalars,
    scalars.map(lambda value: {"$eq": value}),
    lists.map(lambda values: {"$in": values}),
    st.builds(lambda value, values: {"$eq": value, "$in": [value, *values]}, scalars, lists),
)
paths = st.sampled_from(["a", "b", "a.b", "a.a", "b.a", "a.b.a", "é", "a.x y"])
leaves = st.dictionaries(paths, conditions, min_size=1, max_size=2)
filters = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda operator, branches, more: {operator: branches, **more},
        st.sampled_from(["$and", "$or"]),
        st.lists(inner, min_size=1, max_size=3),
        st.just({}) | leaves,
    ),
    max_leaves=5,
)

# --- documents, as bytes: the driver cannot encode all that is stored -----------------------------


def encode(value: Any) -> Value:
    data = bson.encode({"": value})
    return data[4], data[6:-1]


def text(data: bytes) -> bytes:
    return struct.pack("<i", len(data) + 1) + data + b"\0"


def build(fields: list[tuple[str, Value]]) -> bytes:
    body = b"".join(bytes([kind]) + name.encode() + b"\0" + data for name, (kind, data) in fields)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


STRANGE: list[Value] = [
    (0x06, b""),  # undefined
    (0x0C, text(b"coll") + b"docgraph-key"),  # a pointer
    (0x0E, text(b"a")),  # a symbol
    (0x02, text(b"\xff")),  # no UTF-8
    (0x05, b"\3\0\0\0\4abc"),  # a UUID of three bytes
    (0x05, b"\3\0\0\0\2abc"),  # old binary data without its length
    (0x13, b"\xff" * 14 + b"\xed\x63"),  # decimals with more digits than there are
    (0x13, b"\xff" * 14 + b"\x47\x30"),
    (0x01, struct.pack("<Q", 0x7FF0000000000ABC)),  # another NaN
    *map(encode, [None, Regex("a"), Code("a"), Code("a", {}), MinKey(), MaxKey()]),
    *map(encode, [{"$ref": "a", "$id": 1, "b": 1}, {"b": 1, "$ref": "a", "$id": 1}]),
]
names = st.sampled_from(["a", "b", "a", "b", "0", "a.b", "$a", "", "é", "x y"])
values = st.recursive(
    st.one_of(st.sampled_from(list(map(encode, SCALARS))), st.sampled_from(STRANGE)),
    lambda inner: st.one_of(
        st.lists(st.tuples(names, inner), max_size=3).map(lambda some: (0x03, build(some))),
        st.lists(inner, max_size=3).map(
            lambda some: (0x04, build([(str(n), one) for n, one in enumerate(some)]))
        ),
    ),
    max_leaves=6,
)
documents = st.lists(st.tuples(names, values), max_size=4)


class Matcher(StoreOnLoop):
    """Lets the database decide, by documents that are sent along."""

    def match(
        self, documents: list[bytes], filters: list[Document], *, has_documents: bool
    ) -> list[Any]:
        pipelines = self._store.streams.pipelines
        pipelines._has_documents = has_documents
        sent = [RawBSONDocument(one) for one in documents]
        return self._runner.run(pipelines.match_documents("test", sent, filters))


@pytest.fixture
def matcher(mongo_uri: str) -> Iterator[Matcher]:
    """One for all examples."""
    with Matcher(mongo_uri) as matcher:
        yield matcher


@pytest.fixture(scope="module")
def things(mongo_client: MongoClient[Document]) -> Iterator[Things]:
    with new_database(mongo_client) as base:
        yield base.things


def store(things: Things, some: list[list[tuple[str, Value]]]) -> list[bytes]:
    """Store documents under their positions; return them as they are stored."""
    sent = [build([("_id", encode(n)), *fields]) for n, fields in enumerate(some)]
    things.delete_many({})
    things.insert_many(map(RawBSONDocument, sent))
    raw = things.with_options(CodecOptions[Any](document_class=RawBSONDocument))
    return [one.raw for one in raw.find().sort("_id", 1)]


def find(things: Things, filter: Document) -> set[int]:
    return {one["_id"] for one in things.find(filter, {"_id": 1})}


def test_each_value_is_compared_with_each_other_as_find_does(things: Things) -> None:
    stored = store(things, [[("a", one)] for one in [*map(encode, SCALARS), *STRANGE]])
    decoded = [decode_exactly(one) for one in stored]
    exact = {position for position, one in enumerate(decoded) if one is not None}
    index = RowIndex()
    for value in SCALARS:
        assert index.add(0, {"a": value})
        matched = {at for at, one in enumerate(decoded) if one is not None and index.match(one)}
        assert matched == find(things, {"a": value}) & exact, value


few = settings(max_examples=examples(160), suppress_health_check=list(HealthCheck))


@few
@given(
    some=st.lists(documents, min_size=1, max_size=12),
    wanted=st.lists(filters, min_size=1, max_size=12),
)
def test_the_index_decides_as_find_does(things: Things, some: Any, wanted: list[Document]) -> None:
    stored = store(things, some)
    index = RowIndex()
    added = [index.add(n, one) for n, one in enumerate(wanted)]
    found = [find(things, one) for one in wanted]

    assert all(added)
    for position, data in enumerate(stored):
        if (document := decode_exactly(data)) is not None:
            expected = {n for n, positions in enumerate(found) if position in positions}
            assert index.match(document) == expected


@few
@given(
    some=st.lists(documents, min_size=1, max_size=12),
    wanted=st.lists(filters | general_filters, min_size=1, max_size=12),
    has_documents=st.booleans(),
)
def test_the_database_decides_about_sent_documents_as_find_does(
    things: Things, matcher: Matcher, some: Any, wanted: list[Document], has_documents: bool
) -> None:
    stored = store(things, some)

    found = matcher.match(stored, wanted, has_documents=has_documents)

    assert [set(one) for one in found] == [find(things, one) for one in wanted]


@few
@given(some=st.lists(documents, min_size=1, max_size=12), wanted=filters | general_filters)
def test_a_filter_depends_on_the_properties_that_it_names(
    things: Things, matcher: Matcher, some: Any, wanted: Document
) -> None:
    stored = store(things, some)
    roots = find_roots(wanted)
    assume(roots is not None)

    (found,) = matcher.match(
        [keep_names(one, roots or set()) for one in stored], [wanted], has_documents=True
    )

    assert set(found) == find(things, wanted)
