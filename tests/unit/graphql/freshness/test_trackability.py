"""Which answers cannot be tracked, and the reason that is given."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from docgraph.codec import decode
from docgraph.config.section import PluginConfig
from docgraph.exchange import Exchange, Permission, Request
from docgraph.graphql.freshness.trackability import (
    find_moving,
    find_moving_condition,
    find_untrackable,
    find_untrackable_request,
)
from docgraph.graphql.plan.plan_tree import PlanTree
from docgraph.plugins.kinds import Interceptor, Point, VariableResolver
from docgraph.variables import Resolvers
from tests.unit.graphql.planning_harness import make_app, make_plan

SCHEMA = "type Query { rows: [Row] } type Row { _id: Int below: [Row] }"
CHANGES = "which can change without a change of documents"


class Tenant(VariableResolver):
    """A variable that says nothing about itself."""

    name: ClassVar[str] = "tenant"
    variable: ClassVar[str] = "tenant"

    async def resolve_variable(self, exchange: Exchange, expression: str) -> Any:
        return "a"


class StableTenant(Tenant):
    """A variable that depends on the caller."""

    is_stable: ClassVar[bool] = True


def build_tree(root: dict[str, Any], below: dict[str, Any] | None = None) -> PlanTree:
    place = {"db": "shop", "collection": "rows"}
    mappings = {
        "Query": {"rows": {**place, **root}},
        "Row": {"below": {**place, **(below or {"find": {}})}},
    }
    app = make_app(SCHEMA, mappings)
    return make_plan("{ rows { below { _id } } }", app).widest_tree()


def resolvers(*plugins: type[VariableResolver]) -> Resolvers:
    return Resolvers(decode, [one(PluginConfig()) for one in plugins])


@pytest.mark.parametrize(
    ("mapping", "name"),
    [
        ({"find": {"at": {"$lt": {"$arg": "@now"}}}}, "@now"),
        ({"find": {"at": {"$arg": "@rnd(8)"}}}, "@rnd(8)"),
        ({"find": {"ip": {"$arg": "@request.remoteIp"}}}, "@request.remoteIp"),
        ({"find": {"ip": {"$arg": "@qparams['x']"}}}, "@qparams['x']"),
        ({"find": {"$expr": {"$lt": ["$at", "$$NOW"]}}}, "$$NOW"),
        ({"find": {"$or": [{"$expr": {"$lt": [{"$rand": {}}, 0.5]}}]}}, "$rand"),
        ({"find": {"t": {"$arg": "@tenant"}}}, "@tenant"),
        ({"stages": [{"$sample": {"size": 1}}]}, "$sample"),
        ({"stages": [{"$facet": {"a": [{"$set": {"at": "$$CLUSTER_TIME"}}]}}]}, "$$CLUSTER_TIME"),
    ],
)
def test_what_changes_by_itself_is_the_reason(mapping: dict[str, Any], name: str) -> None:
    known = resolvers(Tenant)
    assert find_untrackable(build_tree(mapping), known) == f"Query.rows uses {name}, {CHANGES}"
    reason = find_untrackable(build_tree({"find": {}}, mapping), known)
    assert reason == f"Row.below uses {name}, {CHANGES}"


@pytest.mark.parametrize(
    "mapping",
    [
        {"find": {"owner": {"$arg": "@user._id"}}},
        {"find": {"$text": {"$search": "now"}}},
        {"find": {"at": {"$exists": True}}, "sort": {"at": -1}, "limit": 5},
        {"find": {"t": {"$arg": "@tenant"}}},
        {"stages": [{"$lookup": {"from": "a", "pipeline": [], "as": "x"}}]},
    ],
)
def test_what_depends_on_documents_and_callers_can_be_tracked(mapping: dict[str, Any]) -> None:
    tree, known = build_tree(mapping), resolvers(StableTenant)
    assert find_untrackable(tree, known) is None
    assert find_untrackable(tree, known) is None  # from the cache


def test_the_answer_is_that_of_the_resolvers() -> None:
    tree = build_tree({"find": {"t": {"$arg": "@tenant"}}})
    assert find_untrackable(tree, resolvers(StableTenant)) is None
    assert find_untrackable(tree, resolvers(Tenant)) is not None


def test_a_search_in_texts_reads_documents_alone() -> None:
    assert find_moving({"$text": {"$search": "x"}}) is None
    assert find_moving([{"$search": {"index": "x"}}]) == "$search"
    assert find_moving({"a": {"$literal": "$$NOW.x"}}) == "$$NOW"


def test_conditions_of_properties_do_not_change_by_themselves() -> None:
    assert find_moving_condition({"a": {"$in": ["$$NOW"]}}) is None
    assert find_moving_condition({"$and": [{"$nor": [{"$sampleRate": 0.5}]}]}) == "$sampleRate"
    assert find_moving_condition({"$and": [{"a": 1}, {"$where": "true"}]}) == "$where"


class Stamp(Interceptor):
    """Changes responses."""

    name: ClassVar[str] = "stamp"
    point: ClassVar[Point] = Point.RESPONSE

    async def handle(self, exchange: Exchange) -> None:
        return


class StableStamp(Stamp):
    """Changes equal responses equally."""

    is_stable: ClassVar[bool] = True


class Elsewhere(Stamp):
    """Is not for this request."""

    def resolve(self, exchange: Exchange) -> bool:
        return False


class Early(Stamp):
    """Does not see the response."""

    point: ClassVar[Point] = Point.AFTER_AUTH


def ask(permission: Permission | None = None, *interceptors: type[Interceptor]) -> str | None:
    exchange = Exchange(Request("POST", b"/graphql/test"), "request-1")
    exchange.permission = permission
    built = [one(PluginConfig()) for one in interceptors]
    return find_untrackable_request(exchange, resolvers(Tenant), built)


def test_interceptors_of_responses_declare_that_they_are_stable() -> None:
    assert ask(None, StableStamp, Elsewhere, Early) is None
    assert ask(None, StableStamp, Stamp) == "the interceptor stamp does not declare is_stable"


def test_row_filters_count() -> None:
    assert ask(Permission("rule", variables=frozenset({"@user.name"}))) is None
    for name in ("@now", "@tenant"):
        reason = ask(Permission("rule", variables=frozenset({name})))
        assert reason == f"a row filter uses {name}, {CHANGES}"
    rows = {"shop.rows": {"$expr": {"$lt": ["$at", "$$NOW"]}}}
    assert ask(Permission("rule", read_filters=rows)) == f"a row filter uses $$NOW, {CHANGES}"
