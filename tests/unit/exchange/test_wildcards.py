"""Texts with `*` for any text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docgraph.exchange.origin import Wildcard


@pytest.mark.parametrize(
    ("text", "fitting", "others"),
    [
        ("/ping", ["/ping"], ["/pin", "/ping/", ""]),
        ("/ping*", ["/ping", "/ping/a/b"], ["/a/ping"]),
        ("*.a.org", [".a.org", "x.a.org"], ["a.org", "x.a.org.evil"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("*", ["", "a\nb"], []),
    ],
)
def test_the_whole_text_has_to_fit(text: str, fitting: list[str], others: list[str]) -> None:
    assert all(map(Wildcard(text).matches, fitting))
    assert not any(map(Wildcard(text).matches, others))


@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_it_is_what_a_regular_expression_would_say(text: str, tried: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, text.split("*"))), tried) is not None
    assert Wildcard(text).matches(tried) is expected


def test_many_stars_cost_no_more_than_one() -> None:
    assert not Wildcard("*a" * 40 + "*b").matches("a" * 20_000)
