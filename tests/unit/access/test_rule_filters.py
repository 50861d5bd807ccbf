"""Which collections the row filters of rules are for."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.access.parse_rule import read_rule
from docgraph.access.rule import Rule, RuleOrigin
from docgraph.access.rule_filters import find_row_filters
from docgraph.rest.sections import Mongo
from tests.unit.access.harness import KNOWLEDGE

NOTES, USERS, OTHER = ("docgraph", "notes"), ("docgraph", "users"), ("shop", "notes")
OWN, TEAM = {"owner": "@user._id"}, {"team": "@user.team"}


def find(predicate: str = "true", **mongo: Any) -> list[tuple[tuple[str, str], str]]:
    document = {"_id": "r", "roles": ["user"], "predicate": predicate, "mongo": mongo}
    rule = read_rule(document, RuleOrigin.DATABASE, KNOWLEDGE)
    assert isinstance(rule, Rule), rule
    found = list(find_row_filters([rule], [NOTES, USERS, OTHER], Mongo()))
    assert {one.rule for one in found} <= {"r (database)"}
    return [(one.place, one.part) for one in found]


@pytest.mark.parametrize(
    ("predicate", "places"),
    [
        ("path-prefix('/notes')", [NOTES]),
        ("path('/users')", [USERS]),
        ("path('/nowhere')", []),
        ("method(GET)", [NOTES, USERS]),
    ],
)
def test_a_filter_counts_for_collections_at_whose_paths_the_rule_can_hold(
    predicate: str, places: list[tuple[str, str]]
) -> None:
    assert find(predicate, readFilter=OWN) == [(one, "mongo.readFilter") for one in places]


def test_filters_by_name_count_for_what_they_name_whatever_the_path_is() -> None:
    filters = {"shop.notes": OWN, "shop.unknown": OWN}

    assert find("path('/graphql/app')", readFilters=filters) == [
        (OTHER, "mongo.readFilters.shop.notes")
    ]


@pytest.mark.parametrize(
    ("filters", "parts"),
    [
        ({"readFilter": OWN}, ["mongo.readFilter"]),
        ({"writeFilter": OWN}, ["mongo.writeFilter"]),
        ({"readFilter": OWN, "writeFilter": OWN}, ["mongo.readFilter"]),
        ({"readFilter": OWN, "writeFilter": TEAM}, ["mongo.readFilter", "mongo.writeFilter"]),
        ({}, []),
    ],
)
def test_two_filters_that_are_equal_count_once(filters: dict[str, Any], parts: list[str]) -> None:
    assert [part for _, part in find("path('/notes')", **filters)] == parts
