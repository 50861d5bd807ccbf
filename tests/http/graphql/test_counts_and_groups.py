"""`count` and `group`: aggregations that docgraph writes, compared with what Python counts."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from bson import Decimal128, Int64

from docgraph.exchange.errors import DefinitionError
from docgraph.observe.command_events import CommandFinished
from tests.http.access_harness import ADA, allow, guarded
from tests.http.harness import Document, Mongo, Service, identity, listening, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query {
  customers: [Customer!]!
  customer(id: Int!): Customer
  ordersCount(status: String): Int!
  manyOrders: Long!
  perStatus(limit: Int, skip: Int): [StatusTotal!]!
  perPlace: [PlaceTotal!]!
  perTag: [TagTotal!]!
  perItem: [ItemTotal!]!
  byCount(bySum: Int): [StatusTotal!]!
  perNumber: [NumberTotal!]!
  exact: [ExactTotal!]!
  totals(status: String): Totals!
  noTotals: Totals!
}
type Customer {
  _id: Int
  name: String
  ordersCount: Int!
  openCount: Int
  watchedCount: Int!
  perStatus: [StatusTotal!]!
  totals: Totals
  favouriteTotals: Totals
}
type StatusTotal {
  status: String count: Int! sumTotal: Float avgTotal: Float minTotal: Float maxTotal: Float
}
type PlaceTotal { country: String status: String count: Int revenue: Float customers: [Customer!]! }
type TagTotal { tag: String count: Int }
type ItemTotal { sku: String count: Int pieces: Int }
type NumberTotal { number: Int count: Int }
type ExactTotal { status: String total: Decimal128 mean: Decimal128 }
type Totals { count: Int! sumTotal: Float avgTotal: Float }
"""
STATUSES = ("open", "paid", "sent", None)


def make_orders(number: int) -> list[Document]:
    """Orders with everything that stored data may have: lists, nulls, other types."""
    chance = random.Random(number)
    orders: list[Document] = []
    for id in range(number):
        order: Document = {
            "_id": id,
            "customerId": chance.choice([0, 1, 2, 3.0, Int64(4), [1, 2], None]),
            "total": chance.choice(
                [1, 2.5, Int64(7), Decimal128("3.25"), None, "12", [4, 5], {"a": 1}, True]
            ),
            "where": chance.choice([{"country": "AT"}, {"country": "DE"}, {}, "x"]),
            "tags": chance.choice([["a"], ["a", "b"], ["a", "a"], [], None, "b"]),
            "items": [
                {"sku": chance.choice("xyz"), "pieces": chance.randrange(5)}
                for _ in range(chance.randrange(4))
            ],
            "number": chance.choice([1, 1.0, Int64(1), Decimal128("1"), 2]),
        }
        status = chance.choice([*STATUSES, "missing"])
        if status != "missing":
            order["status"] = status
        orders.append({key: one for key, one in order.items() if key != "where" or one})
    return orders


ORDERS = make_orders(300)
CUSTOMERS: list[Document] = [{"_id": n, "name": f"c{n}"} for n in range(8)]
CUSTOMERS[1]["watched"] = [0, 3, 3]
CUSTOMERS[2]["watched"] = [7]


def build_mappings(service: Service) -> Document:
    def orders(find: Document | None = None, **others: Any) -> Document:
        return service.find("orders", find, **others)

    all_totals = {key: ["total"] for key in ("sum", "avg", "min", "max")}
    given = {"$ifarg": ["status", {"status": {"$arg": "status"}}]}
    own = {"customerId": {"$fk": "_id"}}
    totals = {"sum": "total", "avg": "total"}
    return {
        "Query": {
            "customers": service.find("customers", sort={"_id": 1}),
            "customer": service.find("customers", {"_id": {"$arg": "id"}}),
            "ordersCount": orders(given, count=True),
            "manyOrders": orders(count=True),
            "perStatus": orders(
                group={"by": ["status"], **all_totals},
                limit={"$arg": ["limit", 100]},
                skip={"$arg": ["skip", 0]},
            ),
            "perPlace": orders(
                {"total": {"$exists": True}},
                group={"by": ["where.country", "status"], "sum": {"revenue": "total"}},
            ),
            "perTag": orders(group={"unwind": "tags", "by": {"tag": "tags"}}),
            "perItem": orders(
                group={"unwind": ["items"], "by": "items.sku", "sum": {"pieces": "items.pieces"}}
            ),
            "byCount": orders(
                group={"by": ["status"], **all_totals},
                sort={"sumTotal": {"$arg": ["bySum", None]}, "count": -1},
            ),
            "perNumber": orders(group={"by": ["number"]}),
            "exact": orders(
                group={"by": "status", "sum": {"total": "total"}, "avg": {"mean": "total"}}
            ),
            "totals": orders(given, group=totals),
            "noTotals": orders({"status": "never"}, group=totals),
        },
        "Customer": {
            "ordersCount": orders(own, count=True),
            "openCount": orders({**own, "status": "open"}, count=True),
            "watchedCount": orders({"customerId": {"$in": {"$fk": "watched"}}}, count=True),
            "perStatus": orders(own, group={"by": ["status"], **all_totals}),
            "totals": orders(own, group=totals),
            "favouriteTotals": orders({"customerId": {"$fk": "favourite"}}, group=totals),
        },
        "PlaceTotal": {"customers": service.find("customers", {"home": {"$fk": "country"}})},
    }


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, {"graphql": {"max-limit": 200}}) as service:
        service.insert("orders", *ORDERS)
        service.insert("customers", *CUSTOMERS)
        await service.define("shop", SCHEMA, build_mappings(service))
        yield service


