"""Ids as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from docgraph.codec import name_id
from docgraph.codec.bson_types import Binary, Decimal128, Int64, ObjectId
from docgraph.codec.id_text import IdText

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
