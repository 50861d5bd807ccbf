"""Ids as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from docgraph.codec import name_id
from docgraph.codec.bson_types import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from docgraph.codec.id_text import IdText, render_id_text

DIGITS = "64b5f0c2a1d3e4f5a6b7c8d9"


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("editors", "editors"),
        (ObjectId(DIGITS), DIGITS),
        (5, "5"),
        (Int64(5), "5"),
        (True, "true"),
        (None, "null"),
        ({"app": "shop", "n": ObjectId(DIGITS)}, f'{{"app":"shop","n":{{"$oid":"{DIGITS}"}}}}'),
        (datetime(1970, 1, 1, tzinfo=UTC), '{"$date":0}'),
        (Binary(b"\0", 7), '{"$binary":{"base64":"AA==","subType":"07"}}'),
        (2**70, str(2**70)),
    ],
)
def test_an_id_is_named_as_its_author_would(id: Any, name: str) -> None:
    assert name_id(id) == name


@pytest.mark.parametrize("text", ["1" * 40, "0." + "1" * 40, "1e9999", "-1e9999", "1e-9999"])
def test_a_number_that_no_decimal_holds_is_only_a_text(text: str) -> None:
    assert IdText(text).candidates == (text,)


def test_a_whole_number_beyond_64_bits_may_be_a_decimal() -> None:
    text = "9999999999999999999"
    assert IdText(text).candidates == (text, Decimal128(text))


@pytest.mark.parametrize(
    "value",
    [
        "ada",
        ObjectId(DIGITS),
        True,
        0,
        -7,
        Int64(2**62),
        2.0,
        1e22,
        float("inf"),
        Decimal128("1.10"),
        Decimal128("123456789012345678901234"),
        Decimal128("-0"),
        Decimal128("9E+6111"),
        datetime(1, 1, 1),
        datetime(2024, 2, 29, 1, 2, 3, 4_000),
        DatetimeMS(2**62),
        DatetimeMS(-(2**62)),
        Timestamp(2**32 - 1, 0),
        Binary(bytes(range(16)), 4),
        Binary(bytes(range(16)), 3),
        Binary(bytes(range(16)), 5),
        Binary(b"\xfb\xff", 128),
        b"\xfb\xff\x00",
        b"",
    ],
)
def test_every_value_is_among_those_that_its_text_finds(value: Any) -> None:
    """Decision 48."""
    text = render_id_text(value)

    assert text is not None
    assert (type(value), value) in [(type(one), one) for one in IdText(text).candidates]


@pytest.mark.parametrize(
    "value",
    [Code("x"), Regex("x"), MinKey(), None, {"a": 1}, [1], Binary(b"x", 6), Binary(b"x", 4)],
)
def test_values_that_no_text_finds_have_none(value: Any) -> None:
    assert render_id_text(value) is None


@pytest.mark.parametrize(
    "text", ["4294967296:0", "2024-02-30T00:00:00.000Z", "YQ", "YR==", "a_b-", "-0:1"]
)
def test_a_text_that_only_resembles_another_kind_is_only_a_text(text: str) -> None:
    assert IdText(text).candidates == (text,)