def read_number(value: Any) -> float | None:
    """What `$sum` and `$avg` count as a number."""
    if isinstance(value, Decimal128):
        return float(value.to_decimal())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def expect_totals(orders: list[Document]) -> Document:
    numbers = [one for order in orders if (one := read_number(order.get("total"))) is not None]
    return {
        "count": len(orders),
        "sumTotal": sum(numbers),
        "avgTotal": pytest.approx(sum(numbers) / len(numbers)) if numbers else None,
    }


def group(orders: list[Document], key: Callable[[Document], Any]) -> dict[Any, list[Document]]:
    groups: dict[Any, list[Document]] = defaultdict(list)
    for order in orders:
        groups[key(order)].append(order)
    return groups


def belongs(order: Document, *keys: int) -> bool:
    value = order["customerId"]
    values = value if isinstance(value, list) else [value]
    return any(one is not None and one in keys for one in values)


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [None, "open", "never"])
async def test_a_count_is_the_number_of_documents(service: Service, status: str | None) -> None:
    given = {} if status is None else {"status": status}
    query = "query ($status: String) { ordersCount(status: $status) }"
    found = await service.query("shop", query, given)
    expected = [one for one in ORDERS if status is None or one.get("status") == status]
    assert found.data == {"ordersCount": len(expected)}


async def test_a_count_may_be_a_long(service: Service) -> None:
    found = await service.query("shop", "{ manyOrders }")
    assert found.data == {"manyOrders": {"$numberLong": "300"}}


async def test_counts_of_all_parents_are_one_command(service: Service) -> None:
    query = "{ customers { _id ordersCount openCount watchedCount } }"
    with listening(CommandFinished) as commands:
        found = await service.query("shop", query)
    by_id = {one["_id"]: one for one in found.data["customers"]}
    for customer in CUSTOMERS:
        id, watched = customer["_id"], customer.get("watched", [])
        assert by_id[id] == {
            "_id": id,
            "ordersCount": sum(belongs(one, id) for one in ORDERS),
            "openCount": sum(belongs(one, id) for one in ORDERS if one.get("status") == "open"),
            "watchedCount": sum(belongs(one, *watched) for one in ORDERS),
        }
    assert len([one for one in commands if one.collection == "orders"]) == 3
    assert by_id[7]["ordersCount"] == 0


async def test_a_count_of_one_parent_is_the_same(service: Service) -> None:
    query = "query ($id: Int!) { customer(id: $id) { ordersCount openCount watchedCount } }"
    together = await service.query("shop", "{ customers { ordersCount openCount watchedCount } }")
    alone = [
        (await service.query("shop", query, {"id": one["_id"]})).data["customer"]
        for one in CUSTOMERS
    ]
    assert alone == together.data["customers"]


# --- groups ---------------------------------------------------------------------------------------


async def test_groups_are_what_python_counts(service: Service) -> None:
    query = "{ perStatus { status count sumTotal avgTotal } }"
    found = (await service.query("shop", query)).data["perStatus"]
    groups = group(ORDERS, lambda one: one.get("status"))
    names = sorted(groups, key=lambda one: (one is not None, one))
    assert found == [{"status": name, **expect_totals(groups[name])} for name in names]
    assert names[0] is None  # without a value and with null: one group


