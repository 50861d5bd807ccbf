"""Cursors keep every sort key, show nothing of it, and belong to one list."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docgraph.codec.bson_types import (
    Binary,
    Code,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from docgraph.codec.keyset import EMPTY
from docgraph.graphql.execute.cursors import CURSOR_LENGTHS, BadCursor, CursorKeys, Cursors

KEYS = CursorKeys.derive(["a" * 32])
LIST = Cursors.bind(KEYS, "app", "Query.posts", (("title", 1), ("_id", 1)))


@pytest.mark.parametrize(
    "value",
    [
        None, EMPTY, 1, 1.5, Int64(1), "ü", {"a": [1]}, ObjectId("1" * 24), datetime(2020, 1, 1),
        Decimal128("1.10"), Regex("a", "i"), MinKey(), MaxKey(), b"x", True, Binary(b"x", 5),
        Binary(UUID(int=7).bytes, 4), Binary(UUID(int=7).bytes, 3), Timestamp(1, 2), Code("x"),
        {"$gt": 1},
    ],
)  # fmt: skip
def test_a_cursor_keeps_values_and_their_types(value: Any) -> None:
    position = LIST.parse(LIST.render([value, 7], 7), 2)

    assert position.key == [value, 7]
    assert type(position.key[0]) is type(value)


@pytest.mark.parametrize(("one", "other"), [("", "a" * 20), (1, Int64(2**60)), (None, True)])
def test_the_length_of_a_cursor_does_not_show_a_short_key(one: Any, other: Any) -> None:
    assert len(LIST.render([one, 1], 1)) == len(LIST.render([other, 1], 1))


def test_a_cursor_with_a_very_long_key_has_the_id_alone() -> None:
    cursor = LIST.render(["x" * 5000, 7], 7)

    assert len(cursor) < 150
    assert LIST.parse(cursor, 2) == (None, 7)


@pytest.mark.parametrize(
    "other",
    [
        Cursors.bind(KEYS, "other", "Query.posts", (("title", 1), ("_id", 1))),
        Cursors.bind(KEYS, "app", "Query.posts", (("title", -1), ("_id", 1))),
        Cursors.bind(CursorKeys.derive(["b" * 32]), "app", "Query.posts"),
    ],
)
def test_a_cursor_belongs_to_its_list_and_key(other: Cursors) -> None:
    with pytest.raises(BadCursor):
        other.parse(LIST.render(["a", 1], 1), 2)


def test_the_second_key_is_accepted_and_not_used() -> None:
    old, new = ["a" * 32], ["b" * 32]
    both = Cursors.bind(CursorKeys.derive(new + old), 1)

    assert both.parse(Cursors.bind(CursorKeys.derive(old), 1).render([1], 1), 1).key == [1]
    assert Cursors.bind(CursorKeys.derive(new), 1).parse(both.render([1], 1), 1).key == [1]


@given(st.text() | st.binary().map(lambda one: one.hex()))
def test_any_other_text_is_rejected(text: str) -> None:
    with pytest.raises(BadCursor):
        LIST.parse(text, 2)


def test_cursors_have_a_few_lengths_only() -> None:
    """`docgraph access fuzz` recognizes them by it."""
    lengths = {len(LIST.render(["x" * size, 1], 1)) for size in range(1100)}

    assert lengths == set(CURSOR_LENGTHS)


def test_a_long_id_has_a_cursor_too() -> None:
    by_id = Cursors.bind(KEYS, "app", "Query.posts", (("_id", 1),))
    id = "x" * 5000

    assert by_id.parse(by_id.render([id], id), 1).key == [id]
    assert LIST.parse(LIST.render(["a", id], id), 2) == (None, id)
