"""Conditions and orders across relations as CSV, by agents, and of hidden fields (decision 73)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from docgraph.server.builtin import BUILTIN
from tests.http.access_harness import TestCaller, allow, caller, guarded
from tests.http.harness import Document, Mongo, Service, running
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, use

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query {
  orders: [Order!]
  customers: [Customer!]
  pages: [Customer!]
  cities(country: String, most: Int = 10): [City!]
}
type Order { id: ID total: Int customer: Customer }
type Customer {
  id: ID name: String city: String
  vat: String @visible(roles: ["editor"])
  ordersCount: Int @visible(roles: ["editor"])
  orders: [Order!] @visible(roles: ["editor"])
}
type City { city: String count: Int! }
"""
READER, EDITOR = caller("rita", "reader"), caller("ed", "editor")


def build_mappings(service: Service) -> Document:
    by_customer = {"customerId": {"$fk": "_id"}}
    by_total = {"fields": {"total": ["gte"]}}
    customers = service.find(
        "customers",
        filter={
            "fields": {"name": ["eq"], "ordersCount": ["eq"]},
            "relations": {"orders": by_total},
        },
        orderBy={"fields": ["name", "ordersCount"]},
    )
    return {
        "Query": {
            "orders": service.find(
                "orders",
                filter={"relations": {"customer": {"fields": {"city": ["eq"], "vat": ["eq"]}}}},
                orderBy={"fields": ["total", "customer.name", "customer.vat"]},
            ),
            "customers": customers,
            "pages": {**customers, "connection": {}},
            "cities": {
                **service.find(
                    "customers", {"$ifarg": ["country", {"country": {"$arg": "country"}}]}
                ),
                "group": {"by": "city"},
                "sort": {"count": -1},
                "limit": {"$arg": "most"},
            },
        },
        "Order": {
            "id": "_id",
            "customer": service.find("customers", {"_id": {"$fk": "customerId"}}),
        },
        "Customer": {
            "id": "_id",
            "orders": service.find("orders", by_customer),
            "ordersCount": service.find("orders", by_customer, count=True),
        },
    }


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, AGENTS, plugins=[*BUILTIN, TestCaller]) as service:
        service.insert(
            "customers",
            {"_id": 1, "name": "ada", "city": "Berlin", "country": "de", "vat": "de1"},
            {"_id": 2, "name": "bob", "city": "Rome", "country": "it", "vat": "it2"},
            {"_id": 3, "name": "cy", "city": "Bonn", "country": "de", "vat": "de3"},
            {"_id": 4, "name": "di", "city": "Bonn", "country": "de", "vat": "de4"},
        )
        service.insert(
            "orders", *({"_id": n, "customerId": n % 3 + 1, "total": n * 10} for n in range(5))
        )
        await service.define("shop", SCHEMA, build_mappings(service), csv=True)
        yield service


async def test_a_list_with_conditions_on_related_documents_is_csv(service: Service) -> None:
    query = """{
      orders(where: {customer: {city: {eq: "Rome"}}}, orderBy: [{customer: {name: ASC}}]) {
        id customer { name }
      }
    }"""
    reply = await service.query("shop", query, headers={**READER, "accept": "text/csv"})
    assert reply.text.splitlines() == ["id,customer.name", "1,bob", "4,bob"]


async def test_agents_find_and_use_conditions_on_related_documents(service: Service) -> None:
    searched = await use(service, "search_schema", READER, app="shop", words="customer city")
    hits = [hit["is"] for hit in searched.json["hits"]]
    assert any(hit.startswith("OrderWhereCustomer.city") for hit in hits), hits
    assert any(hit.startswith("OrderWhere.customer") for hit in hits), hits
    query = '{ orders(where: {customer: {city: {eq: "Rome"}}}) { id } }'
    answer = await use(service, "run_query", READER, app="shop", query=query)
    assert answer.json["data"]["orders"] == [{"id": "1"}, {"id": "4"}]
    for words in ("vat", "orders count", "some none every"):
        hidden = await use(service, "search_schema", READER, app="shop", words=words)
        names = {hit["is"].partition("(")[0].partition(":")[0] for hit in hidden.json["hits"]}
        assert not [name for name in names if "vat" in name or "ordersCount" in name], words
        assert not [name for name in names if name.startswith("CustomerWhereOrders")], words