async def test_nested_names_and_several_keys(service: Service) -> None:
    found = (await service.query("shop", "{ perPlace { country status count revenue } }")).data

    def place(order: Document) -> tuple[Any, Any]:
        where = order.get("where")
        return where.get("country") if isinstance(where, dict) else None, order.get("status")

    groups = group(ORDERS, place)
    assert {(one["country"], one["status"]): one for one in found["perPlace"]} == {
        (country, status): {
            "country": country,
            "status": status,
            "count": len(orders),
            "revenue": expect_totals(orders)["sumTotal"],
        }
        for (country, status), orders in groups.items()
    }


async def test_elements_of_lists_are_grouped_one_by_one(service: Service) -> None:
    query = "{ perTag { tag count } perItem { sku count pieces } }"
    found = (await service.query("shop", query)).data
    tags = group([{"t": tag} for one in ORDERS for tag in one["tags"] or ()], lambda one: one["t"])
    items = group([item for one in ORDERS for item in one["items"]], lambda one: one["sku"])
    assert found["perTag"] == [{"tag": tag, "count": len(tags[tag])} for tag in sorted(tags)]
    assert found["perItem"] == [
        {"sku": sku, "count": len(items[sku]), "pieces": sum(one["pieces"] for one in items[sku])}
        for sku in sorted(items)
    ]


async def test_numbers_of_all_types_are_one_group(service: Service) -> None:
    found = (await service.query("shop", "{ perNumber { count } }")).data["perNumber"]
    twos = sum(one["number"] == 2 for one in ORDERS)
    assert found == [{"count": len(ORDERS) - twos}, {"count": twos}]


async def test_totals_are_of_the_declared_type(service: Service) -> None:
    found = (await service.query("shop", "{ exact { status total mean } }")).data["exact"]
    groups = group(ORDERS, lambda one: one.get("status"))
    for one in found:
        expected = expect_totals(groups[one["status"]])
        assert float(one["total"]["$numberDecimal"]) == pytest.approx(expected["sumTotal"])
        assert float(one["mean"]["$numberDecimal"]) == expected["avgTotal"]


async def test_the_totals_of_all_documents(service: Service) -> None:
    query = '{ totals { count sumTotal avgTotal } open: totals(status: "open") { count sumTotal } }'
    found = (await service.query("shop", query)).data
    opened = expect_totals([one for one in ORDERS if one.get("status") == "open"])
    assert found["totals"] == expect_totals(ORDERS)
    assert found["open"] == {"count": opened["count"], "sumTotal": opened["sumTotal"]}


async def test_no_documents_have_totals_too(service: Service) -> None:
    query = "{ noTotals { count sumTotal avgTotal } customers { favouriteTotals { count } } }"
    found = (await service.query("shop", query)).data
    assert found["noTotals"] == {"count": 0, "sumTotal": 0.0, "avgTotal": None}
    assert found["customers"] == [{"favouriteTotals": {"count": 0}}] * len(CUSTOMERS)


async def test_groups_of_all_parents_are_one_command(service: Service) -> None:
    query = "{ customers { _id perStatus { status count } totals { count sumTotal } } }"
    with listening(CommandFinished) as commands:
        found = await service.query("shop", query)
    for customer in found.data["customers"]:
        own = [one for one in ORDERS if belongs(one, customer["_id"])]
        groups = group(own, lambda one: one.get("status"))
        assert {one["status"]: one["count"] for one in customer["perStatus"]} == {
            status: len(orders) for status, orders in groups.items()
        }
        totals = expect_totals(own)
        assert customer["totals"] == {"count": len(own), "sumTotal": totals["sumTotal"]}
    assert len([one for one in commands if one.collection == "orders"]) == 2


async def test_relations_of_groups(service: Service) -> None:
    service.mongo[service.db].customers.update_one({"_id": 5}, {"$set": {"home": "AT"}})
    found = (await service.query("shop", "{ perPlace { country customers { _id } } }")).data
    for one in found["perPlace"]:
        assert one["customers"] == ([{"_id": 5}] if one["country"] == "AT" else [])


# --- order and limits -----------------------------------------------------------------------------


async def test_groups_have_an_order_and_pages(service: Service) -> None:
    all_of_them = (await service.query("shop", "{ perStatus { status } }")).data["perStatus"]
    pages = [
        (await service.query("shop", f"{{ perStatus(limit: 2, skip: {skip}) {{ status }} }}")).data[
            "perStatus"
        ]
        for skip in (0, 2, 4)
    ]
    assert [one for page in pages for one in page] == all_of_them
    assert len(all_of_them) == 4


