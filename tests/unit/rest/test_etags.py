"""Etags: what a request demands, as a condition of the write itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange.errors import Overloaded
from docgraph.exchange.headers import Headers
from docgraph.rest.etags import (
    Condition,
    Tags,
    attempts,
    etag_headers,
    find_condition,
    is_demanded,
    parse_tags,
)

ONE, TWO = ObjectId("1" * 24), ObjectId("2" * 24)


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        (["1" * 24], {"1" * 24}),
        (['"abc"'], {"abc"}),
        (['W/"abc"'], {"abc"}),
        (['"a", W/"b" ,c'], {"a", "b", "c"}),
        (['"a,b"'], {"a,b"}),
        (["a", "b"], {"a", "b"}),
        ([""], set()),
    ],
)
def test_tags_are_read_in_every_form(fields: list[str], values: set[str]) -> None:
    assert parse_tags(fields) == Tags(frozenset(values))


@pytest.mark.parametrize("fields", [[" * "], ["*", "*"], ["*, *"]])
def test_a_star_stands_for_every_tag(fields: list[str]) -> None:
    """Also where a proxy has made one of two fields."""
    tags = parse_tags(fields)

    assert tags is not None
    assert tags.any
    assert "anything" in tags


def test_no_header_is_no_tags() -> None:
    assert parse_tags([]) is None


def test_the_condition_of_a_tag_finds_no_document_without_one() -> None:
    """Decision 47."""
    condition = Condition(Tags(frozenset({str(ONE)})))

    assert condition.stored == {"$in": [ONE, str(ONE)], "$not": {"$type": "array"}}
    assert condition.admits(ONE)
    assert not condition.admits(None)
    assert not condition.admits(TWO)


def test_a_demanded_etag_that_is_not_given_admits_only_documents_without_one() -> None:
    condition = Condition(is_lacking=True)

    assert condition.stored == {"$eq": None, "$not": {"$type": "array"}}
    assert condition.admits(None)
    assert not condition.admits(ONE)


def test_if_match_star_demands_nothing() -> None:
    assert find_condition(Headers.of(if_match="*"), demanded=True) is None


def test_if_match_is_a_condition_whether_demanded_or_not() -> None:
    headers = Headers.of(if_match=str(ONE))

    assert find_condition(headers, demanded=False) == find_condition(headers, demanded=True)
    assert find_condition(Headers(), demanded=False) is None
    assert find_condition(Headers(), demanded=True) == Condition(is_lacking=True)


@pytest.mark.parametrize(
    ("policies", "default", "deleting", "expected"),
    [
        ([None, None], "OPTIONAL", True, False),
        ([None, None], "REQUIRED", False, True),
        ([None, None], "REQUIRED_FOR_DELETE", False, False),
        ([None, None], "REQUIRED_FOR_DELETE", True, True),
        (["required", "OPTIONAL"], "OPTIONAL", False, True),
        ([None, "REQUIRED"], "OPTIONAL", False, True),
        (["OPTIONAL", "REQUIRED"], "REQUIRED", False, False),
        (["nonsense", 7], "REQUIRED", False, True),
    ],
)
def test_the_first_policy_that_is_one_decides(
    policies: list[Any], default: str, deleting: bool, expected: bool
) -> None:
    assert is_demanded(policies, default, deleting=deleting) is expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"_etag": ONE}, [("ETag", str(ONE))]),
        ({"_etag": "text"}, [("ETag", "text")]),
        ({"_etag": "a\r\nb"}, []),
        ({"_etag": 7}, []),
        ({}, []),
        (None, []),
    ],
)
def test_only_an_etag_that_can_be_sent_is_sent(
    document: dict[str, Any] | None, expected: list[tuple[str, str]]
) -> None:
    assert etag_headers(document) == expected


@pytest.mark.parametrize("unit", ["a", " ", '"', "a ", "W/", ",", '"a" '])
def test_reading_tags_takes_time_that_grows_with_their_length_only(unit: str) -> None:
    # What takes quadratic time would take hours for this, and hold everybody else meanwhile.
    assert parse_tags([unit * 500_000 + '"']) is not None


pytestmark = pytest.mark.anyio


async def test_tries_end_with_503_and_pauses_stay_short(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float, *_: Any) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)

    with pytest.raises(Overloaded, match="too many concurrent updates of the document") as caught:
        async for _ in attempts("the document"):
            pass

    assert caught.value.status == 503
    assert ("Retry-After", "1") in caught.value.headers
    assert len(pauses) == 39
    assert max(pauses) <= 0.25
