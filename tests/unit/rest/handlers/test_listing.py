"""Tokens of keyset paging; the order itself is tested on the database."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import datetime
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docgraph.codec.bson_types import Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex
from docgraph.codec.keyset import EMPTY, behind
from docgraph.exchange.errors import RequestError
from docgraph.rest.handlers.listing import with_tiebreak
from docgraph.rest.page_tokens import PageStart, parse_token, render_token

ORDER = (("a", 1), ("_id", 1))


@pytest.mark.parametrize(
    "value",
    [
        None,
        EMPTY,
        1,
        1.5,
        Int64(1),
        "ü",
        {"a": [1]},
        ObjectId("1" * 24),
        datetime(2020, 1, 1),
        Decimal128("1.10"),
        Regex("a", "i"),
        MinKey(),
        MaxKey(),
        b"x",
        True,
    ],
)
def test_a_token_keeps_values_and_their_types(value: Any) -> None:
    key, skip = parse_token(ORDER, render_token(ORDER, PageStart([value, 7])))

    assert key is not None
    assert skip == 0
    assert list(key) == [value, 7]
    assert type(key[0]) is type(value)


@given(st.text())
def test_whatever_a_token_is_it_is_read_or_refused(token: str) -> None:
    with pytest.raises(RequestError, match=r"^illegal after parameter, "):
        parse_token(ORDER, token)


def test_the_tiebreak_goes_the_way_of_the_last_property() -> None:
    assert with_tiebreak((("a", 1), ("b", -1))) == (("a", 1), ("b", -1), ("_id", -1))
    assert with_tiebreak((("_id", 1),)) == (("_id", 1),)
    assert with_tiebreak(()) == (("_id", -1),)


def test_behind_an_id_of_the_usual_type_is_one_range_first() -> None:
    id = ObjectId("1" * 24)

    near, far = behind((("_id", -1),), [id])

    assert near["$or"] == [{"$and": [{"_id": {"$lt": id}}, {"$nor": [{"_id": {"$eq": id}}]}]}]
    assert "$or" in far


def test_behind_the_greatest_value_there_is_nothing() -> None:
    assert behind((("_id", 1),), [MaxKey()]) == []


def test_the_short_way_to_a_token_leads_to_the_same_place() -> None:
    id = ObjectId("1" * 24)

    token = render_token((("_id", -1),), PageStart([id]))

    assert parse_token((("_id", -1),), token) == PageStart([id])


@pytest.mark.parametrize("place", [PageStart(["x", 7], 3), PageStart(None, 3), PageStart()])
def test_a_token_keeps_how_many_documents_are_done_behind_its_key(place: PageStart) -> None:
    assert parse_token(ORDER, render_token(ORDER, place)) == place


def build_token(key: bytes, skip: str = "0") -> str:
    return urlsafe_b64encode(b"a,_id\0" + skip.encode() + b"\0" + key).decode()


@pytest.mark.parametrize("skip", ["-1", "100001", '"1"', "true", "1,1"])
def test_a_token_with_another_count_is_refused(skip: str) -> None:
    key = bson.encode({"k": ["x", 7]})
    assert parse_token(ORDER, build_token(key, "1")) == PageStart(["x", 7], 1)

    with pytest.raises(RequestError, match=r"^illegal after parameter, it is not one of ours"):
        parse_token(ORDER, build_token(key, skip))


@pytest.mark.parametrize(
    "key",
    [
        {"k": []},
        {"k": [1]},
        {"k": [1, 2, 3]},
        {"k": [None] * 1400, "e": list(range(1400))},
        {"k": [1, 2], "e": list(range(1400))},
        {"k": {"0": 1, "1": 2}},
        {"k": [1, 2], "e": 1},
        {},
    ],
    ids=range(8),
)
def test_a_token_with_another_key_is_refused(key: Any) -> None:
    with pytest.raises(RequestError, match=r"^illegal after parameter, it is not one of ours"):
        parse_token(ORDER, build_token(bson.encode(key)))


@pytest.mark.parametrize("last", range(0, 256, 4))
@pytest.mark.parametrize("rest", [b"\0", b"\xff"])
def test_behind_every_decimal_that_can_be_stored_there_is_a_condition(
    last: int, rest: bytes
) -> None:
    """Of more than 34 digits, too, which the driver cannot convert."""
    number = Decimal128.from_bid(rest * 15 + bytes([last]))
    token = render_token(ORDER, PageStart([number, 7]))

    key, _ = parse_token(ORDER, token)

    assert key is not None
    assert behind(ORDER, key)