async def test_groups_are_sorted_by_their_totals(service: Service) -> None:
    found = (await service.query("shop", "{ byCount { count } }")).data["byCount"]
    assert found == sorted(found, key=lambda one: -one["count"])
    query = "{ byCount(bySum: 1) { sumTotal } }"
    found = (await service.query("shop", query)).data["byCount"]
    assert found == sorted(found, key=lambda one: one["sumTotal"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("limit: -1", "negative-limit"),
        ("limit: 201", "limit-too-high"),
        ("skip: -1", "negative-skip"),
    ],
)
async def test_wrong_windows_are_field_errors(service: Service, arguments: str, code: str) -> None:
    found = await service.query("shop", f"{{ perStatus({arguments}) {{ status }} }}")
    assert found.code == code
    assert found.error["path"] == ["perStatus"]


async def test_too_many_groups_are_an_error(service: Service) -> None:
    schema = "type Query { all: [One] some: [One] } type One { id: Int count: Int }"
    group = {"by": {"id": "_id"}}
    mappings = {
        "Query": {
            "all": service.find("orders", group=group),
            "some": service.find("orders", group=group, limit=3),
        }
    }
    await service.define("many", schema, mappings)
    found = await service.query("many", "{ all { id } some { id } }")
    assert (found.code, found.error["path"]) == ("too-many-results", ["all"])
    assert found.json["data"] == {"all": None, "some": [{"id": 0}, {"id": 1}, {"id": 2}]}


async def test_values_that_do_not_fit_are_null_with_an_error(service: Service) -> None:
    schema = "type Query { per: [One] } type One { tags: String count: Int }"
    await service.define(
        "misfit", schema, {"Query": {"per": service.find("orders", group={"by": "tags"})}}
    )
    found = await service.query("misfit", "{ per { tags count } }")
    assert {error["extensions"]["code"] for error in found.errors} == {"value-does-not-fit"}
    assert sum(one["count"] for one in found.json["data"]["per"]) == len(ORDERS)


# --- permissions ----------------------------------------------------------------------------------


async def test_row_filters_hold_for_counts_and_groups(mongo_client: Mongo, mongo_uri: str) -> None:
    """Decision 40."""
    async with guarded(mongo_client, mongo_uri) as service:
        service.insert("orders", *ORDERS)
        service.insert("customers", *CUSTOMERS)
        await service.define("shop", SCHEMA, build_mappings(service))
        rows = {"readFilters": {f"{service.db}.orders": {"status": "open"}}}
        await allow(service, "path-prefix('/graphql')", "user", mongo=rows)
        query = "{ manyOrders totals { count } perStatus { status } customers { _id ordersCount } }"
        found = (await service.query("shop", query, headers=ADA)).data
    seen = [one for one in ORDERS if one.get("status") == "open"]
    assert found["manyOrders"] == {"$numberLong": str(len(seen))}
    assert found["totals"] == {"count": len(seen)}
    assert found["perStatus"] == [{"status": "open"}]
    assert [one["ordersCount"] for one in found["customers"]] == [
        sum(belongs(order, one["_id"]) for order in seen) for one in CUSTOMERS
    ]


async def test_passwords_are_not_grouped(service: Service) -> None:
    """Decision 34."""
    mapping = {"db": "docgraph", "collection": "users", "group": {"by": "password", "max": "_id"}}
    schema = "type Query { per: [One] } type One { password: String count: Int max_id: ID }"
    with pytest.raises(DefinitionError) as caught:
        await service.define("wrong", schema, {"Query": {"per": mapping}})
    assert "mappings.Query.per.group: password is never shown" in caught.value.message


# --- plans and costs ------------------------------------------------------------------------------


