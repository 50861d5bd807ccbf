"""Keys on their way into the database and back."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec import escape_keys, unescape_keys
from docgraph.codec.bson_types import ObjectId


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ({"$arg": "x"}, {"_$arg": "x"}),
        ({"a": {"$typeResolver": {"A": "x"}}}, {"a": {"_$typeResolver": {"A": "x"}}}),
        ({"m": {"location.address.city": 1}}, {"m": {"location::address::city": 1}}),
        ({"a": ["$a", ["$b"], {"$c": "$d"}]}, {"a": ["_$a", ["_$b"], {"_$c": "$d"}]}),
        ({"a": "$category"}, {"a": "$category"}),
        ({"a.b": 1}, {"a::b": 1}),
        ({"id": ObjectId("5" * 24), "n": [1, None]}, {"id": ObjectId("5" * 24), "n": [1, None]}),
    ],
)
def test_definitions_are_stored_as_they_always_were(
    written: dict[str, Any], stored: dict[str, Any]
) -> None:
    """Decision 6: `$x` to `_$x`, `.` in keys to `::`, strings in arrays too, other strings not."""
    assert escape_keys(written) == stored
    assert unescape_keys(stored) == written


@pytest.mark.parametrize(
    "document",
    [
        {"_$x": 1, "$x": 2, "__$x": 3, "_x": 4, "x$": 5},
        {"a": ["_$x", "$x", "__$x", "_x"]},
        {"a": "_$x", "b": "a::b", "c": ["a::b", "a.b"]},
        {"a::b": 1, "a.b": 2, "a:b": 3, "a:.b": 4, "a.:b": 5, "a..b": 6, "a:::b": 7, ":": 8},
        {"a.~b": 1, "a::~b": 2, "a.~c": 3, "a:~d": 4, "a.~d": 5, "a::~c": 6},
        {".": 1, "::": 2, "": 3, "$": 4, "_$": 5, "$.": 6},
    ],
)
def test_reading_gives_back_exactly_what_was_written(document: dict[str, Any]) -> None:
    """Decision 6: also for keys that look as if they were escaped already."""
    stored = escape_keys({"root": document})["root"]

    assert unescape_keys({"root": stored}) == {"root": document}
    assert len(stored) == len(document)
    assert not any(key.startswith("$") or "." in key for key in stored)


def test_plain_keys_of_definitions_put_straight_into_the_database_work() -> None:
    """Decision 6."""
    document = {"mappings": {"User": {"posts": {"find": {"a.b": {"$fk": "_id"}}, "in": ["$x"]}}}}

    assert unescape_keys(document) == document


def test_the_document_itself_is_left_alone() -> None:
    document = {"$a": {"b.c": ["$d"]}}

    escape_keys(document)

    assert document == {"$a": {"b.c": ["$d"]}}
