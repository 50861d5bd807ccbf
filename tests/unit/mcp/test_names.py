"""Names of tools: clear where they can be, unique always, short enough for every client."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from docgraph.mcp.operation_tools import name_tool

OPERATIONS = st.from_regex(r"\A[A-Za-z][A-Za-z0-9_]{0,39}\Z")
URIS = st.text(min_size=1, max_size=60)


def test_a_plain_uri_is_the_beginning_of_the_name() -> None:
    assert name_tool("movies", "topRated") == "movies__topRated"
    assert name_tool("my_shop-2", "x") == "my_shop-2__x"


def test_another_uri_is_told_by_a_digest() -> None:
    assert re.fullmatch(r"v1_movies-[0-9a-f]{8}__x", name_tool("v1/movies", "x"))


@given(URIS, OPERATIONS, URIS, OPERATIONS)
def test_no_two_operations_share_a_name(first: str, one: str, second: str, other: str) -> None:
    names = {name_tool(first, one), name_tool(second, other)}

    assert len(names) == len({(first, one), (second, other)})
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
