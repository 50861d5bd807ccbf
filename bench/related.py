"""W19: conditions and orders across relations: 50 000 orders of 5 000 customers, with indexes.

The twin sends what a person would write: two commands for the condition, and one pipeline for the
order by a count.
"""

from __future__ import annotations

import random
from typing import Any

from pymongo import MongoClient

from bench.data import DB
from bench.workloads import Workload

CUSTOMERS, ORDERS, CITIES = 5_000, 50_000, 100
LIMIT = 100
_CITY = "city 7"  # 50 customers, 1 %
_WORDS = "graph query index cache stream shard batch plan fetch join".split()
_PATH = "/graphql/related"

APP: dict[str, Any] = {
    "_id": "related",
    "schema": """
        type Query { orders(limit: Int): [Order] customers(limit: Int): [Customer] }
        type Order { id: Int! total: Int note: String customer: Customer }
        type Customer { id: Int! name: String city: String ordersCount: Int }
    """,
    "mappings": {
        "Query": {
            "orders": {
                "db": DB,
                "collection": "orders",
                "limit": {"$arg": "limit"},
                "filter": {"relations": {"customer": {"fields": {"city": ["eq"]}}}},
            },
            "customers": {
                "db": DB,
                "collection": "customers",
                "limit": {"$arg": "limit"},
                "orderBy": {"fields": ["ordersCount"]},
            },
        },
        "Order": {
            "id": "_id",
            "customer": {
                "db": DB,
                "collection": "customers",
                "find": {"_id": {"$fk": "customerId"}},
            },
        },
        "Customer": {
            "id": "_id",
            "ordersCount": {
                "db": DB,
                "collection": "orders",
                "find": {"customerId": {"$fk": "_id"}},
                "count": True,
            },
        },
    },
}

_FIELDS = "{ id name city }"
WORKLOADS = (
    Workload(
        "W19-filter",
        "orders of the customers of a city",
        f'{{ orders(where: {{customer: {{city: {{eq: "{_CITY}"}}}}}}, limit: {LIMIT})'
        " { id total note } }",
        path=_PATH,
    ),
    *(
        Workload(
            f"W19-{direction.lower()}",
            "customers by their number of orders",
            f"{{ customers(orderBy: [{{ordersCount: {direction}}}], limit: {LIMIT}) {_FIELDS} }}",
            path=_PATH,
        )
        for direction in ("ASC", "DESC")
    ),
)

BARS = {"W19-filter": 1.5, "W19-asc": 1.2, "W19-desc": 1.2}
"""CPU of server and database, divided by that of the twin."""


def load(uri: str) -> None:
    """Write the orders and customers again."""
    source = random.Random(19)
    with MongoClient[dict[str, Any]](uri) as client:
        db = client[DB]
        db.customers.drop()
        db.customers.insert_many([_build_customer(source, n) for n in range(CUSTOMERS)])
        db.customers.create_index("city")
        db.orders.drop()
        db.orders.insert_many([_build_order(source, n) for n in range(ORDERS)])
        db.orders.create_index("customerId")


def _build_customer(source: random.Random, number: int) -> dict[str, Any]:
    return {
        "_id": number,
        "name": f"customer {number}",
        "city": f"city {number % CITIES}",
        "bio": " ".join(source.choices(_WORDS, k=20)),
    }


def _build_order(source: random.Random, number: int) -> dict[str, Any]:
    return {
        "_id": number,
        "customerId": source.randrange(CUSTOMERS * 9 // 10),  # some have no orders
        "total": source.randrange(10_000),
        "note": " ".join(source.choices(_WORDS, k=5)),
        "body": " ".join(source.choices(_WORDS, k=40)),
    }


async def find_orders(db: Any) -> list[dict[str, Any]]:
    """The two commands: keys of the customers, then their orders."""
    customers = db.customers.find({"city": _CITY}, {"_id": 1}, batch_size=1_000)
    keys = [customer["_id"] for customer in await customers.to_list()]
    cursor = db.orders.find(
        {"customerId": {"$in": keys}}, {"total": 1, "note": 1}, limit=LIMIT, batch_size=LIMIT
    )
    rows: list[dict[str, Any]] = await cursor.to_list()
    return rows


async def find_customers(db: Any, direction: int) -> list[dict[str, Any]]:
    """The pipeline: orders by customer, customers without any, and the customers of the page."""
    zeros = [{"$project": {"n": {"$literal": 0}}}]
    cursor = await db.orders.aggregate(
        [
            {"$group": {"_id": "$customerId", "n": {"$sum": 1}}},
            {"$unionWith": {"coll": "customers", "pipeline": zeros}},
            {"$group": {"_id": "$_id", "n": {"$sum": "$n"}}},
            {"$sort": {"n": direction, "_id": direction}},
            {"$limit": LIMIT},
            {
                "$lookup": {
                    "from": "customers",
                    "localField": "_id",
                    "foreignField": "_id",
                    "as": "customer",
                }
            },
            {"$replaceWith": {"$first": "$customer"}},
            {"$project": {"name": 1, "city": 1}},
        ]
    )
    rows: list[dict[str, Any]] = await cursor.to_list()
    return rows