@pytest.mark.parametrize(
    "field",
    [
        'orders(where: {customer: {vat: {eq: "de1"}}})',
        "orders(orderBy: [{customer: {vat: ASC}}])",
        "customers(where: {ordersCount: {eq: 1}})",
        "customers(orderBy: [{ordersCount: ASC}])",
        "customers(where: {orders: {some: {total: {gte: 1}}}})",
    ],
)
async def test_what_is_hidden_takes_part_in_no_condition_and_no_order(
    service: Service, field: str
) -> None:
    query = f"{{ {field} {{ id }} }}"
    assert (await service.query("shop", query, headers=EDITOR)).data
    refused = await service.query("shop", query, headers=READER)
    assert refused.code == "invalid-query"
    for name in ("vat", "ordersCount", "orders"):  # no suggestion names it
        misspelt = query.replace(name, f"{name}x")
        reply = await service.query("shop", misspelt, headers=READER)
        assert f'"{name}"' not in reply.text.replace(f'"{name}x"', "")


async def test_a_cursor_of_a_hidden_order_is_none_of_another_caller(service: Service) -> None:
    order = "pages(orderBy: [{ordersCount: DESC}], first: 1"
    page = "{ nodes { id } pageInfo { endCursor } }"
    reply = await service.query("shop", f"{{ {order}) {page} }}", headers=EDITOR)
    cursor = reply.data["pages"]["pageInfo"]["endCursor"]
    again = f'{{ {order}, after: "{cursor}") {page} }}'
    assert (await service.query("shop", again, headers=EDITOR)).data["pages"]["nodes"]
    other = f'{{ pages(first: 1, after: "{cursor}") {page} }}'
    assert (await service.query("shop", other, headers=READER)).code == "bad-cursor"


async def test_distinct_values_are_filtered_sorted_and_limited(service: Service) -> None:
    query = "query ($c: String, $n: Int = 10) { cities(country: $c, most: $n) { city count } }"
    reply = await service.query("shop", query, {"c": "de", "n": 1}, headers=READER)
    assert reply.data["cities"] == [{"city": "Bonn", "count": 2}]
    reply = await service.query("shop", query, headers=READER)
    assert [each["city"] for each in reply.data["cities"]] == ["Bonn", "Berlin", "Rome"]


async def test_properties_that_are_never_shown_take_part_in_no_condition(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """Not even as the key of a relation; a field that shows them cannot be declared."""
    schema = """
    type Query { byHash: [Order!] }
    type Order { id: ID sameHash: User }
    type User { id: ID name: String }
    """
    by_hash = {"relations": {"sameHash": {"fields": {"name": ["eq"]}}}}
    async with guarded(mongo_client, mongo_uri) as service:
        service.insert("users", {"_id": "rita", "name": "x", "password": "$2b$secret"})
        service.insert("orders", {"_id": 1, "userId": "rita", "guess": "$2b$secret"})
        await allow(service, "path-prefix('/graphql')", "reader")
        mappings = {
            "Query": {"byHash": service.find("orders", filter=by_hash)},
            "Order": {
                "id": "_id",
                "sameHash": service.find("users", {"password": {"$fk": "guess"}}),
            },
            "User": {"id": "_id"},
        }
        await service.define("app", schema, mappings)
        for query in (
            '{ byHash(where: {sameHash: {name: {eq: "x"}}}) { id } }',
            "{ byHash(where: {sameHash: {exists: true}}) { id } }",
        ):
            reply = await service.query("app", query, headers=READER)
            assert not (reply.data and any(reply.data.values())), reply.text
            assert "$2b$secret" not in reply.text
