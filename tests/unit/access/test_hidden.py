"""What is hidden cannot be asked for."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.access.enforce import check_copies, reads_hidden, writes_by_hidden
from docgraph.codec.bson_types import Regex
from docgraph.exchange import Read, Write, WriteKind
from docgraph.exchange.errors import SecurityViolation
from docgraph.store.guard.shown import is_shown

HIDES = {"salary": 0, "home.street": 0}
KEEPS = {"name": 1, "home.city": 1}


@pytest.mark.parametrize(
    ("path", "hides", "keeps"),
    [
        ("name", True, True),
        ("name.first", True, True),
        ("salary", False, False),
        ("salary.0.amount", False, False),
        ("home", False, False),
        ("home.city", True, True),
        ("home.0.city", True, False),
        ("home.street", False, False),
        ("_id", True, False),
        ("0", True, False),
        ("other", True, False),
        ("$where", False, False),
        ("$expr", False, False),
        ("$text", False, False),
    ],
)
def test_paths_that_are_shown(path: str, hides: bool, keeps: bool) -> None:
    assert is_shown(path, HIDES) is hides
    assert is_shown(path, KEEPS) is keeps


@pytest.mark.parametrize("path", ["years.2024", "years.2024.x", "years.0.2024", "years", "2023.x"])
def test_properties_that_look_like_positions_are_hidden_too(path: str) -> None:
    assert not is_shown(path, {"years.2024": 0, "2023": 0})


@pytest.mark.parametrize(
    ("read", "hides", "keeps"),
    [
        (Read(), False, False),
        (Read(filter={"name": "x"}), False, False),
        (Read(filter={"other": "x"}), False, True),
        (Read(filter={"salary": {"$gt": 5}}), True, True),
        (Read(filter={"$or": [{"name": 1}, {"$and": [{"salary.x": 1}]}]}), True, True),
        (Read(filter={"$and": ({"name": 1}, {"salary": 1})}), True, True),
        (Read(filter={"$nor": [{"home": {"street": "x"}}]}), True, True),
        (Read(filter={"$nor": [{}]}), False, False),
        (Read(filter={"$and": {"name": 1}}), True, True),
        (Read(filter={"$and": ["name"]}), True, True),
        (Read(filter={"$expr": {"$gt": ["$salary", 5]}}), True, True),
        (Read(filter={"$expr": {"$gt": ["$salary", {"$literal": 5}]}}), True, True),
        (Read(filter={"$expr": {"$gt": ["$$ROOT", {"$literal": 5}]}}), True, True),
        (Read(filter={"$expr": {"$gt": ["$name", "$salary"]}}), True, True),
        (Read(filter={"$expr": {"$gt": ["$name", {"$literal": 5}]}}), False, False),
        (Read(filter={"$where": "this.salary"}), True, True),
        (Read(filter={"$jsonSchema": {"required": ["salary"]}}), True, True),
        (Read(filter={"$text": {"$search": "x"}}), True, True),
        (Read(filter={"$comment": "x"}), False, False),
        (Read(filter={"name": {"$elemMatch": {"$where": "1"}}}), True, True),
        (Read(filter={"_id": 1}), False, False),
        (Read(filter={"_id": {"$in": [1, 2]}, "_etag": None}), False, False),
        (Read(filter={"_id": {"a": 1}}), False, False),
        (Read(filter={"_id": {"$gt": 1}}), False, True),
        (Read(filter={"_id": {"$in": [Regex("^a")]}}), False, True),
        (Read(filter={"_id": Regex("^a")}), False, True),
        (Read(filter={"_id": {"$in": [{"$regex": "^a"}]}}), False, True),
        (Read(sort=(("name", 1),)), False, False),
        (Read(sort=(("name", 1), ("salary", -1))), True, True),
        (Read(sort=(("home", 1),)), True, True),
        (Read(sort=(("_id", -1),)), False, False),
        (Read(sort=(("name", {"$meta": "textScore"}),)), True, True),
        (Read(hint={"salary": 1}), True, True),
        (Read(hint={"name": 1}), True, True),
        (Read(hint={"_id": 1}), False, False),
        (Read(hint={"$natural": 1}), False, False),
        (Read(hint={"$**": 1}), True, True),
        (Read(hint="_id_"), False, False),
        (Read(hint="name_1"), True, True),
        (Read(projection={"x": "$salary"}), True, True),
        (Read(projection={"x": {"$toString": "$salary"}}), True, True),
        (Read(projection={"x": ["$salary"]}), True, True),
        (Read(projection={"x": None}), True, True),
        (Read(projection={"name": 1, "salary": True, "home": 0.0}), False, False),
        (Read(projection={"name": {"$slice": 1}}), False, False),
        (Read(projection={"name": {"$slice": [1, 2]}}), False, False),
        (Read(projection={"x": {"$slice": ["$salary", 1]}}), True, True),
        (Read(projection={"name": {"$elemMatch": {"a": 1}}}), False, False),
        (Read(projection={"home": {"$elemMatch": {"street": 1}}}), True, True),
        (Read(projection={"name": {"$slice": 1, "$elemMatch": {}}}), True, True),
        (Read(projection={"x": {"$meta": "indexKey"}}), True, True),
        (Read(projection={"x": {"y": "$salary"}}), True, True),
        (Read(projection={"x": {}}), True, True),
    ],
)
def test_reads_that_use_what_is_hidden(read: Read, hides: bool, keeps: bool) -> None:
    assert reads_hidden(read, HIDES) is hides
    assert reads_hidden(read, KEEPS) is keeps


@pytest.mark.parametrize(
    ("shown", "path", "expected"),
    [
        (HIDES, "name", False),
        (HIDES, "salary", True),
        (HIDES, "_id", False),
        ({"_id": 0}, "_id", True),
        (KEEPS, "_id", True),
        ({**KEEPS, "_id": 1}, "_id", False),
    ],
)
def test_sort_keys_are_told_of_what_is_shown_alone(shown: Any, path: str, expected: bool) -> None:
    """They go into the link to the next page."""
    read = Read(sort=((path, 1),), projection={"key": {"$meta": "sortKey"}})
    assert reads_hidden(read, shown) is expected


@pytest.mark.parametrize(
    ("filter", "expected"), [({}, False), ({"name": 1}, False), ({"salary": 1}, True)]
)
@pytest.mark.parametrize("kind", [WriteKind.UPDATE, WriteKind.DELETE, WriteKind.REPLACE])
def test_writes_that_find_documents_by_what_is_hidden(
    kind: WriteKind, filter: Any, expected: bool
) -> None:
    assert writes_by_hidden(Write(kind, filter=filter), HIDES) is expected


@pytest.mark.parametrize(
    "write",
    [
        Write(WriteKind.UPDATE, pipeline=({"$set": {"name": "$salary"}},)),
        Write(WriteKind.UPDATE, update={"$rename": {"salary": "name"}}),
        Write(WriteKind.UPDATE, update={"$rename": {"home": "name"}}),
        Write(WriteKind.REPLACE, applied={"$rename": {"salary": "name"}}),
        Write(WriteKind.UPDATE, update={"$pull": {"home": {"street": "x"}}}),
        Write(WriteKind.UPDATE, update={"$push": {"home": {"$each": [], "$sort": {"street": 1}}}}),
        Write(WriteKind.UPDATE, update={"$max": {"home": {"street": "m"}}}),
        Write(WriteKind.UPDATE, update={"$inc": {"salary": 1 << 31}}),
        Write(WriteKind.UPDATE, update={"$inc": {"salary": -1 << 62}}),
        Write(WriteKind.UPDATE, update={"$inc": {"salary": 1e300}}),
        Write(WriteKind.UPDATE, update={"$mul": {"salary": 2}}),
        Write(WriteKind.UPDATE, update={"$bit": {"salary": {"or": 1}}}),
        Write(WriteKind.REPLACE, applied={"$mul": {"salary": 2}}),
    ],
)
def test_writes_that_could_copy_it(write: Write) -> None:
    with pytest.raises(SecurityViolation):
        check_copies(write, HIDES)


def test_other_writes_are_left_alone() -> None:
    check_copies(Write(WriteKind.UPDATE, update={"$rename": {"name": "nick"}}), HIDES)
    check_copies(Write(WriteKind.UPDATE, update={"$set": {"salary": 1}}), HIDES)
    check_copies(Write(WriteKind.UPDATE, update={"$inc": {"salary": 1}}), HIDES)
    check_copies(Write(WriteKind.UPDATE, update={"$set": {"home": {"city": "x"}}}), HIDES)
    check_copies(Write(WriteKind.UPDATE, update={"$push": {"tags": "x"}}), HIDES)
    check_copies(Write(WriteKind.DELETE), HIDES)
