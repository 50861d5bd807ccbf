"""Conditions across relations: commands, bounds and previews (decision 73)."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import AsyncMongoClient

from docgraph.codec import decode
from docgraph.exchange import Exchange, Permission, Request
from docgraph.graphql.execute.cost_estimate import CostEstimate, estimate_cost
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.freshness.read_sources import Sources
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.variables import Resolvers
from tests.http.engine.harness import Engine

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query { orders: [Order!]! customers: [Customer!]! }
type Order { id: ID customer: Customer }
type Customer { id: ID city: String orders: [Order!] ordersCount: Int }
"""
OWN = {"customerId": {"$fk": "_id"}}
MAPPINGS: dict[str, Any] = {
    "Query": {
        "orders": {
            "collection": "orders",
            "filter": {"relations": {"customer": {"fields": {"city": ["eq"]}}}},
        },
        "customers": {
            "collection": "customers",
            "filter": {
                "fields": {"ordersCount": ["range", "eq"]},
                "relations": {"orders": {"relations": {"customer": {"fields": {"city": ["eq"]}}}}},
            },
            "orderBy": {"fields": ["ordersCount"]},
        },
    },
    "Order": {
        "id": "_id",
        "customer": {"collection": "customers", "find": {"_id": {"$fk": "customerId"}}},
    },
    "Customer": {
        "id": "_id",
        "orders": {"collection": "orders", "find": OWN},
        "ordersCount": {"collection": "orders", "find": OWN, "count": True},
    },
}
BERLIN = 'customer: {city: {eq: "Berlin"}}'


@pytest.fixture
async def stored(client: AsyncMongoClient[dict[str, Any]], database: str) -> None:
    customers = [{"_id": n, "city": "Berlin" if n % 2 else "Rome"} for n in range(8)]
    await client[database].customers.insert_many(customers)
    orders = [{"_id": n, "customerId": n % 5} for n in range(20)]
    await client[database].orders.insert_many(orders)


@pytest.mark.parametrize(
    ("query", "expected", "commands"),
    [
        (f"{{ list: orders(where: {{{BERLIN}}}) {{ id }} }}", 8, 2),
        (f"{{ list: customers(where: {{orders: {{some: {{{BERLIN}}}}}}}) {{ id }} }}", 2, 3),
        ("{ list: customers(where: {ordersCount: {gte: 1}}) { id } }", 5, 2),
        ("{ list: customers(orderBy: [{ordersCount: DESC}]) { id } }", 8, 1),
        ('{ list: orders(where: {customer: {city: {eq: "Oslo"}}}) { id } }', 0, 1),
    ],
)
@pytest.mark.usefixtures("stored")
async def test_one_command_for_each_relation_and_one_for_the_list(
    engine: Engine, query: str, expected: int, commands: int
) -> None:
    data = await engine.data(engine.app(SCHEMA, MAPPINGS), query)
    assert (len(data["list"]), len(engine.commands)) == (expected, commands)


@pytest.mark.usefixtures("stored")
async def test_more_keys_than_documents_may_be_fetched_are_looked_up(engine: Engine) -> None:
    app = engine.app(SCHEMA, MAPPINGS, fetched_documents=3)
    query = "{ customers(where: {ordersCount: {eq: 0}}) { id } }"
    plan = engine.plan(app, query)
    for commands in (2, 1):  # the plan remembers it
        result = await engine.execute(plan)
        assert result.data == {"customers": [{"id": "5"}, {"id": "6"}, {"id": "7"}]}
        assert len(engine.commands) == commands
        assert "$lookup" in str(engine.commands[-1])


@pytest.mark.usefixtures("stored")
async def test_hidden_rows_do_not_decide_how_keys_are_found(engine: Engine) -> None:
    app = engine.app(SCHEMA, MAPPINGS, fetched_documents=3)
    plan = engine.plan(app, "{ customers(where: {ordersCount: {eq: 0}}) { id } }")
    exchange = Exchange(Request("POST", b"/graphql/test"), "request-1")
    rows = {
        f"{engine.database}.orders": {"customerId": {"$lte": 1}},
        f"{engine.database}.customers": {"_id": {"$lte": 2}},
    }
    for permission in (None, Permission("rule", read_filters=rows)):
        exchange.permission = permission
        result = await engine.execute(plan, exchange=exchange)
    assert result.data == {"customers": [{"id": "2"}]}
    assert "$lookup" not in str(engine.commands)


