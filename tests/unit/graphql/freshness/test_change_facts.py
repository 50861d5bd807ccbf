"""What a change event says; what is not understood concerns everything."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import ObjectId
from bson.raw_bson import RawBSONDocument

from docgraph.graphql.freshness.change_facts import (
    EVERYTHING,
    ChangeFacts,
    is_touched,
    split_path,
)

NS = {"db": "shop", "coll": "posts"}


def read(**parts: Any) -> ChangeFacts:
    """The facts of an event, which are the same raw and decoded."""
    event = {"ns": NS, "documentKey": {"_id": 1}, **parts}
    facts = ChangeFacts.read(RawBSONDocument(bson.encode(event)))
    assert facts == ChangeFacts.read(event)
    return facts


def test_an_insertion_has_its_document() -> None:
    facts = read(operationType="insert", fullDocument={"_id": 1, "a": 2})
    assert facts == ChangeFacts("insert", "shop.posts", 1, {"_id": 1, "a": 2})


def test_a_deletion_has_an_id() -> None:
    assert read(operationType="delete") == ChangeFacts("delete", "shop.posts", 1)


def test_the_id_is_compared_as_the_database_does() -> None:
    key = {"_id": 1.0, "tenant": "a"}  # with the shard key
    assert read(operationType="delete", documentKey=key).id == 1
    key = {"_id": ObjectId(b"docgraph-key")}
    assert read(operationType="delete", documentKey=key).id == key["_id"]


def test_an_update_names_what_it_touched() -> None:
    facts = read(
        operationType="update",
        fullDocument={"_id": 1},
        updateDescription={
            "updatedFields": {"a.b": 1, "items.0.sku": 2},
            "removedFields": ["c"],
            "truncatedArrays": [{"field": "tags", "newSize": 2}],
        },
    )
    assert facts.touched == {("a", "b"), ("items", "sku"), ("c",), ("tags",)}


def test_an_update_of_a_document_that_was_deleted_since() -> None:
    facts = read(
        operationType="update",
        fullDocument=None,
        updateDescription={"updatedFields": {"a": 1}, "removedFields": []},
    )
    assert facts == ChangeFacts("update", "shop.posts", 1, None, frozenset({("a",)}))


@pytest.mark.parametrize(
    "parts",
    [
        {"updateDescription": {"updatedFields": {"a": 1}}},  # not looked up
        {"fullDocument": {"_id": 1}},  # no description
    ],
)
def test_an_update_that_is_not_known_in_full_touches_everything(parts: dict[str, Any]) -> None:
    facts = read(operationType="update", **parts)
    assert is_touched(("any", "path"), facts.touched)


def test_a_document_that_cannot_be_compared_in_memory_is_not_known() -> None:
    """The database compares the first of two values of one name, the driver decodes the last."""
    twice = b"\x13\0\0\0\x10a\0\1\0\0\0\x10a\0\2\0\0\0\0"
    event = bson.encode({"operationType": "update", "ns": NS, "documentKey": {"_id": 1}})
    with_document = event[4:-1] + b"\x03fullDocument\0" + twice + b"\0"
    raw = (len(with_document) + 4).to_bytes(4, "little") + with_document
    facts = ChangeFacts.read(RawBSONDocument(raw))
    assert facts.document is None
    assert is_touched(("a",), facts.touched)


@pytest.mark.parametrize(
    "event",
    [
        {"operationType": "rename", "ns": NS, "to": {"db": "shop", "coll": "other"}},
        {"operationType": "dropDatabase", "ns": {"db": "shop"}},
        {"operationType": "invalidate"},
        {"operationType": "reshardCollection", "ns": NS},
        {"operationType": "insert", "ns": NS, "fullDocument": {}},
        {},
    ],
)
def test_everything_else_concerns_everything(event: dict[str, Any]) -> None:
    assert ChangeFacts.read(event) == EVERYTHING


def test_a_dropped_collection_has_changed_as_a_whole() -> None:
    facts = ChangeFacts.read({"operationType": "drop", "ns": NS})
    assert facts == ChangeFacts("other", "shop.posts")


@pytest.mark.parametrize(
    ("path", "touched", "expected"),
    [
        ("a", "a", True),
        ("a.b", "a", True),
        ("a", "a.b", True),
        ("a.b", "a.0.b", True),
        ("a.b", "a.0", True),
        ("a.b", "a.0.c", False),
        ("a.b", "a.c", False),
        ("a", "ab", False),
        ("a.b", "b", False),
        ("a", "0", True),  # which may be a name
    ],
)
def test_touched_paths(path: str, touched: str, expected: bool) -> None:
    assert is_touched(split_path(path), frozenset({split_path(touched)})) is expected
