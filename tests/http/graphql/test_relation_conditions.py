"""Conditions and orders across relations: meaning, roles, limits, definitions (decision 73)."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import patch

import pytest

from docgraph.exchange.errors import DefinitionError
from docgraph.graphql.execute import relations
from docgraph.server.builtin import BUILTIN
from tests.databases import drop, new_name
from tests.http.access_harness import TestCaller, caller
from tests.http.harness import Document, Mongo, Service, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query {
  orders: [Order!] customers: [Customer!] pages: [Customer!] indexed: [Order!] cities: [City!]
}
type Order {
  id: ID total: Int status: Status customer: Customer
  hidden: Customer @visible(roles: ["editor"])
}
type Customer {
  id: ID name: String city: String
  vat: String @visible(roles: ["editor"])
  country: Country
  orders(status: Status = OPEN): [Order!]
  anyOrders(status: Status): [Order!]
  ordersCount: Int
}
type Country { id: ID name: String customers: [Customer!] }
type City { city: String count: Int! }
enum Status { OPEN DONE }
"""
EDITOR = caller("ed", "editor")


def build_mappings(service: Service) -> Document:
    customer: Document = {
        "fields": {"city": ["eq", "in", "ne"], "vat": ["eq"]},
        "relations": {"country": {"fields": {"name": ["eq"]}}},
    }
    orders: Document = {"fields": {"total": ["range"], "status": ["eq"]}}
    deep: Document = {
        "fields": {"name": ["eq"]},
        "relations": {"customers": {"relations": {"orders": orders}}},
    }
    customers = {
        "fields": {"name": ["eq"], "ordersCount": ["eq", "range"]},
        "relations": {"orders": orders, "anyOrders": orders},
    }
    by_count = {"fields": ["name", "ordersCount"]}
    own = {"customerId": {"$fk": "_id"}}
    return {
        "Query": {
            "orders": service.find(
                "orders",
                filter={
                    "fields": {"total": ["eq"]},
                    "relations": {
                        "customer": {**customer, "relations": {"country": deep}},
                        "hidden": customer,
                    },
                },
                orderBy={"fields": ["total", "customer.name"]},
            ),
            "customers": service.find("customers", filter=customers, orderBy=by_count),
            "pages": service.find("customers", filter=customers, orderBy=by_count, connection={}),
            "indexed": service.find(
                "orders",
                filter={"relations": {"customer": customer}, "indexed-only": True},
            ),
            "cities": {
                **service.find("customers"),
                "group": {"by": "city"},
                "sort": {"count": -1},
            },
        },
        "Order": {
            "id": "_id",
            "customer": service.find("customers", {"_id": {"$fk": "customerId"}}),
            "hidden": service.find("customers", {"_id": {"$fk": "customerId"}}),
        },
        "Customer": {
            "id": "_id",
            "country": service.find("countries", {"_id": {"$fk": "countryId"}}),
            "orders": service.find("orders", {**own, "status": {"$arg": "status"}}, limit=1),
            "anyOrders": service.find(
                "orders", {"$and": [own, {"$ifarg": ["status", {"status": {"$arg": "status"}}]}]}
            ),
            "ordersCount": service.find("orders", own, count=True),
        },
        "Country": {
            "id": "_id",
            "customers": service.find("customers", {"countryId": {"$fk": "_id"}}),
        },
        "Status": {"OPEN": "open", "DONE": "done"},
    }


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, plugins=[*BUILTIN, TestCaller]) as service:
        service.insert(
            "countries", {"_id": "de", "name": "Germany"}, {"_id": "it", "name": "Italy"}
        )
        service.insert(
            "customers",
            {"_id": 1, "name": "ada", "city": "Berlin", "countryId": "de", "vat": "x"},
            {"_id": 2, "name": "bob", "city": "Rome", "countryId": "it"},
            {"_id": 3, "name": "cy", "city": "Berlin", "countryId": "de"},
        )
        statuses = ["open", "done", "open", "open", "done"]
        for number, customer in enumerate([1, 1, 2, None, 9], 1):
            order = {"_id": number, "customerId": customer, "total": number * 10}
            service.insert("orders", {**order, "status": statuses[number - 1]})
        service.mongo[service.db].orders.create_index("customerId")
        service.mongo[service.db].customers.create_index("city")
        await service.define("app", SCHEMA, build_mappings(service))
        yield service


