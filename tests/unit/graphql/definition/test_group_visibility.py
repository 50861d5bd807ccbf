"""Counts and groups of properties that a role does not see do not exist for it (decision 20)."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import GraphQLObjectType

from docgraph.graphql.apps.compiled_app import App, build_app
from docgraph.graphql.definition import group_visibility
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql

SDL = """
type Query {
  orders: [Order]
  staff: [Order] @visible(roles: ["hr"])
  count(max: Int): Int
  per: [Group]
  everything: Totals
}
type Order {
  status: String%s
  customer: Customer%s
  salary: Float @visible(roles: ["hr"])
  document: BsonDocument @visible(roles: ["hr"])
}
type Customer { country: String%s }
type Group { key: String count: Int sumSalary: Float }
type Totals { count: Int sumSalary: Float }
"""
HR = ' @visible(roles: ["hr"])'


def define(group: dict[str, Any], sdl: str = SDL % ("", "", ""), **others: Any) -> dict[str, Any]:
    place = {"db": "d", "collection": "orders"}
    own = {"Query": {"orders": place, "staff": place, "per": {**place, "group": group, **others}}}
    own["Query"]["everything"] = {**place, "group": {"sum": "salary"}}
    return {"_id": "app", "schema": sdl, "mappings": own}


def build(definition: dict[str, Any]) -> App:
    return build_app(decode_definition(definition), Graphql())


def fields(app: App, type_: str, *roles: str) -> set[str]:
    found = app.visible_to(roles).schema.type_map.get(type_)
    return set(found.fields) if isinstance(found, GraphQLObjectType) else set()


def warnings(definition: dict[str, Any]) -> list[str]:
    report = check_definition(definition, settings=Graphql())
    return [str(one) for one in report.warnings if "callers who do not see" in one.what]


def test_a_total_follows_the_field_that_shows_its_property() -> None:
    app = build(define({"by": {"key": "status"}, "sum": "salary"}))
    assert fields(app, "Group") == {"key", "count"}
    assert fields(app, "Totals") == {"count"}
    assert fields(app, "Group", "hr") == {"key", "count", "sumSalary"}


@pytest.mark.parametrize(
    ("path", "directives"),
    [
        ("status", (HR, "", "")),
        ("customer.country", ("", HR, "")),
        ("customer.country", ("", "", HR)),
        ("customer", ("", "", HR)),
        ("salary", ("", "", "")),
        ("document.any.thing", ("", "", "")),
    ],
)
def test_groups_follow_the_fields_that_show_their_keys(path: str, directives: Any) -> None:
    app = build(define({"by": {"key": path}, "sum": "salary"}, SDL % directives))
    assert "per" not in fields(app, "Query")
    assert "Group" not in app.visible_to(()).schema.type_map
    assert "per" in fields(app, "Query", "hr")


@pytest.mark.parametrize("path", ["status", "customer.country", "unmapped"])
def test_groups_of_what_everybody_sees_stay(path: str) -> None:
    app = build(define({"by": {"key": path}, "sum": "salary"}))
    assert "per" in fields(app, "Query")


def test_a_property_that_another_field_shows_to_everybody_is_not_hidden() -> None:
    sdl = SDL % (HR, "", "") + "type Open { state: String } extend type Query { open: [Open] }"
    definition = define({"by": {"key": "status"}, "sum": "salary"}, sdl)
    definition["mappings"]["Query"]["open"] = {"db": "d", "collection": "orders"}
    definition["mappings"]["Open"] = {"state": "status"}
    assert "per" in fields(build(definition), "Query")


def test_a_property_that_only_a_hidden_list_shows_is_hidden() -> None:
    sdl = (SDL % ("", "", "")).replace("  orders: [Order]\n", "")
    definition = define({"by": {"key": "status"}, "sum": "salary"}, sdl)
    del definition["mappings"]["Query"]["orders"]
    app = build(definition)
    assert "per" not in fields(app, "Query")
    assert "per" in fields(app, "Query", "hr")


@pytest.mark.parametrize("stage", [{"$set": {"a": 1}}, {"$project": {"salary": 1, "status": 1}}])
def test_stages_that_change_documents_show_nothing_to_everybody(stage: Any) -> None:
    """What their fields hide is hidden; what they show may be another value."""
    sdl = (SDL % ("", "", "")).replace(HR, "", 1) + "type Open { pay: Float } "
    sdl += "extend type Query { open: [Open] }"
    definition = define({"by": {"key": "status"}, "sum": "salary"}, sdl)
    changed = {"db": "d", "collection": "orders", "stages": [stage]}
    definition["mappings"]["Query"] |= {"orders": changed, "staff": changed, "open": changed}
    definition["mappings"]["Open"] = {"pay": "salary"}
    app = build(definition)
    assert fields(app, "Group") == {"key", "count"}
    assert fields(app, "Group", "hr") == {"key", "count", "sumSalary"}


def test_renamed_results_follow_too() -> None:
    sdl = SDL % ("", "", "") + "extend type Group { pay: Float }"
    definition = define({"by": {"key": "status"}, "sum": "salary"}, sdl)
    definition["mappings"]["Group"] = {"pay": "sumSalary"}
    assert fields(build(definition), "Group") == {"key", "count"}


def test_a_sort_by_a_hidden_total_is_reported() -> None:
    definition = define({"by": {"key": "status"}, "sum": "salary"}, sort={"sumSalary": -1})
    text = "mappings.Query.per.sort: uses salary for callers who do not see Order.salary"
    assert warnings(definition) == [text]


def test_an_app_with_too_many_fields_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_visibility, "_MAX_STATES", 2)
    definition = define({"by": {"key": "status"}, "sum": "salary"})
    report = check_definition(definition, settings=Graphql())
    assert any("too many fields" in one.what for one in report.errors)
