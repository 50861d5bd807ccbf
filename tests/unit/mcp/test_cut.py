"""Results that fit, and the cursors that go on."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docgraph.exchange.errors import BodyError
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.mcp.cut import fit, read_cursor, render_cursor

REQUEST = GraphqlRequest("{ a }", {"x": 1})


def test_what_fits_stays_as_it_is() -> None:
    data = {"a": [1, 2], "b": {"c": None}}

    fitted = fit(data, 1000)

    assert fitted.data is data
    assert fitted.cuts == ()


def test_lists_inside_objects_are_cut_too() -> None:
    fitted = fit({"a": {"b": ["x" * 10] * 10}}, 60)

    (cut,) = fitted.cuts
    assert cut.path == "a.b"
    assert cut.returned == len(fitted.data["a"]["b"]) < 10
    assert cut.total == 10


def test_what_is_no_list_cannot_be_cut() -> None:
    with pytest.raises(OperationRefused, match="the result alone is larger than 50 bytes"):
        fit({"a": "x" * 100}, 50)


def test_an_element_without_room_is_named() -> None:
    with pytest.raises(OperationRefused, match="one element of a alone is larger"):
        fit({"a": ["x" * 100]}, 50)


elements = st.one_of(st.integers(0, 999), st.text("ab", max_size=8), st.just([1, 2]))
shapes = st.dictionaries(
    st.sampled_from("abcd"),
    st.one_of(
        st.none(),
        st.lists(elements, max_size=30),
        st.dictionaries(st.sampled_from("xy"), st.lists(elements, max_size=30), max_size=2),
    ),
    max_size=4,
)


@given(shapes)
def test_the_parts_together_are_the_whole(data: dict[str, Any]) -> None:
    """No element is lost, none comes twice, and no part is larger than allowed."""
    found: dict[str, list[Any]] = {}
    offsets = None
    for _ in range(200):
        fitted = fit(data, 150, 0, offsets)
        assert len(orjson.dumps(fitted.data)) <= 150
        _collect(fitted.data, "", found)
        if not fitted.cuts:
            break
        cursor = render_cursor("app", REQUEST, fitted.offsets)
        offsets = read_cursor(cursor, "app", REQUEST)

    whole: dict[str, list[Any]] = {}
    _collect(data, "", whole)
    assert found == whole


def _collect(value: Any, path: str, found: dict[str, list[Any]]) -> None:
    if isinstance(value, list):
        found.setdefault(path, []).extend(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _collect(inner, f"{path}.{key}", found)


@pytest.mark.parametrize(
    "other",
    [
        ("other", REQUEST),
        ("app", GraphqlRequest("{ b }", {"x": 1})),
        ("app", GraphqlRequest("{ a }", {"x": 2})),
        ("app", GraphqlRequest("{ a }", {"x": 1}, "B")),
    ],
)
def test_a_cursor_is_bound_to_app_query_and_variables(other: tuple[str, GraphqlRequest]) -> None:
    cursor = render_cursor("app", REQUEST, {"a": 3})

    assert read_cursor(cursor, "app", REQUEST) == {"a": 3}
    with pytest.raises(BodyError):
        read_cursor(cursor, *other)
