"""Who shares a cursor, and which place in a stream a client names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId, Regex, Timestamp

from docgraph.events.subscription_key import find_resume_token, identify
from docgraph.exchange import Headers, Request, Subscription
from docgraph.exchange.errors import RequestError

SHOWN = Subscription("db", "things", "all", (), "standard", shown={"_id": 1, "name": 1})
ID = "65f0c0ffee65f0c0ffee65f0"
# Values that the database does not confuse, though some of them look alike as JSON.
DIFFERENT: list[Any] = [
    1,
    Int64(1),
    1.0,
    True,
    "1",
    Decimal128("1"),
    {"$numberInt": "1"},
    {"$numberLong": "1"},
    {"$numberDouble": "1.0"},
    {"$numberDecimal": "1"},
    ObjectId(ID),
    {"$oid": ID},
    ID,
    DatetimeMS(1),
    {"$date": {"$numberLong": "1"}},
    Timestamp(1, 1),
    {"$timestamp": {"t": 1, "i": 1}},
    Regex("a"),
    {"$regularExpression": {"pattern": "a", "options": ""}},
    b"a",
    Binary(b"a", 128),
    {"$binary": {"base64": "YQ==", "subType": "00"}},
    None,
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
    [1],
]


def test_only_the_same_values_of_the_same_types_share_a_cursor() -> None:
    builders: list[Callable[[Any], Subscription]] = [
        lambda value: Subscription("db", "c", "u", (), "standard", row={"team": {"$eq": value}}),
        lambda value: Subscription("db", "c", "u", ({"$match": {"x": value}},), "standard"),
    ]
    for build in builders:
        assert len({identify(build(value)) for value in DIFFERENT}) == len(DIFFERENT)
        assert identify(build(ObjectId(ID))) == identify(build(ObjectId(ID)))


@pytest.mark.parametrize("text", ["82ab0F", '{"_data": "82ab0f"}', ' {"_data":"82AB0F"} '])
def test_a_token_has_one_spelling(text: str) -> None:
    """Tokens sort as the database writes them, in capitals."""
    request = Request("GET", b"/", headers=Headers.of(last_event_id=text))
    assert find_resume_token(request, SHOWN) == {"_data": "82AB0F"}


def request(query: str = "", header: str | None = None) -> Request:
    headers = Headers() if header is None else Headers.of(last_event_id=header)
    return Request("GET", b"/", query_string=query.encode(), headers=headers)


@pytest.mark.parametrize("id", ["82AB", ' {"_data": "82AB"} ', '{"_data":"82AB"}'])
def test_an_event_is_named_by_its_id_or_the_text_in_it(id: str) -> None:
    assert find_resume_token(request(header=id), SHOWN) == {"_data": "82AB"}


@pytest.mark.parametrize(
    "id",
    [
        "82ab.82c0",
        '{"_data": "82AB.82C0"}',
        '{"_data": "82AB", "_typeBits": {"$binary": {"base64": "gsA=", "subType": "00"}}}',
    ],
)
def test_an_id_has_the_types_of_its_numbers(id: str) -> None:
    token = find_resume_token(request(header=id), SHOWN)
    assert token == {"_data": "82AB", "_typeBits": b"\x82\xc0"}


@pytest.mark.parametrize(("query", "header"), [("", None), ("resume-after=", ""), ("a=b", None)])
def test_who_names_none_begins_now(query: str, header: str | None) -> None:
    assert find_resume_token(request(query, header), SHOWN) is None


def test_a_browser_that_connects_again_goes_on_after_what_it_got_last() -> None:
    """It asks the same address, whose parameter is from the first time."""
    asked = request("resume-after=8201", header='{"_data":"8202"}')

    assert find_resume_token(asked, SHOWN) == {"_data": "8202"}


@pytest.mark.parametrize(
    "id",
    [
        "x",
        "{",
        "[]",
        '{"_data": 5}',
        '{"_data": "x"}',
        '{"_data": "82", "a": 1}',
        "8" * 5000,
        "82.",
        "82.8",
        ".82",
    ],
)
def test_what_is_no_id_is_refused(id: str) -> None:
    with pytest.raises(RequestError, match="Last-Event-ID is not the id of an event"):
        find_resume_token(request(header=id), SHOWN)
