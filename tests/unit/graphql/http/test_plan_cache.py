"""Query text → plan: kept, bounded, and never at the expense of the event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import ref

import pytest
from graphql import build_schema, get_introspection_query, parse, specified_rules, validate

from docgraph.exchange import Account
from docgraph.graphql.apps.compiled_app import App, VisibleApp, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.http import plan_cache as module
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.graphql.http.plan_cache import (
    BoundedMergingRule,
    Operations,
    PlanKey,
    Plans,
    choose_rules,
    is_bound,
)
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.sections import Graphql
from docgraph.runtime import Blocking, Lane
from tests.unit.graphql.planning_harness import make_app, make_plan

pytestmark = pytest.mark.anyio

T = TypeVar("T")

KINDS = 30
SCHEMA = (
    'type Query { one: Node a: A secret: Int @visible(roles: ["admin"]) }'
    " interface Node { id: ID node: Node } type A implements Node { id: ID node: Node x: Int a: A }"
    + "".join(f" type T{n} implements Node {{ id: ID node: Node }}" for n in range(KINDS))
)
RESOLVER = {name: "true" for name in ("A", *(f"T{n}" for n in range(KINDS)))}


def make_wide_app() -> App:
    mappings = {"Query": {}, "Node": {"$typeResolver": RESOLVER}}
    definition = {"_id": "wide", "schema": SCHEMA, "mappings": mappings}
    return build_app(decode_definition(definition), Graphql())


@pytest.fixture
def app() -> VisibleApp:
    return make_wide_app().visible_to(())


@asynccontextmanager
async def open_lane() -> AsyncIterator[Lane]:
    blocking = Blocking()
    try:
        yield blocking.lane("plan", concurrency=1)
    finally:
        await blocking.close()


class Watch:
    """Notes the threads in which a function is called."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def on(self, function: Callable[..., T]) -> Callable[..., T]:
        def watched(*args: Any, **kwargs: Any) -> T:
            self.threads.append(threading.get_ident())
            return function(*args, **kwargs)

        return watched

    @property
    def was_aside(self) -> bool:
        """Whether all calls were made in another thread than that of the event loop."""
        return bool(self.threads) and threading.get_ident() not in self.threads


def branch(depth: int) -> str:
    """Selections that differ for every type, so that nothing of their plans is shared."""
    if not depth:
        return "id"
    inner = branch(depth - 1)
    return "".join(f"... on T{n} {{ node {{ {inner} }} }} " for n in (depth, depth + 1))


LARGE = f"{{ one {{ {branch(6)} }} }}"
HOSTILE = {
    "leaves": "{ a { " + "x " * 2_400 + "} }",
    "objects": "{ a { " + "a{x} " * 600 + "} }",
    "objects of objects": "{ a { " + "a{a{x}} " * 350 + "} }",
    "fragments": "{ a { " + "... on A { x a { x } } " * 200 + "} }",
    "not the same": "{ a { id: x " + "id " * 110 + "} }",
}


async def test_a_plan_is_built_once_and_then_kept(app: VisibleApp) -> None:
    request = GraphqlRequest("{ a { x } }")
    async with open_lane() as lane:
        plan_cache = Operations(lane)

        plan, first = await plan_cache.find(app, request, introspection=True)
        again, second = await plan_cache.find(app, request, introspection=True)

    assert plan is again
    assert (first, second) == (False, True)


async def test_callers_who_may_not_introspect_have_plans_of_their_own(app: VisibleApp) -> None:
    request = GraphqlRequest("{ __schema { queryType { name } } }")
    async with open_lane() as lane:
        plan_cache = Operations(lane)
        await plan_cache.find(app, request, introspection=True)

        with pytest.raises(OperationRefused, match="introspection"):
            await plan_cache.find(app, request, introspection=False)


