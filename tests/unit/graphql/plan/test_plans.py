"""`Plans`: bounded over all apps, and none outlives its app."""

from __future__ import annotations

import gc
from weakref import ref

from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plans import PlanKey, Plans
from tests.unit.graphql.planning_harness import make_app, make_plan

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
