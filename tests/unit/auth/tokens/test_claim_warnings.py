"""Which properties of the caller a rule or an app uses, in every spelling that counts."""

import json
from typing import Any

import pytest

from docgraph.auth.tokens.claim_warnings import find_user_paths


def find(document: dict[str, Any]) -> list[str]:
    return [".".join(path) for path in find_user_paths(document)]


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("equals(@user.team, 'x')", ["team"]),
        ("equals( @user['team'] , 'x')", ["team"]),
        ('equals(@user["team"],"x")', ["team"]),
        ("equals('x', @user['team'])", ["team"]),
        ("equals[@user['my team'], 'x']", ["my team"]),
        ("equals(@user['a'].b[0], @user.c.d)", ["a.b.0", "c.d"]),
        ("equals(@user.tags[0], 'x') and not in(@user.x, {a, @user.y})", ["tags.0", "x", "y"]),
        ("in(value=@user.one, array={@user.two, b})", ["one", "two"]),
        ("equals('@user.team', 'x') or equals(\"@user['x']\", 'y')", []),
        ("equals(@@user.team, 'x') and equals(ada@user.team, @username.x)", []),
        ("equals(@user, @roles)", []),
        ("equals(@user.team, 'not closed)", []),
    ],
)
def test_variables_of_a_predicate(predicate: str, expected: list[str]) -> None:
    assert find({"roles": ["user"], "predicate": predicate}) == expected


FILTERS: dict[str, dict[str, Any]] = {
    "readFilter": {"t": "@user.team"},
    "writeFilter": {"$or": [{"t": "@user['team']"}, {"t": {"$in": ["@user.a", 1]}}]},
    "mergeRequest": {"by": "@user.name.first", "at": "@now"},
    "readFilters": {"db.things": {"t": "@user.a"}, "db.others": {"t": "x"}},
}


@pytest.mark.parametrize("key", FILTERS)
@pytest.mark.parametrize("space", ["", "\n  "])
def test_filters_of_a_rule_are_the_same_as_objects_and_as_json_text(key: str, space: str) -> None:
    as_object = find({"mongo": {key: FILTERS[key]}})
    assert as_object
    assert find({"mongo": {key: space + json.dumps(FILTERS[key])}}) == as_object
    assert find({"mongo": {key: json.dumps(FILTERS[key], indent=2)}}) == as_object


def test_each_of_the_read_filters_may_be_text() -> None:
    each = {name: json.dumps(one) for name, one in FILTERS["readFilters"].items()}
    assert find({"mongo": {"readFilters": each}}) == ["a"]
    assert find({"mongo": {"readFilters": json.dumps(each)}}) == ["a"]


def test_what_is_no_variable_counts_for_nothing() -> None:
    for text in (
        "ada@user.team",
        "@@user.team",
        "see @user.team",
        "@user",
        "@users.x",
        "{not json",
    ):
        assert find({"mongo": {"mergeRequest": {"by": text}}}) == [], text
    assert find({"description": "for @user.team", "mongo": None, "priority": 1}) == []


def test_mappings_of_an_app() -> None:
    app = {
        "schema": "# @user.comment",
        "mappings": {
            "Query": {
                "a": {"find": {"x": {"_$arg": ["@user.desk", None]}}},
                "predicate": {"find": {"x": {"$arg": "@user['floor']"}}},
                "b": {"stages": [{"$ifarg": [["@user.c", "d"], {"$match": {"e": 1}}]}]},
            }
        },
    }
    assert find(app) == ["desk", "floor", "c"]
