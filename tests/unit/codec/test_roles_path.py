"""The path to the roles of a user: what it reads, and where roles can be written."""

from __future__ import annotations

import pytest

from docgraph.codec.bson_types import Code
from docgraph.codec.roles_path import RolesPath
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