@pytest.mark.parametrize("step", ["parse_query", "check_limits", "validate", "build_plan"])
async def test_a_large_query_is_worked_out_outside_of_the_event_loop(
    app: VisibleApp, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    watch = Watch()
    monkeypatch.setattr(module, step, watch.on(getattr(module, step)))
    async with open_lane() as lane:
        await Operations(lane).find(app, GraphqlRequest(LARGE), introspection=True)

    assert watch.was_aside


async def test_a_large_query_that_many_send_at_once_is_planned_once(app: VisibleApp) -> None:
    async with open_lane() as lane:
        plan_cache = Operations(lane)
        finds = [plan_cache.find(app, GraphqlRequest(LARGE), introspection=True) for _ in range(20)]

        plans = await asyncio.gather(*finds)

    assert len({id(plan) for plan, _ in plans}) == 1


@pytest.mark.parametrize("name", HOSTILE)
async def test_fields_repeated_without_end_are_refused_before_any_is_compared(
    app: VisibleApp, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 26: comparing them all would cost the square of their number."""
    monkeypatch.setattr(module, "validate", lambda *_, **__: pytest.fail("was validated"))
    async with open_lane() as lane:
        plan_cache = Operations(lane)

        with pytest.raises(OperationRefused) as refusal:
            await plan_cache.find(app, GraphqlRequest(HOSTILE[name]), introspection=True)

    (error,) = refusal.value.errors
    assert error.code == "limit-exceeded"
    assert "the same name too often" in error.message


async def test_fields_repeated_as_tools_do_are_fine(app: VisibleApp) -> None:
    """Many components that each ask for what they show."""
    fragments = [f"fragment F{n} on A {{ id x a {{ id x a {{ id }} }} }}" for n in range(50)]
    query = "{ a { " + " ".join(f"...F{n}" for n in range(50)) + " } }" + " ".join(fragments)
    async with open_lane() as lane:
        plan, _ = await Operations(lane).find(app, GraphqlRequest(query), introspection=True)

    assert plan.tree({}).block is not None


async def test_as_many_repetitions_as_are_documented_are_answered(
    app: VisibleApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are seen to be the same, so that not one comparison is made."""
    monkeypatch.setattr(
        BoundedMergingRule, "enter_selection_set", lambda *_: pytest.fail("was compared")
    )
    async with open_lane() as lane:
        plan_cache = Operations(lane)
        for query in ("{ a { " + "x " * 224 + "} }", "{ a { " + "a{a{x}} " * 129 + "} }"):
            plan, _ = await plan_cache.find(app, GraphqlRequest(query), introspection=True)

            assert plan.tree({}).block is not None


async def test_a_tree_of_a_large_plan_grows_outside_of_the_event_loop(
    app: VisibleApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`@include` by a variable: the tree is known only when its value is."""
    watch = Watch()
    monkeypatch.setattr(Plan, "_build", watch.on(Plan._build))
    query = f"query ($v: Boolean!) {{ one @include(if: $v) {{ {branch(6)} }} }}"
    async with open_lane() as lane:
        plan_cache = Operations(lane)
        plan, _ = await plan_cache.find(app, GraphqlRequest(query), introspection=True)
        assert plan.kept_tree({"v": True}) is None

        tree = await plan.grow({"v": True}, lane)

    assert watch.was_aside
    assert plan.kept_tree({"v": True}) is tree


async def test_the_part_that_a_caller_sees_is_worked_out_outside_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch, whole = Watch(), make_wide_app()
    monkeypatch.setattr(App, "_build_view", watch.on(App._build_view))
    async with open_lane() as lane:
        plan_cache = Operations(lane)

        view = await plan_cache.view(whole, ["reader"])

    assert watch.was_aside
    assert view is await plan_cache.view(whole, ["other"])
    assert view is whole.visible_to([])
    assert view is whole.kept_view(["reader"])
    assert whole.kept_view(["admin"]) is None


async def test_the_standard_introspection_query_has_a_plan(app: VisibleApp) -> None:
    async with open_lane() as lane:
        request = GraphqlRequest(get_introspection_query())

        plan, _ = await Operations(lane).find(app, request, introspection=True)

    assert [column.key for column in plan.tree({}).block.columns] == ["__schema"]


# --- operations-only ------------------------------------------------------------------------------

EVERYBODY = ("$authenticated", "$unauthenticated")


@pytest.mark.parametrize(
    ("setting", "roles", "bound"),
    [
        ((), (), False),
        ((), None, False),
        (("customer",), ("customer",), True),
        (("customer",), ("customer", "staff"), False),
        (("customer", "partner"), ("customer", "partner"), True),
        (("customer",), (), False),
        (("customer",), None, False),
        (("$unauthenticated",), None, True),
        (("$unauthenticated",), (), True),
        (("$unauthenticated",), ("customer",), False),
        (("$authenticated",), None, False),
        (("$authenticated",), (), True),
        (("$authenticated",), ("customer", "staff"), True),
        (EVERYBODY, ("admin",), False),
        (EVERYBODY, ("admin", "customer"), False),
        ((*EVERYBODY, "admin"), ("admin",), True),
        (("admin",), ("admin",), True),
    ],
)
def test_who_runs_stored_operations_and_nothing_else(
    setting: tuple[str, ...], roles: tuple[str, ...] | None, bound: bool
) -> None:
    """`roles` None: an unauthenticated caller."""
    account = None if roles is None else Account("ada", roles)
    assert is_bound(setting, account, "admin") is bound


QUERY = "{ posts { title } }"


def key(number: int) -> PlanKey:
    return True, None, f"{QUERY} # {number}"


def test_a_plan_is_found_by_the_app_and_the_key_it_was_kept_with() -> None:
    plans, app, other = Plans(2), make_app(), make_app()
    plan = make_plan(QUERY, app)

    plans.put(app, key(1), plan)

    assert plans.get(app, key(1)) is plan
    assert plans.get(app, key(2)) is None
    assert plans.get(other, key(1)) is None


def test_the_bound_holds_over_all_apps_and_the_least_recently_used_plan_goes() -> None:
    plans, one, two = Plans(3), make_app(), make_app()
    for number in (1, 2):
        plans.put(one, key(number), make_plan(QUERY, one))
    plans.put(two, key(3), make_plan(QUERY, two))
    assert plans.get(one, key(1)) is not None

    plans.put(two, key(4), make_plan(QUERY, two))

    assert plans.get(one, key(2)) is None
    assert plans.get(one, key(1)) is not None
    assert len(plans) == len(one.plans) + len(two.plans) == 3


def test_a_plan_that_is_put_again_counts_once() -> None:
    plans, app = Plans(2), make_app()
    first, second = make_plan(QUERY, app), make_plan(QUERY, app)
    plans.put(app, key(1), first)

    plans.put(app, key(1), second)

    assert plans.get(app, key(1)) is second
    assert len(plans) == 1


def test_plans_die_with_their_app_and_leave_their_room() -> None:
    plans, app, other = Plans(3), make_app(), make_app()
    for number in (1, 2):
        plans.put(app, key(number), make_plan(QUERY, app))
    kept: Plan = make_plan(QUERY, other)
    plans.put(other, key(3), kept)
    view, whole = ref(app), ref(app.app)

    del app
    gc.collect()

    assert view() is None
    assert whole() is None
    assert len(plans) == 1
    for number in (4, 5):
        plans.put(other, key(number), make_plan(QUERY, other))
    assert plans.get(other, key(3)) is kept


RULES = choose_rules(introspection=True, alike=False)
VALUES_SCHEMA = build_schema(
    "type Query { f(n: Int, ids: [Int!], by: By, must: Int! = 1, kind: Kind, x: [Float], d: Doc,"
    " dec: Decimal128): Int } scalar Doc scalar Decimal128"
    " input By { n: Int, deeper: [By!] } enum Kind { A }"
)


@pytest.mark.parametrize(
    ("query", "start", "location"),
    [
        ('{ f(n: "x") }', "Argument 'n' has invalid value: Int cannot", (1, 8)),
        ("{ f(n: {a: 1}) }", "Argument 'n' has invalid value: Int cannot", (1, 8)),
        ("{ f(ids: [1, true]) }", "Argument 'ids' has invalid value at [1]: Int cannot", (1, 14)),
        (
            '{ f(by: {deeper: [{n: "x"}]}) }',
            "Argument 'by' has invalid value at .deeper[0].n: Int cannot",
            (1, 23),
        ),
        ("{ f(by: {no: 1}) }", "Argument 'by' has invalid value: Expected value of type", (1, 10)),
        ("{ f(kind: B) }", "Argument 'kind' has invalid value: Value 'B' does not", (1, 11)),
        ("{ f(must: null) }", "Argument 'must' has invalid value: Expected value of", (1, 11)),
        ('{ f @skip(if: "x") }', "Argument 'if' has invalid value: Boolean cannot", (1, 15)),
        (
            'query ($v: Int = "x") { f(n: $v) }',
            "Variable '$v' has invalid default value: Int cannot",
            (1, 18),
        ),
        (
            'query ($v: [By] = [{n: "x"}]) { f(by: {deeper: $v}) }',
            "Variable '$v' has invalid default value at [0].n: Int cannot",
            (1, 24),
        ),
    ],
)
def test_an_error_of_a_value_names_its_owner_and_its_place(
    query: str, start: str, location: tuple[int, int]
) -> None:
    """Drill G13."""
    errors = validate(VALUES_SCHEMA, parse(query), RULES, hide_suggestions=True)

    assert errors[0].message.startswith(start)
    assert [(place.line, place.column) for place in errors[0].locations or ()] == [location]


@pytest.mark.parametrize(
    ("query", "owner"),
    [
        ("{ f(x: 1e400) }", "Argument 'x' has invalid value"),
        ("{ f(x: [1, -1e400]) }", "Argument 'x' has invalid value"),
        ("{ f(x: 1" + "0" * 309 + ") }", "Argument 'x' has invalid value"),
        ("{ f(d: {a: [1e400]}) }", "Argument 'd' has invalid value"),
        (
            "query ($v: [Float] = [1e400]) { f(x: $v) }",
            "Variable '$v' has invalid default value",
        ),
    ],
)
def test_a_number_that_a_double_cannot_hold_does_not_become_infinite(
    query: str, owner: str
) -> None:
    """Drill G15: never a silent change."""
    (error,) = validate(VALUES_SCHEMA, parse(query), RULES)

    assert error.message.startswith(f"{owner}: ")
    assert error.message.endswith("is beyond the range of a double")


def test_a_decimal_may_be_larger_than_a_double() -> None:
    assert validate(VALUES_SCHEMA, parse("{ f(dec: 1e400, x: 1e-400) }"), RULES) == []


def test_all_rules_of_the_specification_are_there() -> None:
    assert len(RULES) == len(specified_rules) + 1
    assert len(choose_rules(introspection=False, alike=False)) == len(RULES) + 2
    assert len(choose_rules(introspection=True, alike=True)) == len(RULES) - 1


@pytest.mark.parametrize("query", ["{ f(n: 1, ids: [1], by: {n: 1}, kind: A) }", "{ f(ids: 1) }"])
def test_values_that_fit_are_no_errors(query: str) -> None:
    assert validate(VALUES_SCHEMA, parse(query), RULES) == []
