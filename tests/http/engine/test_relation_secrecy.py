"""Hidden rows change nothing that a condition or an order across relations shows (decision 73).

Each query is answered with and without hidden documents in both collections. The data, errors,
cursors, the preview, and even the commands must be the same: what MongoDB is asked does not depend
on hidden rows either, so that the time of an answer tells no more than decision 49 leaves open.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from docgraph.codec import decode
from docgraph.exchange import Exchange, Permission, Request
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.execute.cost_estimate import estimate_cost
from docgraph.graphql.execute.execution import Run
from docgraph.variables import Resolvers
from tests.http.engine.harness import Engine

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query { orders: [Order!] customers: [Customer!] pages: [Customer!] }
type Order { id: ID total: Int customer: Customer person: Person }
type Customer { id: ID name: String city: String country: Country orders: [Order!] count: Int }
type Country { name: String }
type Person { name: String }
"""
OWN = {"customerId": {"$fk": "_id"}}
CUSTOMERS: dict[str, Any] = {
    "collection": "customers",
    "filter": {
        "fields": {"count": ["eq", "range"]},
        "relations": {"orders": {"fields": {"total": ["gte"]}}},
    },
    "orderBy": {"fields": ["count", "name"]},
}
COUNTRY = {"country": {"fields": {"name": ["eq"]}}}
MAPPINGS: dict[str, Any] = {
    "Query": {
        "orders": {
            "collection": "orders",
            "filter": {
                "relations": {
                    "customer": {"fields": {"city": ["eq", "ne"]}, "relations": COUNTRY},
                    "person": {"fields": {"name": ["eq"]}},
                }
            },
            "orderBy": {"fields": ["customer.name"]},
        },
        "customers": CUSTOMERS,
        "pages": {**CUSTOMERS, "connection": {}},
    },
    "Order": {
        "id": "_id",
        "customer": {"collection": "customers", "find": {"_id": {"$fk": "customerId"}}},
        "person": {"collection": "people", "find": {"_id": {"$fk": "by"}}},
    },
    "Customer": {
        "id": "_id",
        "country": {"collection": "countries", "find": {"_id": {"$fk": "countryId"}}},
        "orders": {"collection": "orders", "find": OWN},
        "count": {"collection": "orders", "find": OWN, "count": True},
    },
}
PAGE = "{ edges { cursor node { id } } totalCount pageInfo { hasNextPage hasPreviousPage } }"
QUERIES = [
    '{ orders(where: {customer: {city: {eq: "Rome"}}}) { id } }',
    '{ orders(where: {not: {customer: {city: {ne: "Rome"}}}}) { id } }',
    "{ orders(where: {customer: {exists: true}}) { id } }",
    '{ orders(where: {customer: {country: {name: {eq: "x"}}}}) { id } }',
    '{ orders(where: {person: {name: {eq: "x"}}}) { id } }',
    "{ orders(orderBy: [{customer: {name: ASC}}]) { id customer { name } } }",
    "{ customers(where: {orders: {some: {}}}) { id } }",
    "{ customers(where: {orders: {none: {}}}) { id } }",
    "{ customers(where: {count: {eq: 0}}) { id } }",
    "{ customers(where: {count: {gte: 2}}) { id count } }",
    "{ customers(orderBy: [{count: DESC}]) { id count } }",
    "{ customers(orderBy: [{count: DESC}, {name: ASC}]) { id } }",
    f"{{ pages(where: {{orders: {{some: {{}}}}}}, orderBy: [{{count: DESC}}], first: 2) {PAGE} }}",
    f"{{ pages(orderBy: [{{count: ASC}}], last: 2) {PAGE} }}",
]
VISIBLE: dict[str, list[dict[str, Any]]] = {
    "countries": [{"_id": "it", "name": "x"}],
    "people": [{"_id": "ann", "name": "x"}],
    "customers": [
        {"_id": n, "name": "abc"[n % 3], "city": "Rome", "countryId": "it"} for n in range(4)
    ],
    "orders": [{"_id": n, "customerId": n % 3, "by": "ann"} for n in range(5)],
}
LONG = "k" * 100_000
PLANTED: dict[str, dict[str, list[dict[str, Any]]]] = {
    "many": {
        "customers": [{"_id": n, "name": "b", "city": "Rome"} for n in range(100, 200)],
        "orders": [{"_id": n, "customerId": n % 9, "by": "ann"} for n in range(100, 200)],
        "people": [{"_id": n, "name": "x"} for n in range(100)],
        "countries": [{"_id": n, "name": "x"} for n in range(100)],
    },
    "long": {
        "customers": [{"_id": f"{LONG}{n}", "city": "Rome"} for n in range(8)],
        "orders": [{"_id": n, "customerId": f"{LONG}{n}", "by": LONG} for n in range(100, 108)],
        "people": [{"_id": f"{LONG}{n}", "name": "x"} for n in range(8)],
    },
    "odd": {
        "customers": [{"_id": None, "city": "Rome", "name": ["a", None]}, {"_id": "0"}],
        "orders": [
            {"_id": 100 + n, "customerId": key, "by": key}
            for n, key in enumerate([None, [0, 1], [[0]], "0", {"a": 0}, float("nan")])
        ],
        "people": [{"_id": "ANN2", "name": "x"}, {"_id": 1, "name": "x"}],
        "countries": [{"_id": None, "name": "x"}],
    },
}
SENT = ("find", "aggregate", "filter", "pipeline", "sort", "projection", "limit", "hint")
IGNORING_CASE = {"locale": "en", "strength": 2}