async def find(service: Service, field: str, headers: Any = EDITOR) -> str:
    """The ids of a list."""
    reply = await service.query("app", f"{{ list: {field} {{ id }} }}", headers=headers)
    return "".join(each["id"] for each in reply.data["list"])


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ('orders(where: {customer: {city: {eq: "Berlin"}}})', "12"),
        ('orders(where: {customer: {city: {ne: "Berlin"}}})', "3"),
        ('orders(where: {not: {customer: {city: {eq: "Berlin"}}}})', "345"),
        ("orders(where: {customer: {exists: false}})", "45"),
        ("orders(where: {customer: {exists: true}})", "123"),
        ("orders(where: {customer: {}})", "12345"),
        ("orders(where: {customer: {city: {}}})", "12345"),
        ('orders(where: {customer: {country: {name: {eq: "Italy"}}}})', "3"),
        ('orders(where: {or: [{total: {eq: 50}}, {customer: {city: {eq: "Rome"}}}]})', "35"),
        ("customers(where: {anyOrders: {none: {}}})", "3"),
        ("customers(where: {anyOrders: {some: {}}})", "12"),
        ("customers(where: {anyOrders: {some: {status: {eq: DONE}}}})", "1"),
        ("customers(where: {orders: {some: {status: {eq: DONE}}}})", ""),  # its default is OPEN
        ("customers(where: {orders: {some: {total: {gte: 10}}}})", "12"),  # whatever its limit is
        ("customers(where: {anyOrders: {every: {total: {lt: 30}}}})", "13"),
        ("customers(where: {anyOrders: {some: {not: {total: {lt: 30}}}}})", "2"),
        ("customers(where: {ordersCount: {gte: 1}})", "12"),
        ("customers(where: {ordersCount: {eq: 0}})", "3"),
        ("customers(where: {ordersCount: {lte: 1}})", "23"),
        ("customers(orderBy: [{ordersCount: DESC}])", "123"),
        ("customers(orderBy: [{ordersCount: ASC}])", "321"),
        ("orders(orderBy: [{customer: {name: DESC}}, {total: ASC}])", "31245"),
    ],
)
async def test_what_conditions_mean(service: Service, field: str, expected: str) -> None:
    found = await find(service, field)
    if "orderBy" in field:
        assert found == expected
    else:
        assert "".join(sorted(found)) == expected


async def test_pages_go_both_ways(service: Service) -> None:
    query = "{ nodes { id } totalCount pageInfo { startCursor hasPreviousPage } } }"
    order = "orderBy: [{ordersCount: DESC}]"
    reply = await service.query("app", f"{{ pages({order} last: 2) {query}")
    page = reply.data["pages"]
    assert ([each["id"] for each in page["nodes"]], page["totalCount"]) == (["2", "3"], 3)
    before = page["pageInfo"]["startCursor"]
    reply = await service.query("app", f'{{ pages({order} last: 2 before: "{before}") {query}')
    page = reply.data["pages"]
    assert [each["id"] for each in page["nodes"]] == ["1"]
    assert page["pageInfo"]["hasPreviousPage"] is False


async def test_distinct_values_are_a_group_without_totals(service: Service) -> None:
    reply = await service.query("app", "{ cities { city count } }")
    assert reply.data["cities"] == [{"city": "Berlin", "count": 2}, {"city": "Rome", "count": 1}]


