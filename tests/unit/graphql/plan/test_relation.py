"""How a mapping depends on its parent: joins, and what is left of the filter."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.graphql.conditions import combine
from docgraph.graphql.definition.mapping import AggregationMapping, QueryMapping
from docgraph.graphql.plan.relation import Relation, analyse
from docgraph.variables import Scope, compile_template, matches_nothing

FK = {"$fk": "ref"}


def relation(find: dict[str, Any], **parts: Any) -> Relation:
    templates: dict[str, Any] = {
        name: compile_template(value, context="sort" if name == "sort" else "plain")
        for name, value in parts.items()
    }
    return analyse(QueryMapping("d", "c", compile_template(find, context="filter"), **templates))


@pytest.mark.parametrize(
    ("condition", "many"),
    [(FK, False), ({"$eq": FK}, False), ({"$in": [FK]}, False), ({"$in": FK}, True)],
)
def test_equality_and_in_are_joins(condition: Any, many: bool) -> None:
    found = relation({"a.b": condition, "draft": {"$arg": "draft"}})

    (join,) = found.joins
    assert (join.target, join.key, join.many) == ("a.b", "ref", many)
    assert found.rest is not None
    assert found.rest.source == {"draft": {"$arg": "draft"}}
    assert not found.is_per_parent


def test_joins_are_found_inside_conjunctions() -> None:
    found = relation({"$and": [{"a": FK}, {"b": {"$fk": "other"}}, {"c": 1}], "d": 2})

    assert [join.target for join in found.joins] == ["a", "b"]
    assert found.rest is not None
    assert found.rest.source == {"c": 1, "d": 2}


@pytest.mark.parametrize(
    "find",
    [
        {"n": {"$gt": FK}},
        {"n": {"$in": FK, "$ne": 3}},
        {"$or": [{"a": FK}, {"b": FK}]},
        {"a": {"$elemMatch": {"b": FK}}},
        {"a": {"b": FK}},
        {"a": {"$arg": "rootDoc.a"}},
        {"a": FK, "b": {"$arg": "rootDoc.b"}},
    ],
)
def test_everything_else_is_asked_for_each_parent(find: dict[str, Any]) -> None:
    assert relation(find).is_per_parent


def test_limit_that_depends_on_the_parent_is_asked_for_each_parent() -> None:
    assert relation({"a": FK}, limit={"$fk": "count"}).is_per_parent


def test_filter_without_the_parent_is_the_same_for_all() -> None:
    found = relation({"a": {"$arg": "x"}})

    assert found.is_independent
    assert not found.is_per_parent


def test_aggregation_is_asked_for_each_parent_that_differs() -> None:
    stages = compile_template([{"$match": {"a": FK}}], context="stages")
    found = analyse(AggregationMapping("d", "c", stages))

    assert found.is_per_parent
    assert found.signature({"ref": 1, "x": 1}, None) == found.signature({"ref": 1, "x": 2}, None)
    assert found.signature({"ref": 1}, None) != found.signature({"ref": 1.0}, None)
    assert matches_nothing(stages.render(Scope(parent={"ref": None})))


def test_a_key_of_an_optional_stage_is_no_reason_to_ask_nothing() -> None:
    """Decision 11 speaks of keys that are used."""
    optional = {"$ifarg": ["mine", {"$match": {"a": FK}}]}
    stages = compile_template([{"$limit": 1}, optional], context="stages")

    assert stages.render(Scope(parent={"ref": None})) == [{"$limit": 1}]
    assert matches_nothing(stages.render(Scope({"mine": True}, parent={"ref": None})))


def test_an_optional_condition_beside_a_join_is_the_same_for_all_parents() -> None:
    optional = {"$ifarg": ["x", {"b": {"$arg": "x"}}]}
    found = relation({"$and": [{"a": FK}, optional]})

    assert [join.target for join in found.joins] == ["a"]
    assert not found.is_per_parent
    assert found.rest is not None
    assert found.rest.source == optional


def test_signature_tells_a_null_of_the_root_from_a_missing_one() -> None:
    found = relation({"a": {"$arg": ["rootDoc.x", 1]}})

    assert found.signature({}, {"x": None}) != found.signature({}, {})


def test_filters_are_combined_without_losing_a_condition() -> None:
    assert combine([{"a": 1}, {}, {"b": 2}]) == {"a": 1, "b": 2}
    assert combine([{"a": 1}, {"a": 2}]) == {"$and": [{"a": 1}, {"a": 2}]}
    assert combine([{"$or": []}, {"a": 2}]) == {"$and": [{"$or": []}, {"a": 2}]}
    assert combine([{"$arg": "f"}]) == {"$arg": "f"}
    assert combine([]) == {}