@pytest.mark.parametrize(("bound", "is_folded"), [(5, False), (10_000, True)])
@pytest.mark.parametrize("planted", PLANTED)
async def test_hidden_rows_change_nothing_that_a_caller_sees_or_causes(
    engine: Engine,
    client: AsyncMongoClient[dict[str, Any]],
    planted: str,
    bound: int,
    is_folded: bool,
) -> None:
    database = client[engine.database]
    options: dict[str, Any] = {"collation": IGNORING_CASE} if is_folded else {}
    await database.create_collection("people", **options)
    for name, documents in VISIBLE.items():
        await database[name].insert_many([{**each, "open": True} for each in documents])
    app = engine.app(SCHEMA, MAPPINGS, fetched_documents=bound)
    plans = {query: engine.plan(app, query) for query in QUERIES}
    before = {
        query: await observe(engine, plan, engine.plan(app, query)) for query, plan in plans.items()
    }
    for name, documents in PLANTED[planted].items():
        await database[name].insert_many([{**each, "open": False} for each in documents])
    engine.store.stats.forget()
    for query, plan in plans.items():
        with suppress(OperationRefused):
            await engine.execute(plan)  # someone sees everything, and the plan remembers it
        assert await observe(engine, plan, engine.plan(app, query)) == before[query]
        assert await observe(engine, engine.plan(app, query), plan) == before[query]


async def observe(engine: Engine, plan: Any, previewed: Any) -> Any:
    """What a caller with row filters gets, and the commands that it takes."""
    exchange = Exchange(Request("POST", b"/graphql/test"), "request-1")
    rows = {f"{engine.database}.{name}": {"open": True} for name in VISIBLE}
    exchange.permission = Permission("rule", read_filters=rows)
    try:
        result = await engine.execute(plan, exchange=exchange)
    except OperationRefused as refusal:
        return repr(refusal.errors)
    commands = [[tidy(each.get(name)) for name in SENT] for each in engine.commands]
    run = Run(
        previewed,
        exchange,
        {},
        store=engine.store,
        resolvers=Resolvers(decode),
        bounds=engine.settings,
        limits=previewed.app.app.limits,
    )
    errors = [(error.path, error.code, error.message) for error in result.errors]
    preview = (await estimate_cost(run)).as_dict(privileged=False)
    return {"data": result.data, "errors": errors, "commands": repr(commands), "preview": preview}


def tidy(part: Any) -> Any:
    """A part of a command, the values of `$in` in one order: `$group` has another each time."""
    if isinstance(part, list):
        return [tidy(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        name: sorted(inner, key=repr) if name == "$in" and type(inner) is list else tidy(inner)
        for name, inner in part.items()
    }


async def test_what_a_plan_remembers_of_hidden_rows_inside_of_a_condition_chooses_no_command(
    engine: Engine, client: AsyncMongoClient[dict[str, Any]]
) -> None:
    database = client[engine.database]
    for name in ("countries", "customers"):
        await database[name].insert_many(
            [{"_id": n, "name": "x", "countryId": n, "open": n < 2} for n in range(9)]
        )
    await database.orders.insert_many([{"_id": n, "customerId": n} for n in range(9)])
    query = '{ orders(where: {customer: {country: {name: {eq: "x"}}}}) { id } }'
    app = engine.app(SCHEMA, MAPPINGS, fetched_documents=4)
    plan = engine.plan(app, query)
    for _ in range(2):  # it finds too many keys, and remembers that
        with suppress(OperationRefused):
            await engine.execute(plan)
    assert "$lookup" in str(engine.commands)
    exchange = Exchange(Request("POST", b"/graphql/test"), "request-1")
    rows = {f"{engine.database}.countries": {"open": True}}
    exchange.permission = Permission("rule", read_filters=rows)
    result = await engine.execute(plan, exchange=exchange)
    assert result.data == {"orders": [{"id": "0"}, {"id": "1"}]}
    assert "$lookup" not in str(engine.commands)
