"""Results that fit, and the cursors that go on."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docgraph.exchange.errors import BodyError
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.mcp.cut import CutPosition, fit, read_cursor, render_cursor

REQUEST = GraphqlRequest("{ a }", {"x": 1})


def test_what_fits_stays_as_it_is() -> None:
    data = {"a": [1, 2], "b": {"c": None}}

    fitted = fit(data, 1000)

    assert fitted.data is data
    assert fitted.cuts == ()


def test_lists_inside_objects_are_cut_too() -> None:
    fitted = fit({"a": {"b": ["x" * 50] * 10}}, 300)

    (cut,) = fitted.cuts
    assert cut.path == "a.b"
    assert cut.returned == len(fitted.data["a"]["b"]) < 10
    assert cut.total == 10


def test_a_text_in_no_list_is_shortened() -> None:
    fitted = fit({"a": "x" * 1000, "b": 1}, 400)

    assert fitted.data["b"] == 1
    assert fitted.data["a"].startswith("xxxx")
    assert fitted.position is None
    (cut,) = fitted.cuts
    assert (cut.path, cut.total, cut.unit) == ("a", 1000, "characters")


def test_an_element_that_does_not_fit_alone_is_shortened_and_the_next_one_follows() -> None:
    data = {"a": [{"t": "x" * 1000, "n": 1}, {"t": "y", "n": 2}]}

    fitted = fit(data, 400)
    rest = fit(data, 400, 0, fitted.position)

    assert fitted.data["a"][0]["n"] == 1
    assert {cut.path for cut in fitted.cuts} == {"a.0.t", "a"}
    assert rest.data == {"a": [{"t": "y", "n": 2}]}
    assert (rest.cuts, rest.position) == ((), None)


json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=40)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=8), st.dictionaries(st.text(max_size=8), inner, max_size=8)
    ),
    max_leaves=60,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=5), json, max_size=12))
def test_every_shape_fits_and_every_cursor_leads_to_an_end(data: dict[str, Any]) -> None:
    position = None
    for _ in range(1000):
        fitted = fit(data, 300, 20, position)
        assert len(orjson.dumps(fitted.data)) <= 280
        if fitted.position is None:
            break
        assert fitted.position != position
        position = fitted.position
    else:
        raise AssertionError("it does not end")


elements = st.one_of(st.integers(0, 999), st.text("ab", max_size=20), st.just([1, 2]))
shapes = st.dictionaries(
    st.sampled_from("abcd"),
    st.one_of(
        st.none(),
        st.lists(elements, max_size=80),
        st.dictionaries(st.sampled_from("xy"), st.lists(elements, max_size=80), max_size=2),
    ),
    max_size=4,
)


@given(shapes)
def test_the_parts_together_are_the_whole(data: dict[str, Any]) -> None:
    """No element is lost, none comes twice, and no part is larger than allowed."""
    found: dict[str, list[Any]] = {}
    position = None
    for _ in range(200):
        fitted = fit(data, 260, 0, position)
        assert len(orjson.dumps(fitted.data)) <= 260
        _collect(fitted.data, "", found)
        if fitted.position is None:
            break
        cursor = render_cursor("app", REQUEST, fitted.position)
        position = read_cursor(cursor, "app", REQUEST)

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
    cursor = render_cursor("app", REQUEST, CutPosition("a", 3))

    assert read_cursor(cursor, "app", REQUEST) == ("a", 3)
    with pytest.raises(BodyError):
        read_cursor(cursor, *other)