@pytest.fixture
async def verbose(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    settings = {"graphql": {"verbose": True}, **identity("admin")}
    async with running(mongo_client, mongo_uri, settings) as service:
        service.insert("orders", *ORDERS)
        service.insert("customers", *CUSTOMERS)
        await service.define("shop", SCHEMA, build_mappings(service))
        yield service


async def test_the_plan_shows_how_counts_are_fetched(verbose: Service) -> None:
    found = await verbose.query("shop", "{ customers { ordersCount perStatus { count } } }")
    plan = found.json["extensions"]["plan"]
    name = f"aggregate {verbose.db}.orders"
    assert f"ordersCount: {name}, one command for all parents, joined in memory" in plan
    assert "join customerId = parent's _id" in plan
    assert f"perStatus: {name}, equal queries once, different ones together" in plan


async def test_limits_of_groups_count_in_the_estimate(verbose: Service) -> None:
    limits = {"estimated-documents": 100, "fetched-documents": 100}
    schema = "type Query { per(limit: Int): [One] } type One { status: String count: Int }"
    mapping = verbose.find("orders", group={"by": "status"}, limit={"$arg": "limit"})
    await verbose.define("small", schema, {"Query": {"per": mapping}}, limits=limits)
    found = await verbose.query("small", "{ per(limit: 100) { status } }")
    assert len(found.data["per"]) == 4
    found = await verbose.query("small", "{ per(limit: 101) { status } }")
    assert found.code == "too-many-estimated-documents"


# --- checks ---------------------------------------------------------------------------------------

ONE = "type Query { x(a: Int): %s } type One { status: String count: Int sumTotal: %s }"
WRONG: list[tuple[str, Document, str]] = [
    ("String", {"count": True}, "count: a count is a number, not String"),
    ("[Int]", {"count": True}, "count: a count is a number, not [Int]"),
    ("Int", {"count": 1}, "count: must be true, not a number"),
    ("Int", {"count": True, "stages": []}, "count: cannot be next to stages"),
    ("Int", {"group": {"by": "status"}}, "group: gives objects with values, not Int"),
    ("[One]", {"group": []}, "group: must be an object, not an array"),
    ("[One]", {"group": {"sum": "total"}}, "group.by: is missing: [One] is a list of groups"),
    ("One", {"group": {"by": "status", "sum": "total"}}, "group.by: gives a list of groups"),
    ("[One]", {"group": {"by": []}}, "group.by: must be a path, a list of paths"),
    ("[One]", {"group": {"by": [1]}}, "group.by[0]: must be the path of a property"),
    ("[One]", {"group": {"by": ["a.0"]}}, "group.by[0]: 'a.0' is not the path"),
    ("[One]", {"group": {"by": ["$status"]}}, "group.by[0]: '$status' is not the path"),
    ("[One]", {"group": {"by": ["x-y"]}}, "group.by[0]: 'x-y' cannot be the name of a field"),
    ("[One]", {"group": {"by": ["a._id"]}}, "group.by[0]: '_id' cannot be the name of a field"),
    ("[One]", {"group": {"by": ["a.b", "c.b"]}}, "group.by[1]: b would be both by a.b and by c.b"),
    ("[One]", {"group": {"of": "status"}}, "group.of: is not known"),
    (
        "[One]",
        {"group": {"by": "where.country", "sum": "total", "avg": ["price"]}},
        "group: the type One needs the fields country (by where.country), "
        "avgPrice: Float (avg of price)",
    ),
    (
        "[One]",
        {"group": {"by": "status", "sum": "total"}, "sort": {"total": 1}},
        "sort.total: no value of the groups has this name",
    ),
    (
        "[One]",
        {"group": {"by": "status", "sum": "total"}, "sort": {"$arg": "a"}},
        "sort.$arg: cannot choose the values to sort by",
    ),
    ("[One]", {"group": {"by": [".".join("abcde" * 21)]}}, "group.by[0]: 'a.b.c"),
    (
        "[One]",
        {"group": {"by": "status", "sum": "total"}, "limit": 201},
        "limit: cannot be greater",
    ),
]


@pytest.mark.parametrize(("type_", "mapping", "message"), WRONG)
async def test_wrong_mappings_are_rejected(
    service: Service, type_: str, mapping: Document, message: str
) -> None:
    mappings = {"Query": {"x": service.find("orders", **mapping)}}
    with pytest.raises(DefinitionError) as caught:
        await service.define("wrong", ONE % (type_, "Float"), mappings)
    assert f"mappings.Query.x.{message}" in caught.value.message


async def test_the_types_of_totals_are_checked(service: Service) -> None:
    mapping = service.find("orders", group={"by": "status", "sum": "total"})
    with pytest.raises(DefinitionError) as caught:
        await service.define("wrong", ONE % ("[One]", "String"), {"Query": {"x": mapping}})
    text = "mappings.Query.x.group: One.sumTotal is sum of total, which cannot be String"
    assert text in caught.value.message
