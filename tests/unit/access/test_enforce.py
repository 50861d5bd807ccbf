"""What permissions do to writes and answers."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.access.enforce import (
    RequestMerger,
    ResponseProjector,
    WriteFilter,
    check_copies,
    merge_into,
    reads_hidden,
    restrict,
    writes_by_hidden,
)
from docgraph.codec.bson_types import Regex
from docgraph.config.section import PluginConfig
from docgraph.exchange import Exchange, Permission, Read, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import SecurityViolation
from docgraph.store.guard.shown import is_shown, project
from tests.unit.access.harness import make_exchange

pytestmark = pytest.mark.anyio

BOOKS = Resource(ResourceType.COLLECTION, "db", "books")
OWNER = {"owner": "ada"}


def permitted(**conditions: Any) -> Exchange:
    exchange = make_exchange("PATCH")
    exchange.permission = Permission("r", namespace="db.books", **conditions)
    return exchange


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (Write(WriteKind.DELETE, filter={"_id": 1}), {"$and": [{"_id": 1}, OWNER]}),
        (Write(WriteKind.DELETE, many=True), OWNER),
        (Write(WriteKind.UPDATE, update={"$set": {}}, filter={}), OWNER),
        (Write(WriteKind.REPLACE, ({"_id": 1},)), {"$and": [{"_id": 1}, OWNER]}),
        (Write(WriteKind.REPLACE, ({"_id": 1}, {"_id": 2})), OWNER),
        (Write(WriteKind.INSERT, ({"_id": 1},)), {}),
    ],
)
def test_a_write_filter_is_added_to_what_a_write_finds(write: Write, expected: Any) -> None:
    assert restrict(write, OWNER).filter == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, {"owner": "ada"}),
        ({"owner": "eve", "x": 1}, {"owner": "ada", "x": 1}),
        ({"owner.name": "eve"}, {"owner": "ada"}),
    ],
)
def test_merged_values_win_in_documents(document: Any, expected: Any) -> None:
    merged = merge_into(Write(WriteKind.INSERT, (document, document)), OWNER)
    assert merged.documents == (expected, expected)


def test_merged_paths_reach_into_documents() -> None:
    write = Write(WriteKind.INSERT, ({"a": {"b": 1, "c": 2}}, {"a": 5}, {}))
    merged = merge_into(write, {"a.b": 9})
    assert merged.documents == ({"a": {"b": 9, "c": 2}}, {"a": {"b": 9}}, {"a": {"b": 9}})
    assert write.documents[0] == {"a": {"b": 1, "c": 2}}


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({"$inc": {"n": 1}}, {"$inc": {"n": 1}, "$set": OWNER}),
        ({"$set": {"owner": "eve", "x": 1}}, {"$set": {"x": 1, "owner": "ada"}}),
        ({"$unset": {"owner": ""}}, {"$set": OWNER}),
        ({"$push": {"owner.x": 1}, "$set": {"a": 1}}, {"$set": {"a": 1, "owner": "ada"}}),
        ({"$set": {"ownership": 1}}, {"$set": {"ownership": 1, "owner": "ada"}}),
    ],
)
def test_merged_values_win_in_operators(update: Any, expected: Any) -> None:
    assert merge_into(Write(WriteKind.UPDATE, update=update), OWNER).update == expected


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({"$set": {"a": {"c": 1}}}, {"$set": {"a": {"c": 1, "b": {"d": 9}}}}),
        ({"$set": {"a": {"b": {"d": 1, "e": 2}}}}, {"$set": {"a": {"b": {"d": 9, "e": 2}}}}),
        ({"$set": {"a.b": {"e": 2}}}, {"$set": {"a.b": {"e": 2, "d": 9}}}),
        ({"$set": {"a.b": 5, "x": 1}}, {"$set": {"a.b": {"d": 9}, "x": 1}}),
        ({"$set": {"a": [1]}}, {"$set": {"a": {"b": {"d": 9}}}}),
        ({"$set": {"a.c": 1}}, {"$set": {"a.c": 1, "a.b.d": 9}}),
        ({"$set": {"ab": 1}}, {"$set": {"ab": 1, "a.b.d": 9}}),
        ({"$unset": {"a": ""}}, {"$set": {"a": {"b": {"d": 9}}}}),
        ({"$unset": {"a.b": "", "x": ""}}, {"$set": {"a.b": {"d": 9}}, "$unset": {"x": ""}}),
        (
            {"$setOnInsert": {"a": {"c": 1, "b": {"d": 5, "e": 2}}}},
            {"$setOnInsert": {"a.c": 1, "a.b.e": 2}, "$set": {"a.b.d": 9}},
        ),
        ({"$setOnInsert": {"a": 5}}, {"$set": {"a.b.d": 9}}),
        ({"$push": {"a": 1}, "$inc": {"a.b": 1, "n": 1}}, {"$inc": {"n": 1}, "$set": {"a.b.d": 9}}),
        ({"$currentDate": {"a": True}}, {"$set": {"a.b.d": 9}}),
        ({"$rename": {"a": "x"}}, {"$set": {"a.b.d": 9}}),
        ({"$rename": {"x": "a.b.d"}}, {"$unset": {"x": ""}, "$set": {"a.b.d": 9}}),
        ({"$rename": {"x": "y"}}, {"$rename": {"x": "y"}, "$set": {"a.b.d": 9}}),
    ],
    ids=str,
)
def test_merged_paths_reach_into_what_operators_set(update: Any, expected: Any) -> None:
    write = Write(WriteKind.UPDATE, update=update)
    assert merge_into(write, {"a.b.d": 9}).update == expected


def test_several_merged_paths_go_into_one_object() -> None:
    write = Write(WriteKind.UPDATE, update={"$set": {"a": {"x": 1}}})
    merged = merge_into(write, {"a.b": 1, "a.c.d": 2, "e": 3})
    assert merged.update == {"$set": {"a": {"x": 1, "b": 1, "c": {"d": 2}}, "e": 3}}


def test_merged_values_come_last_in_a_pipeline_and_stay_values() -> None:
    write = Write(WriteKind.UPDATE, pipeline=({"$set": {"owner": "eve"}},))
    merged = merge_into(write, {"owner": "$other"})
    assert merged.pipeline is not None
    assert merged.pipeline[-1] == {"$set": {"owner": {"$literal": "$other"}}}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({"a": 0}, {"b": {"c": 1, "d": 2}, "l": [{"c": 1}]}),
        ({"b.c": 0}, {"a": 1, "b": {"d": 2}, "l": [{"c": 1}]}),
        ({"a": 1}, {"a": 1}),
        ({"b.c": 1}, {"b": {"c": 1}}),
        ({"l.c": 1, "a.b": 1, "none": 1}, {"l": [{"c": 1}]}),
        ({"l.c": 0, "none.x": 0}, {"a": 1, "b": {"c": 1, "d": 2}, "l": [{}]}),
    ],
)
def test_projections_go_through_objects_and_arrays(shown: Any, expected: Any) -> None:
    document = {"a": 1, "b": {"c": 1, "d": 2}, "l": [{"c": 1}]}
    before = {"a": 1, "b": {"c": 1, "d": 2}, "l": [{"c": 1}]}
    assert project([document], shown) == [expected]
    assert document == before


async def test_only_the_collection_of_the_request_is_concerned() -> None:
    exchange = permitted(write_filter=OWNER, merge_request=OWNER, project_response={"a": 0})
    other = Resource(ResourceType.COLLECTION, "db", "_properties")
    write = Write(WriteKind.UPDATE, update={"$set": {"x": 1}})
    for plugin in (WriteFilter, RequestMerger):
        assert await plugin(PluginConfig()).before_write(exchange, other, write) is write
        assert await plugin(PluginConfig()).before_write(exchange, BOOKS, write) is not write
    projector = ResponseProjector(PluginConfig())
    assert await projector.after_read(exchange, other, [{"a": 1}]) == [{"a": 1}]
    assert await projector.after_read(exchange, BOOKS, [{"a": 1}]) == [{}]


@pytest.mark.parametrize(
    "conditions", [{"write_filter": OWNER}, {"read_filters": {"db.books": OWNER}}]
)
async def test_a_write_under_a_row_filter_finds_nothing_by_expressions(conditions: Any) -> None:
    """Whether they fail would depend on documents that the caller cannot see (decision 49)."""
    write = Write(WriteKind.DELETE, filter={"$expr": {"$eq": [{"$divide": [1, "$a"]}, 1]}})
    enforcing = WriteFilter(PluginConfig())

    with pytest.raises(SecurityViolation, match=r"under a row filter cannot hold \$expr"):
        await enforcing.before_write(permitted(**conditions), BOOKS, write)
    others = {"read_filters": {"db.authors": OWNER}}
    assert await enforcing.before_write(permitted(**others), BOOKS, write) == write


async def test_without_a_permission_nothing_is_demanded() -> None:
    write = Write(WriteKind.DELETE)
    for exchange in (None, make_exchange("DELETE")):
        assert await WriteFilter(PluginConfig()).before_write(exchange, BOOKS, write) is write


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