async def test_hidden_fields_and_relations_have_no_conditions(service: Service) -> None:
    for where in ('{customer: {vat: {eq: "x"}}}', "{hidden: {exists: true}}"):
        assert await find(service, f"orders(where: {where})") in {"12", "123"}
        reply = await service.query("app", f"{{ orders(where: {where}) {{ id }} }}")
        assert reply.code == "invalid-query"
        assert (
            "vat" not in reply.text.replace('"vat"', "") or "did you mean" not in reply.text.lower()
        )
    reply = await service.query(
        "app", '{ __type(name: "OrderWhereCustomer") { inputFields { name } } }'
    )
    names = {each["name"] for each in reply.data["__type"]["inputFields"]}
    assert names == {"city", "country", "exists"}


async def test_indexed_only_needs_indexes_of_both_sides(service: Service) -> None:
    reply = await service.query(
        "app", '{ indexed(where: {customer: {city: {eq: "Rome"}}}) { id } }'
    )
    assert [each["id"] for each in reply.data["indexed"]] == ["3"]
    for where in ('{customer: {city: {ne: "Rome"}}}', '{customer: {vat: {eq: "x"}}}'):
        reply = await service.query(
            "app", f"{{ indexed(where: {where}) {{ id }} }}", headers=EDITOR
        )
        assert reply.code == "not-indexed"
        assert "customer.city" in reply.text


async def test_relations_have_a_depth(service: Service) -> None:
    inner = "{customers: {some: {orders: {some: {total: {gte: 30}}}}}}"
    reply = await service.query(
        "app", f"{{ orders(where: {{customer: {{country: {inner}}}}}) {{ id }} }}"
    )
    assert reply.code == "bad-where"
    assert "nested deeper than 3" in reply.text


async def test_many_keys_of_one_execution_do_not_fail_the_next(
    service: Service, mongo_client: Mongo
) -> None:
    """`$lookup` cannot read another database, so what was remembered is not used there."""
    db = new_name()
    mongo_client[db].people.insert_one({"_id": 1, "city": "Berlin"})
    schema = "type Query { list: [Order!] } type Order { id: ID c: C } type C { city: String }"
    customer = {"db": db, "collection": "people", "find": {"_id": {"$fk": "customerId"}}}
    filter_ = {"relations": {"c": {"fields": {"city": ["eq"]}}}}
    mappings = {
        "Query": {"list": service.find("orders", filter=filter_)},
        "Order": {"id": "_id", "c": customer},
    }
    try:
        await service.define("apart", schema, mappings)
        query = '{ list(where: {c: {city: {eq: "Berlin"}}}) { id } }'
        with patch.object(relations, "KEY_BYTES", 0):
            assert (await service.query("apart", query)).code == "relation-too-large"
        reply = await service.query("apart", query)
        assert [each["id"] for each in reply.data["list"]] == ["1", "2"]
    finally:
        drop(mongo_client, db)


@pytest.mark.parametrize(
    ("find", "sort", "what"),
    [
        ({"_id": {"$fk": "customerId"}, "city": {"$arg": "city"}}, None, "needs the argument city"),
        ({"_id": {"$fk": "customerId"}, "a": {"$arg": "rootDoc.a"}}, None, "uses rootDoc"),
        ({"_id": {"$gt": {"$fk": "customerId"}}}, None, "not joined by equality"),
        ({"city": "Rome"}, None, "not joined by equality"),
        ({"_id": {"$fk": "ids.0"}}, None, "is joined by ids.0"),
        ({"countryId": {"$fk": "countryId"}}, {"name": 1}, "chooses one of several"),
    ],
)
async def test_what_cannot_be_declared(
    service: Service, find: Document, sort: Any, what: str
) -> None:
    schema = "type Query { a: [Order!] } type Order { c(city: String): C } type C { city: String }"
    order = service.find("customers", find, **({"sort": sort} if sort else {}))
    filter_ = {"relations": {"c": {"fields": {"city": ["eq"]}}}}
    mappings = {"Query": {"a": service.find("orders", filter=filter_)}, "Order": {"c": order}}
    with pytest.raises(DefinitionError, match=what):
        await service.define("wrong", schema, copy.deepcopy(mappings))
