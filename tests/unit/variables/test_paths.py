"""Paths of `$arg`, `$fk` and field mappings.

What the names of variables say.
"""

from __future__ import annotations

import pytest

from docgraph.variables import UNBOUND, compile_field, get_field, get_value, parse_path, render_path
from docgraph.variables.paths import get_bound, is_momentary


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("a.0", ("a", "0")),
        ("a[0].b", ("a", "0", "b")),
        ("a['k.x']", ("a", "k.x")),
        ('a["k"][1]', ("a", "k", "1")),
        ("_id", ("_id",)),
    ],
)
def test_all_spellings_of_decision_10_are_read(text: str, path: tuple[str, ...]) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["", ".a", "a..b", "a.", "a[", "a[x]", "a['k]", "a b", "a[0]b"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="path"):
        parse_path(text)


def test_a_path_that_dot_notation_cannot_say_is_cut_for_projections() -> None:
    assert render_path(("a", "0", "b")) == "a.0.b"
    assert render_path(("a", "k.x", "b")) == "a"
    assert render_path(("$x",)) == ""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("a", "b"), 1),
        (("list", "1"), 20),
        (("list", "2"), UNBOUND),
        (("list", "x"), UNBOUND),
        (("none",), None),
        (("none", "x"), UNBOUND),
        (("missing",), UNBOUND),
        (("a", "b", "c"), UNBOUND),
    ],
)
def test_a_name_is_unbound_where_nothing_stands(path: tuple[str, ...], expected: object) -> None:
    """Decision 9: an explicit null is bound; a path through null is not."""
    value = {"a": {"b": 1}, "list": [10, 20], "none": None}

    assert get_value(value, path) is expected or get_value(value, path) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("name", "x"),
        ("a.b", 1),
        ("list.0.n", 1),
        ("list.5", None),
        ("list.n", [1, None, 3]),
        ("empty.n", []),
        ("matrix.1.0", 3),
        ("name.x", None),
        ("missing.x.y", None),
        ("none.x", None),
    ],
)
def test_field_paths_step_into_arrays_by_index_and_over_them_by_name(
    path: str, expected: object
) -> None:
    """Graphql-behaviour 2.2."""
    document = {
        "name": "x",
        "a": {"b": 1},
        "list": [{"n": 1}, {}, {"n": 3}],
        "empty": [],
        "matrix": [[1, 2], [3, 4]],
        "none": None,
    }
    steps = tuple(path.split("."))

    assert get_field(document, steps) == expected
    assert compile_field(steps)(document) == expected


def test_a_field_of_what_is_no_document_is_null() -> None:
    assert compile_field(("a",))(None) is None
    assert compile_field(("a",))(3) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("items.pid", [1, 2, None]),
        ("items.0.pid", 1),
        ("items[1].pid", 2),
        ("items.pid.x", [None, None, None]),
        ("items", [{"pid": 1}, {"pid": 2}, {}]),
        ("items.9", UNBOUND),
        ("none.pid", UNBOUND),
        ("null", None),
        ("null.pid", UNBOUND),
        ("empty.pid", []),
    ],
)
def test_a_bound_path_runs_over_arrays_as_that_of_a_field_does(path: str, expected: object) -> None:
    """Decision 10: one path language."""
    document = {"items": [{"pid": 1}, {"pid": 2}, {}], "null": None, "empty": []}

    found = get_bound(document, parse_path(path))

    assert found == expected
    assert get_field(document, parse_path(path)) == (None if expected is UNBOUND else expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("@now", True),
        ("@rnd(32)", True),
        ("@request", True),
        ("@request.epochTimeStamp", True),
        ("@request.dateTime", True),
        ("@request['dateTime']", True),
        ("@request.userName", False),
        ("@user.now", False),
        ("@nowhere", False),
        ("now", False),
        ("@", False),
    ],
)
def test_variables_of_the_moment_are_told_apart(name: str, expected: bool) -> None:
    assert is_momentary(name) is expected
