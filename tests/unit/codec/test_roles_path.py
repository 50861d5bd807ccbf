"""The path to the roles of a user: what it reads, and where roles can be written."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec.bson_types import Code
from docgraph.codec.roles_path import RolesPath
from docgraph.codec.roles_query import RolesQuery
from docgraph.exchange import ConfigError


@pytest.mark.parametrize(
    ("path", "exact", "is_monotone"),
    [
        ("$.roles", "roles", True),
        ("$.profile.roles", "profile.roles", True),
        ("$.roles[*]", None, True),  # also the values of an object
        ("$.grants[*].role", None, True),
        ("$..role", None, True),
        ("$.roles[0]", None, False),
        ("$.roles[1:]", None, False),
        ("$.grants[?@.on].role", None, False),
    ],
)
def test_what_can_be_asked_of_the_database_and_what_depends_on_more(
    path: str, exact: str | None, is_monotone: bool
) -> None:
    found = RolesPath(path)
    assert (found.exact, found.is_monotone) == (exact, is_monotone)


VALUES: list[Any] = [None, 1, "a", Code("a"), b"ab", [], ["a", 2, "b", "a"], [["a"], "b"], {}]
VALUES += [{"x": "a", "y": ["b", ["c"]]}, [{"b": "a"}], {"b": ["a"]}, {"b": {"c": ["a"], "d": "b"}}]


@pytest.mark.parametrize("path", ["$.a", "$.a[*]", "$.a.b", "$.a.b[*]"])
def test_a_path_of_names_reads_what_the_standard_says(path: str) -> None:
    standard, plain = RolesQuery(path), RolesPath(path)
    assert (plain.property, plain.is_monotone) == (standard.property, standard.is_monotone)
    for document in ({}, {"b": ["a"]}, *({"a": value} for value in VALUES)):
        names = RolesPath(path)
        names._query = standard
        assert plain.read(document) == names.read(document), document


def test_patterns_of_a_path_are_matched_in_linear_time() -> None:
    path = RolesPath("$.grants[?match(@.name, '(a+)+')].role")
    grants = [{"name": "aaa", "role": "x"}, {"name": "a" * 5000 + "!", "role": "y"}]
    assert path.read({"grants": grants}) == ("x",)
    searching = RolesPath("$.grants[?search(@.name, 'a!$')].role")
    assert searching.read({"grants": grants}) == ("y",)


def test_a_pattern_from_the_document_itself_matches_nothing_when_it_is_none() -> None:
    path = RolesPath("$.grants[?match(@.name, @.pattern)].role")
    grants = [
        {"name": "a", "pattern": "(?!b)a", "role": "x"},
        {"name": "a", "pattern": "[ab]", "role": "y"},
        {"name": 5, "pattern": "5", "role": "z"},
    ]
    assert path.read({"grants": grants}) == ("y",)


def test_a_pattern_that_cannot_be_used_stops_the_start() -> None:
    with pytest.raises(ConfigError) as stopped:
        RolesPath("$.grants[?match(@.name, '(?!x).*')].role")
    (problem,) = stopped.value.problems
    assert "the pattern of match() cannot be read" in problem.message
    assert "lookaround is not known" in problem.message


def test_code_is_no_role() -> None:
    assert RolesPath("$.roles").read({"roles": ["a", Code("admin")]}) == ("a",)