@pytest.mark.usefixtures("stored")
async def test_a_preview_shows_both_sides(engine: Engine) -> None:
    app = engine.app(SCHEMA, MAPPINGS)
    query = f"{{ customers(where: {{orders: {{some: {{{BERLIN}}}}}}}) {{ id }} }}"
    cost = await preview(engine, engine.plan(app, query), None)
    shown = {each.field: each for each in cost.fetches}
    assert set(shown) == {
        "Query.customers",
        "Query.customers.where.orders",
        "Query.customers.where.orders.customer",
    }
    far = shown["Query.customers.where.orders.customer"]
    assert (far.access, far.stored, far.wanted_keys) == ("scan", 8, ((("city", 1),),))
    assert cost.by_counts == 8 + 8 + 20
    rows = {f"{engine.database}.customers": {"city": "Berlin"}}
    cost = await preview(engine, engine.plan(app, query), Permission("rule", read_filters=rows))
    far = next(each for each in cost.fetches if each.field.endswith("customer"))
    assert (far.stored, far.examined) == (None, None)


async def preview(engine: Engine, plan: Any, permission: Permission | None) -> CostEstimate:
    exchange = Exchange(Request("POST", b"/graphql/test"), "request-1")
    exchange.permission = permission
    run = Run(
        plan,
        exchange,
        {},
        store=engine.store,
        resolvers=Resolvers(decode),
        bounds=engine.settings,
        limits=plan.app.app.limits,
    )
    engine.recorder.commands.clear()
    return await estimate_cost(run)


@pytest.mark.usefixtures("stored")
async def test_answers_depend_on_both_sides(engine: Engine) -> None:
    plan = engine.plan(engine.app(SCHEMA, MAPPINGS), f"{{ orders(where: {{{BERLIN}}}) {{ id }} }}")
    recorder = DependencyRecorder(Sources(engine.store))
    await engine.execute(plan, dependencies=recorder)
    finished = await recorder.finish()
    assert not isinstance(finished, str)
    found = {each.namespace.partition(".")[2]: each for each in finished}
    assert found["orders"].keys == {"customerId": {1, 3, 5, 7}}
    assert found["customers"].keys == {"city": {"Berlin"}}
    assert found["customers"].is_open
    names = {name for tree in [plan.tree({})] for name in tree.collections[engine.database]}
    assert names == {"orders", "customers"}


@pytest.mark.usefixtures("stored")
async def test_collations_that_differ_are_an_error_beyond_the_bound(
    engine: Engine, client: AsyncMongoClient[dict[str, Any]], database: str
) -> None:
    ignoring_case = {"locale": "en", "strength": 2}
    await client[database].create_collection("people", collation=ignoring_case)
    await client[database].people.insert_one({"_id": "ANN", "city": "Berlin"})
    await client[database].notes.insert_many([{"_id": n, "by": "ann"} for n in range(5)])
    schema = "type Query { notes: [Note!] } type Note { id: ID by: Person }"
    schema += " type Person { city: String }"
    relations = {"by": {"fields": {"city": ["eq"]}}}
    mappings: dict[str, Any] = {
        "Query": {"notes": {"collection": "notes", "filter": {"relations": relations}}},
        "Note": {"id": "_id", "by": {"collection": "people", "find": {"_id": {"$fk": "by"}}}},
    }
    query = '{ notes(where: {by: {city: {eq: "Berlin"}}}) { id } }'
    data = await engine.data(engine.app(schema, mappings), query)
    assert len(data["notes"]) == 5  # "ann" is the key of "ANN" there
    result = await engine.run(engine.app(schema, mappings, fetched_documents=3), query)
    assert [error.code for error in result.errors] == ["collation-differs"]
