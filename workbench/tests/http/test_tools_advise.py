"""`POST /_tools/advise`: what an engineer would say about apps and data; nothing is changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from tests.http.access_harness import ADMIN, NOBODY, allow, caller, guarded, remove_rules
from tests.http.harness import Mongo, Reply, Service, failing
from tests.http.hosts import module_application

from docgraph.graphql.sections import Graphql
from docgraph_workbench.advise.advise import AdviceScope
from docgraph_workbench.advise.advise import advise as run_advise

pytestmark = pytest.mark.anyio

AUTHOR = caller("aug", "author")
START = datetime(2025, 1, 1)
MANY = 1_200  # documents: more than few
CUSTOMERS = [ObjectId() for _ in range(60)]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    explain = {"graphql": {"explain": ["admin", "author"]}}
    async with guarded(mongo_client, mongo_uri, explain) as one:
        fill(one)
        yield one


def fill(service: Service) -> None:
    """Orders that are many, customers that are few, and what else a database has."""
    service.insert("customers", *({"_id": id, "name": "N", "code": 1} for id in CUSTOMERS))
    service.insert(
        "orders",
        *(
            {
                "_id": n,
                "customerId": CUSTOMERS[n % 60],
                "placed": START + timedelta(hours=n),
                "sku": f"S{n % 300}",
                "open": n % 2 == 0,
                "total": "12.50" if n % 100 == 7 else n * 0.5,
                "note": None if n % 3 else "x",
                "customerCode": str(n % 60),
                "state": "lost" if n == 5 else "new",
                "items": [{"qty": n}],
                "secret word": "$2b$12$abcdefghijkl",
            }
            for n in range(MANY)
        ),
    )
    orders = service.mongo[service.db]["orders"]
    orders.create_index("placed")
    orders.create_index([("placed", 1), ("total", 1)])
    orders.create_index("old")
    orders.create_index("until", expireAfterSeconds=100_000_000)
    orders.create_index([("customerId", 1), ("_id", 1)], unique=True)
    database = service.mongo[service.db]
    database.create_collection("empty")
    database.create_collection("openOrders", viewOn="orders", pipeline=[{"$match": {"open": True}}])
    service.insert("odd-name. [é]", *({"_id": n, "a b": n} for n in range(MANY)))


@pytest.fixture
async def service(server: Service) -> Service:
    """Nobody but the root role may do anything, and no app is stored."""
    await remove_rules(server)
    for one in server.mongo[server.db]["gql-apps"].find({}, {"_id": 1}):
        await server.remove(one["_id"])
    return server


ORDER = "type Order { id: Int! sku: String }"


def define(
    service: Service, schema: str, mappings: dict[str, Any], app: str = "shop"
) -> dict[str, Any]:
    """A definition whose types have ids."""
    types = {name: {"id": "_id"} for name in ("Order", "Customer") if f"type {name} " in schema}
    whole = {name: types.get(name, {}) | mappings.get(name, {}) for name in {*types, *mappings}}
    return {"_id": app, "schema": schema, "mappings": whole}


async def ask(service: Service, who: dict[str, str] = ADMIN, **members: Any) -> Reply:
    return await service.request("POST", "/_tools/advise", json=members, headers=who)


async def advise(service: Service, definition: dict[str, Any]) -> Any:
    reply = await ask(service, definition=definition)
    assert reply.status == 200, reply.text
    return reply.json


def pick(report: Any, kind: str) -> list[Any]:
    return [one for one in report["findings"] if one["kind"] == kind]


async def look_at_orders(service: Service, arguments: str = "", **query: Any) -> Any:
    """The report on one list of orders."""
    schema = f"type Query {{ orders{arguments}: [Order] }} {ORDER}"
    mapping = {**service.find("orders"), "limit": 5, **query}
    return await advise(service, define(service, schema, {"Query": {"orders": mapping}}))


async def test_what_scans_is_told_with_its_place_and_the_exact_index(service: Service) -> None:
    report = await look_at_orders(
        service,
        "(sku: String!, from: Float!)",
        find={"total": {"$gte": {"$arg": "from"}}, "sku": {"$arg": "sku"}},
        sort={"placed": -1},
    )

    (found,) = pick(report, "no-index")
    command = (
        f'db.getSiblingDB("{service.db}").getCollection("orders")'
        '.createIndex({"sku": 1, "placed": -1, "_id": -1, "total": 1})'
    )
    assert (found["severity"], found["app"]) == ("warning", "shop")
    assert found["where"] == "mappings.Query.orders.find"
    assert f"{MANY} documents of {service.db}.orders" in found["what"]
    assert found["createIndex"] == [command]
    (index,) = report["indexes"]
    assert index["createIndex"] == command
    assert index["serves"] == ["shop: mappings.Query.orders.find"]
    assert index["path"] == "/orders"


async def test_counts_and_groups_get_their_indexes(service: Service) -> None:
    schema = """
    type Query { customers: [Customer] bySku(sku: String!): Int per: [Sku] }
    type Customer { id: ID! orders: Int }
    type Sku { sku: String count: Int sumTotl: Float }
    """
    find = {"customerCode": {"$fk": "code"}}
    mappings = {
        "Query": {
            "customers": service.find("customers", limit=5),
            "bySku": service.find("orders", {"sku": {"$arg": "sku"}}, count=True),
            "per": service.find("orders", {"state": "lost"}, group={"by": "sku", "sum": "totl"}),
        },
        "Customer": {"orders": service.find("orders", find, count=True)},
    }
    report = await advise(service, define(service, schema, mappings))

    found = {one["where"]: one["createIndex"] for one in pick(report, "no-index")}
    assert found.keys() == {
        "mappings.Query.bySku.find",
        "mappings.Query.per.find",
        "mappings.Customer.orders.find",
    }
    assert found["mappings.Query.bySku.find"][0].endswith('.createIndex({"sku": 1})')
    (unseen,) = pick(report, "never-seen")
    assert unseen["where"] == "mappings.Query.per.group"
    assert "'totl'" in unseen["what"]


async def test_conditions_and_orders_of_callers_want_indexes(service: Service) -> None:
    report = await look_at_orders(
        service,
        filter={"fields": {"sku": ["eq", "contains"], "id": ["eq"]}},
        orderBy={"fields": ["sku", "id"]},
    )
    (found,) = pick(report, "no-index")
    assert "where.sku" in str(report)
    assert "orderBy.sku" in str(report)
    assert "where.id" not in str(report)
    assert any('"sku": 1' in command for command in found["createIndex"])


async def test_of_alternatives_only_those_without_an_index_want_one(service: Service) -> None:
    either = [{"placed": {"$date": 0}}, {"sku": {"$arg": "sku"}}]
    report = await look_at_orders(service, "(sku: String!)", find={"$or": either})

    (found,) = pick(report, "no-index")
    (index,) = report["indexes"]
    assert index["createIndex"].endswith('.createIndex({"sku": 1})')
    assert found["createIndex"] == [index["createIndex"]]


@pytest.mark.parametrize(
    ("collection", "find", "sort"),
    [
        ("orders", {"_id": {"$arg": "x"}}, {}),
        ("orders", {"placed": {"$gte": {"$date": 0}}}, {"placed": 1}),
        ("orders", {"open": True}, {}),  # every other one: five are soon found
        ("customers", {"code": {"$arg": "x"}}, {"name": 1}),  # small
        ("orders", {}, {}),
    ],
)
async def test_what_an_index_serves_or_none_is_needed_for_is_not_told(
    service: Service, collection: str, find: dict[str, Any], sort: dict[str, int]
) -> None:
    mapping = {**service.find(collection, find), "sort": sort, "limit": 5}
    schema = f"type Query {{ orders(x: Int!): [Order] }} {ORDER}"

    report = await advise(service, define(service, schema, {"Query": {"orders": mapping}}))

    assert report["indexes"] == []
    assert not {one["kind"] for one in report["findings"]} & {"no-index", "sorts-in-memory"}


async def test_a_sort_of_everything_in_memory_is_told(service: Service) -> None:
    report = await look_at_orders(service, sort={"sku": 1})

    (found,) = pick(report, "sorts-in-memory")
    assert found["where"] == "mappings.Query.orders.sort"
    assert [one["keys"] for one in report["indexes"]] == [{"sku": 1, "_id": 1}]


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ({"find": {"sku": "S1"}}, {"sku": 1}),
        ({"find": {"state": "lost", "sku": "S1"}}, {"sku": 1, "state": 1}),
        ({"find": {"sku": "S1"}, "sort": {"total": -1}}, {"sku": 1, "total": -1, "_id": -1}),
        ({"find": {"total": {"$gt": 700}, "state": {"$ne": "x"}}}, {"total": 1}),
        ({"find": {"items": {"$elemMatch": {"qty": 5}}}}, {"items.qty": 1}),
        ({"find": {"$or": [{"sku": "S1"}, {"state": "lost"}]}}, {"sku": 1}),
        ({"stages": [{"$match": {"sku": "S1"}}, {"$sort": {"total": 1}}]}, {"sku": 1, "total": 1}),
        ({"find": {"note": {"$regex": "y"}}}, None),
    ],
)
async def test_the_plan_of_a_query_names_the_same_index(
    service: Service, query: dict[str, Any], keys: dict[str, int] | None
) -> None:
    schema = f"type Query {{ orders: [Order] }} {ORDER}"
    mapping = {**service.find("orders"), **({} if "stages" in query else {"limit": 5}), **query}
    if "stages" in query:
        mapping.pop("find", None)
    definition = define(service, schema, {"Query": {"orders": mapping}})
    findings = (await advise(service, definition))["findings"]
    request = {"definition": definition, "query": "{ orders { id } }", "run": False}
    reply = await service.request("POST", "/_tools/plan", json=request, headers=ADMIN)

    (fetch,) = reply.json["fetches"]
    assert fetch.get("missingIndex") == keys
    advised = [one for found in findings for one in found.get("createIndex", [])]
    assert fetch.get("createIndex", "") == "; ".join(advised)
    assert "advice" in fetch


async def test_few_indexes_serve_the_fields_of_many_apps(service: Service) -> None:
    schema = f"type Query {{ orders(sku: String!): [Order] }} {ORDER}"
    find = {"sku": {"$arg": "sku"}}
    for app, sort in (("one", {"total": -1}), ("two", {}), ("three", {"total": 1})):
        mapping = {**service.find("orders", find), "limit": 5, "sort": sort}
        await service.store(define(service, schema, {"Query": {"orders": mapping}}, app))

    report = (await ask(service)).json

    assert report["apps"] == ["one", "three", "two"]
    (index,) = report["indexes"]
    # read backwards it is the order of the other one
    assert index["keys"] in ({"sku": 1, "total": -1, "_id": -1}, {"sku": 1, "total": 1, "_id": 1})
    assert {one.partition(":")[0] for one in index["serves"]} == {"one", "two", "three"}


async def test_relations_are_looked_at_in_both_directions(service: Service) -> None:
    schema = (
        "type Query { customer(id: ObjectId!): Customer } "
        "type Customer { id: ObjectId orders: [Order] bySku: [Order] } "
        "type Order { id: Int customer: Customer }"
    )
    mappings = {
        "Query": {"customer": service.find("customers", {"_id": {"$arg": "id"}})},
        "Customer": {
            "orders": {**service.find("orders", {"customerId": {"$fk": "_id"}}), "limit": 5},
            "bySku": {**service.find("orders", {"sku": {"$fk": "name"}}), "limit": 5},
        },
        "Order": {"customer": service.find("customers", {"_id": {"$fk": "customerId"}})},
    }

    report = await advise(service, define(service, schema, mappings))

    assert [one["where"] for one in pick(report, "no-index")] == ["mappings.Customer.bySku.find"]
    assert [one["keys"] for one in report["indexes"]] == [{"sku": 1}]


async def test_the_first_match_and_lookups_of_an_aggregation_are_looked_at(
    service: Service,
) -> None:
    join = {"from": "orders", "localField": "sku", "foreignField": "sku", "as": "same"}
    stages = service.stages(
        "orders",
        {"$match": {"note": {"$arg": "note"}, "sku": "S1"}},
        {"$sort": {"total": 1}},
        {"$lookup": join},
        {"$limit": 5},
    )
    schema = f"type Query {{ orders(note: String!): [Order] }} {ORDER}"

    report = await advise(service, define(service, schema, {"Query": {"orders": stages}}))

    assert {one["where"] for one in pick(report, "no-index")} == {
        "mappings.Query.orders.stages",
        "mappings.Query.orders.stages[2].$lookup",
    }
    assert {"sku": 1} in [one["keys"] for one in report["indexes"]]


async def test_an_optional_argument_of_a_collection_that_is_not_large_is_a_note(
    service: Service,
) -> None:
    report = await look_at_orders(
        service, "(sku: String)", find={"$and": [{"$ifarg": ["sku", {"sku": {"$arg": "sku"}}]}]}
    )

    (found,) = pick(report, "no-index")
    assert (found["severity"], found["arguments"]) == ("note", ["sku"])
    assert "when sku is given" in found["what"]
    assert '.createIndex({"sku": 1})' in found["hint"]
    assert report["indexes"] == []


async def test_an_index_that_leads_to_many_which_do_not_match_is_told(service: Service) -> None:
    since = {"placed": {"$gte": {"$date": 0}}, "sku": {"$arg": "sku"}}

    report = await look_at_orders(service, "(sku: String!)", find=since)

    (found,) = pick(report, "wasteful-index")
    assert f"to {MANY} for 4 that do" in found["what"]
    assert [one["keys"] for one in report["indexes"]] == [{"sku": 1, "placed": 1}]


async def test_an_index_that_leads_to_few_is_enough_for_narrower_queries(service: Service) -> None:
    schema = (
        f"type Query {{ a(sku: String!): [Order] b(sku: String!, open: Boolean): [Order] }} {ORDER}"
    )
    find = {"sku": {"$arg": "sku"}}
    optional = {**find, "$and": [{"$ifarg": ["open", {"open": {"$arg": "open"}}]}]}
    mappings = {
        "a": {**service.find("orders", {**find, "state": "new"}), "limit": 5},
        "b": {**service.find("orders", optional), "limit": 5},
    }

    report = await advise(service, define(service, schema, {"Query": mappings}))

    (index,) = report["indexes"]
    assert index["keys"] == {"sku": 1}
    assert index["serves"] == ["shop: mappings.Query.a.find", "shop: mappings.Query.b.find"]
    assert len(pick(report, "no-index")) == 2


async def test_a_query_that_needs_an_index_of_its_own_kind_is_told_in_small_collections_too(
    service: Service,
) -> None:
    near = {"place": {"$near": {"$geometry": {"type": "Point", "coordinates": [1, 2]}}}}
    schema = f"type Query {{ text(q: String!): [Order] near: [Order] }} {ORDER}"
    mappings = {
        "text": {**service.find("customers", {"$text": {"$search": {"$arg": "q"}}}), "limit": 5},
        "near": {**service.find("empty", near), "limit": 5},
    }

    report = await advise(service, define(service, schema, {"Query": mappings}))

    hints = {one["where"]: one["hint"] for one in pick(report, "query-refused")}
    assert 'createIndex({"place": "2dsphere"})' in hints["mappings.Query.near.find"]
    assert ': "text"})' in hints["mappings.Query.text.find"]


async def test_idle_indexes_are_told_and_constraints_never(service: Service) -> None:
    schema = f"type Query {{ orders: [Order] }} {ORDER}"
    mapping = {**service.find("orders"), "sort": {"placed": 1}, "limit": 5}
    await service.store(define(service, schema, {"Query": {"orders": mapping}}))

    report = (await ask(service)).json

    assert [(one["severity"], one["index"]) for one in pick(report, "unused-index")] == [
        ("note", "old_1")
    ]
    assert [one["index"] for one in pick(report, "redundant-index")] == ["placed_1"]
    assert isinstance(pick(report, "unused-index")[0]["accesses"], int)
    named = (await ask(service, app="shop")).json
    assert pick(named, "unused-index") == []  # others may use it


@pytest.mark.parametrize(
    ("path", "mongo", "indexes"),
    [
        ("/orders", {"readFilter": {"customerCode": "@user.code"}}, [{"customerCode": 1}]),
        ("/orders", {"writeFilter": {"sku": {"$in": ["S1", "S2"]}}}, [{"sku": 1}]),
        ("/orders", {"readFilters": {"DB.orders": {"sku": "@user.sku"}}}, [{"sku": 1}]),
        (
            "/orders",
            {"readFilter": {"$and": [{"open": True}, {"state": "new"}]}},
            [{"open": 1, "state": 1}],
        ),
        (
            "/orders/_size",
            {"readFilter": {"$or": [{"sku": "@user.sku"}, {"customerCode": "@user.code"}]}},
            [{"customerCode": 1}, {"sku": 1}],
        ),
        # One branch has an index.
        ("/", {"readFilter": {"$or": [{"sku": "S1"}, {"customerId": "@user._id"}]}}, [{"sku": 1}]),
        ("/orders", {"readFilter": {"customerId": "@user._id"}}, []),
        ("/orders", {"readFilter": {"customerId": "@user._id", "sku": "S1"}}, []),
        ("/orders", {"readFilter": {"total": {"$gt": 5}}}, []),  # a range fixes nothing
        ("/orders", {"readFilter": {"$or": [{"sku": "S1"}, {"total": {"$gt": 5}}]}}, []),
        ("/customers", {"readFilter": {"sku": "S1"}}, []),  # another collection
        ("/orders", {"readFilter": {"nowhere": 1}}, []),  # no document has it
    ],
)
async def test_row_filters_want_indexes_that_begin_with_what_they_fix(
    service: Service, path: str, mongo: dict[str, Any], indexes: list[dict[str, int]]
) -> None:
    if "readFilters" in mongo:
        mongo = {"readFilters": {f"{service.db}.orders": mongo["readFilters"]["DB.orders"]}}
    await allow(service, f"path-prefix('{path}')", "clerk", mongo=mongo)

    report = await look_at_orders(service)

    assert sorted((one["keys"] for one in report["indexes"]), key=str) == indexes
    found = pick(report, "no-row-filter-index")
    assert len(found) == bool(indexes)
    for one in found:
        assert (one["severity"], one["app"]) == ("warning", None)
        assert one["where"].startswith("the rule ")
        assert f": mongo.{next(iter(mongo))}" in one["where"]
        assert sorted(one["createIndex"]) == sorted(
            index["createIndex"] for index in report["indexes"]
        )


async def test_row_filters_and_apps_share_an_index_which_is_not_idle_then(
    service: Service,
) -> None:
    await allow(service, "path-prefix('/orders')", "clerk", mongo={"readFilter": {"old": 1}})
    await allow(service, "path-prefix('/orders')", "clerk", mongo={"writeFilter": {"sku": "S1"}})
    schema = f"type Query {{ orders(sku: String!): [Order] }} {ORDER}"
    mapping = {**service.find("orders"), "find": {"sku": {"$arg": "sku"}}, "sort": {"placed": -1}}
    mapping["limit"] = 5
    await service.store(define(service, schema, {"Query": {"orders": mapping}}))

    report = (await ask(service)).json

    (index,) = report["indexes"]
    assert index["keys"] == {"sku": 1, "placed": -1, "_id": -1}
    assert len(index["serves"]) == 2
    assert pick(report, "unused-index") == []


async def test_only_those_who_may_read_all_rules_are_told_of_row_filters(service: Service) -> None:
    schema = f"type Query {{ orders: [Order] }} {ORDER}"
    mappings = {"Query": {"orders": {**service.find("orders"), "limit": 5}}}
    await service.store(define(service, schema, mappings))
    for path in ("/_tools", "/graphql", "/gql-apps", "/orders"):
        await allow(service, f"path-prefix('{path}')", "author")
    await allow(service, "path-prefix('/orders')", "clerk", mongo={"readFilter": {"sku": "S1"}})

    reply = await ask(service, AUTHOR)

    assert (reply.status, reply.json["apps"]) == (200, ["shop"])
    assert "the rule" not in reply.text
    assert pick((await ask(service)).json, "no-row-filter-index")


async def test_data_that_are_not_as_declared_are_told_with_how_often_and_an_example(
    service: Service,
) -> None:
    schema = (
        "type Query { orders: [Order] } enum State { new done } type Item { qty: String } "
        "type Order { id: Int! total: Float note: String! sk: String state: State sku: String "
        "never: Int items: [Item] }"
    )
    mapping = {**service.find("orders"), "limit": 5}
    reply = await ask(
        service,
        definition=define(service, schema, {"Query": {"orders": mapping}}),
        sample=MANY,
    )

    by_place = {one["where"]: one for one in pick(reply.json, "wrong-type")}
    assert set(by_place) == {"schema: Order.total", "schema: Item.qty", "schema: Order.state"}
    assert by_place["schema: Order.total"]["count"] == MANY // 100
    assert by_place["schema: Order.total"]["example"] == 7
    assert "string" in by_place["schema: Order.total"]["what"]
    state = by_place["schema: Order.state"]
    assert (state["count"], state["example"]) == (1, 5)
    (missing,) = pick(reply.json, "missing-value")
    assert (missing["where"], missing["count"]) == ("schema: Order.note", MANY * 2 // 3)
    assert missing["example"] == 1
    unseen = {one["where"]: one for one in pick(reply.json, "never-seen")}
    assert set(unseen) == {"schema: Order.sk", "schema: Order.never"}
    assert all(one["severity"] == "warning" for one in unseen.values())


async def test_missing_collections_and_properties_are_told_with_what_may_be_meant(
    service: Service,
) -> None:
    schema = (
        "type Query { gone: [Order] orders(x: String): [Order] } "
        "type Order { id: Int customer: Customer coded: Customer } type Customer { id: ObjectId }"
    )
    mappings = {
        "Query": {
            "gone": {**service.find("gone"), "limit": 5},
            "orders": {**service.find("orders", {"skuu": {"$arg": "x"}}), "limit": 5},
        },
        "Order": {
            "customer": service.find("customers", {"_id": {"$fk": "customer_id"}}),
            "coded": service.find("customers", {"code": {"$fk": "customerCode"}}),
        },
    }

    report = await advise(service, define(service, schema, mappings))

    (gone,) = pick(report, "missing-collection")
    assert gone["where"] == "mappings.Query.gone.collection"
    hints = {one["where"]: one["hint"] for one in pick(report, "never-seen")}
    assert hints["mappings.Query.orders.find"] == "the data have 'sku'"
    assert hints["mappings.Order.customer.find"] == "the data have 'customerId'"
    (kinds,) = pick(report, "relation-types")
    assert kinds["where"] == "mappings.Order.coded.find"
    assert "is string" in kinds["what"]
    assert "is number" in kinds["what"]
    assert report["indexes"] == []  # none for what is a mistake


async def test_lists_without_a_limit_are_told(service: Service) -> None:
    fields = "orders: [Order] all: [Order] few: [Order] one: Order same: [Order] parts: [Order]"
    schema = f"type Query {{ {fields} }} {ORDER}"
    found = {"$match": {"_id": 5}}
    mappings = {
        "same": service.stages("orders", found),
        "parts": service.stages("orders", found, {"$unwind": "$items"}),
        "orders": service.find("orders"),
        "all": service.stages("orders", {"$match": {"open": True}}),
        "few": {**service.find("orders"), "limit": 5},
        "one": service.find("orders"),
    }

    report = await advise(service, define(service, schema, {"Query": mappings}))

    told = {one["where"]: one["severity"] for one in pick(report, "unlimited-list")}
    assert told == {f"mappings.Query.{one}": "warning" for one in ("orders", "all", "parts")}


async def test_groups_that_are_too_many_are_told(service: Service) -> None:
    """An aggregation that ends in a `$group` of nearly unique values always fails."""
    schema = "type Query { a: [T] b: [T] c: [T] d: [T] e: [T] f: [T] g: [T] } type T { n: Int }"
    stages: dict[str, list[dict[str, Any]]] = {
        "a": [{"$group": {"_id": "$placed", "n": {"$sum": 1}}}],
        "b": [{"$group": {"_id": "$sku", "n": {"$sum": 1}}}],
        "c": [{"$group": {"_id": "$placed"}}, {"$limit": 5}],
        "d": [{"$group": {"_id": {"day": "$placed", "sku": "$sku"}}}],
        "e": [{"$group": {"_id": None, "n": {"$sum": 1}}}],
        "f": [{"$sortByCount": "$placed"}],
    }
    mappings = {name: service.stages("orders", *own) for name, own in stages.items()}
    group = {"db": service.db, "collection": "orders", "group": {"by": {"n": "placed"}}}
    mappings["g"] = group

    report = await advise(service, define(service, schema, {"Query": mappings}))

    told = pick(report, "unlimited-list")
    assert {one["where"][-1] for one in told} == {*"adfg"}
    assert {one["severity"] for one in told} == {"warning"}
    assert all("it has a result for each placed" in one["what"] for one in told)
    assert all("too-many-results" in one["what"] for one in told)


async def test_secrets_that_everybody_reads_are_told_and_hidden_ones_are_not(
    service: Service,
) -> None:
    schema = (
        "type Query { orders: [Order] me: Own } type Own { password: String } "
        "type Order { password: String word: String no: String hasPassword: Boolean "
        'apiToken: String @visible(roles: ["editor"]) }'
    )
    mappings = {
        "Query": {
            "orders": {**service.find("orders"), "limit": 5},
            "me": service.find("orders", {"_id": {"$arg": "@user._id"}}),
        },
        "Order": {"word": "secret word", "no": "carta.numero"},
    }
    definition = define(service, schema, mappings)
    del definition["mappings"]["Order"]["id"]
    await service.store(definition)

    closed = pick((await ask(service, app="shop")).json, "secret-readable")
    await allow(service, "path-prefix('/graphql/shop')", "$unauthenticated")
    opened = pick((await ask(service, app="shop")).json, "secret-readable")

    places = ["schema: Order.no", "schema: Order.password", "schema: Order.word"]
    assert [(one["where"], one["severity"]) for one in closed] == [
        (place, "warning") for place in places
    ]
    assert [(one["where"], one["severity"]) for one in opened] == [
        (place, "error") for place in places
    ]


async def test_empty_collections_views_and_odd_names_have_a_clear_result(service: Service) -> None:
    schema = f"type Query {{ a: [Order] b(x: String): [Order] c(x: Int!): [Order] }} {ORDER}"
    mappings = {
        "a": {**service.find("empty", {"x": 1}), "limit": 5},
        "b": {**service.find("openOrders", {"sku": {"$arg": "x"}}), "limit": 5},
        "c": {**service.find("odd-name. [é]", {"a b": {"$arg": "x"}}), "limit": 5},
    }

    report = await advise(service, define(service, schema, {"Query": mappings}))

    assert [one["collection"] for one in pick(report, "empty-collection")] == [
        f"{service.db}.empty"
    ]
    (odd,) = [one for one in report["indexes"] if "odd" in one["createIndex"]]
    assert odd["createIndex"] == (
        f'db.getSiblingDB("{service.db}").getCollection("odd-name. [é]").createIndex({{"a b": 1}})'
    )


async def test_queries_on_views_are_served_by_indexes_of_their_source(service: Service) -> None:
    database = service.mongo[service.db]
    pipeline = [{"$sort": {"placed": 1}}]
    database.create_collection("sortedOrders", viewOn="openOrders", pipeline=pipeline)
    totals = [{"$group": {"_id": "$sku", "n": {"$sum": 1}}}]
    database.create_collection("totals", viewOn="orders", pipeline=totals)
    schema = f"type Query {{ a(x: String!): [Order] b(x: Int!): [Order] c: [Order] }} {ORDER}"
    mappings = {
        "a": {**service.find("sortedOrders", {"sku": {"$arg": "x"}}), "limit": 5},
        "b": {**service.find("totals", {"n": {"$arg": "x"}}), "limit": 5},
        "c": {
            **service.find("openOrders", {"customerId": {"$oid": str(CUSTOMERS[0])}}),
            "limit": 5,
        },
    }

    report = await advise(service, define(service, schema, {"Query": mappings}))

    (found,) = pick(report, "no-index")
    assert found["where"] == "mappings.Query.a.find"
    assert f"{MANY} documents of {service.db}.orders" in found["what"]
    (index,) = report["indexes"]
    assert '.getCollection("orders").createIndex({' in index["createIndex"]
    assert '"sku": 1' in index["createIndex"]
    (view,) = pick(report, "not-looked-at")
    assert f"{service.db}.totals is a view" in view["what"]
    assert "an index of orders" in view["hint"]


async def test_the_source_of_a_view_is_hidden_from_callers_who_may_not_read_it(
    service: Service,
) -> None:
    await allow(service, "path-prefix('/_tools')", "author")
    await allow(service, "path-prefix('/gql-apps')", "author")
    await allow(service, "path-prefix('/graphql')", "author")
    await allow(service, "path-prefix('/openOrders')", "author")
    schema = f"type Query {{ a(x: String!): [Order] }} {ORDER}"
    mapping = {**service.find("openOrders", {"sku": {"$arg": "x"}}), "limit": 5}
    definition = define(service, schema, {"Query": {"a": mapping}})

    reply = await ask(service, AUTHOR, definition=definition)

    assert reply.status == 200, reply.text
    assert reply.json["indexes"] == []
    assert [one["kind"] for one in reply.json["findings"]] == ["not-looked-at"]
    assert f"{MANY}" not in reply.text


@pytest.mark.parametrize(
    ("filter", "index"),
    [
        ({"meta.device": {"$arg": "x"}}, {"meta.device": 1, "at": 1}),
        ({"meta.unit": {"$arg": "x"}}, None),
        ({"at": {"$gte": {"$date": 0}}, "meta.device": {"$arg": "x"}}, None),
        ({"value": {"$gt": {"$arg": "x"}}}, None),
    ],
)
async def test_time_series_are_served_by_indexes_on_time_and_meta_fields(
    service: Service, filter: dict[str, Any], index: dict[str, int] | None
) -> None:
    database = service.mongo[service.db]
    if "readings" not in database.list_collection_names():
        series = {"timeField": "at", "metaField": "meta"}
        readings = database.create_collection("readings", timeseries=series)
        readings.create_index([("meta.unit", 1), ("at", 1)])
        service.insert(
            "readings",
            *(
                {"at": START + timedelta(hours=n), "meta": {"device": n, "unit": n}, "value": n}
                for n in range(MANY)
            ),
        )
    schema = f"type Query {{ a(x: Int!): [Order] }} {ORDER}"
    mapping = {**service.find("readings", filter), "limit": 5}

    report = await advise(service, define(service, schema, {"Query": {"a": mapping}}))

    commands = [one["createIndex"] for one in report["indexes"]]
    keys = None if index is None else json.dumps(index)
    assert [one.split("createIndex(")[1] for one in commands] == ([f"{keys})"] if keys else [])
    notes = [one["what"] for one in pick(report, "no-index-possible")]
    if "value" in filter:
        (note,) = notes
        assert f"all buckets of {MANY} documents of {service.db}.readings" in note
        assert "its time field at and by its meta field meta" in note
    else:
        assert notes == []


async def test_slow_queries_on_one_collection_do_not_use_up_the_time_of_the_others(
    service: Service,
) -> None:
    fields = [f"f{n}" for n in range(8)]
    service.insert("slow", *({"_id": n, **dict.fromkeys(fields, n)} for n in range(MANY)))
    service.insert("swift", *({"_id": n, "sku": f"S{n}"} for n in range(MANY)))
    schema = " ".join(f"{name}(x: Int!): [Order]" for name in fields)
    mappings = {
        **{name: {**service.find("slow", {name: {"$arg": "x"}}), "limit": 5} for name in fields},
        "swift": {**service.find("swift", {"sku": {"$arg": "x"}}), "limit": 5},
    }
    await service.store(
        define(
            service,
            f"type Query {{ {schema} swift(x: String!): [Order] }} {ORDER}",
            {"Query": mappings},
        )
    )
    app = await service.there(service.apps.get("shop"))
    assert app is not None
    block = {"blockConnection": True, "blockTimeMS": 2_500, "namespace": f"{service.db}.slow"}
    with failing(service.mongo, "explain", **block):
        scope = AdviceScope(seconds=5.0)
        work = run_advise(service.app.store, Graphql(), [app], scope)
        report = await service.there(work)

    commands = [one.command for one in report.indexes]
    assert [one for one in commands if '"swift"' in one]
    (left,) = [one.what for one in report.advice if "there was no time" in one.what]
    assert "Query.f7" in left
    assert "Query.swift" not in left


async def test_two_thousand_fields_are_looked_at(service: Service) -> None:
    fields = " ".join(f"f{n}: Int" for n in range(2_000))
    schema = f"type Query {{ orders: [Order] }} type Order {{ id: Int! {fields} }}"
    mapping = {**service.find("orders"), "limit": 5}

    report = await advise(service, define(service, schema, {"Query": {"orders": mapping}}))

    assert len(pick(report, "never-seen")) == 2_000


async def test_an_app_that_cannot_work_does_not_keep_others_from_advice(service: Service) -> None:
    schema = f"type Query {{ orders(sku: String!): [Order] }} {ORDER}"
    mapping = {**service.find("orders", {"sku": {"$arg": "sku"}}), "limit": 5}
    await service.store(define(service, schema, {"Query": {"orders": mapping}}))
    await service.smuggle({"_id": "broken", "schema": "type Query {", "mappings": {}})

    report = (await ask(service)).json

    (broken,) = pick(report, "invalid-definition")
    assert (broken["app"], broken["severity"]) == ("broken", "error")
    assert [one["app"] for one in pick(report, "no-index")] == ["shop"]
    draft = await ask(service, definition={"_id": "x", "schema": "type Query {", "mappings": {}})
    assert (draft.status, draft.json["code"]) == (400, "invalid-definition")


async def test_others_get_advice_on_what_they_may_read_whole_and_nothing_on_the_rest(
    service: Service,
) -> None:
    schema = f"type Query {{ orders: [Order] }} {ORDER}"
    for collection in ("orders", "customers"):
        mappings = {"Query": {"orders": {**service.find(collection), "limit": 5}}}
        await service.store(define(service, schema, mappings, collection))
    await allow(service, "path-prefix('/_tools')", "author")
    await allow(service, "path-prefix('/graphql')", "author")
    await allow(service, "path-prefix('/customers')", "author")
    assert (await ask(service, AUTHOR)).status == 403  # not all definitions
    await allow(service, "path-prefix('/gql-apps')", "author")
    await allow(service, "path-prefix('/orders')", "author", mongo={"readFilter": {"open": True}})

    reply = await ask(service, AUTHOR)

    assert (reply.status, reply.json["apps"]) == (200, ["customers"])
    assert f"{service.db}.orders" not in reply.text
    assert (await ask(service, AUTHOR, app="customers")).status == 200
    assert (await ask(service, AUTHOR, app="orders")).status == 403
    mappings = {"Query": {"orders": {**service.find("orders"), "limit": 5}}}
    draft = define(service, schema, mappings, "mine")
    assert (await ask(service, AUTHOR, definition=draft)).status == 403


async def test_advice_is_for_the_root_role_and_writes_nothing(service: Service) -> None:
    before = list(service.mongo[service.db]["orders"].index_information())
    assert (await ask(service, NOBODY)).status == 401
    await allow(service, "path-prefix('/_tools')", "author")
    assert (await ask(service, AUTHOR)).status == 403

    await look_at_orders(service, find={"sku": "S1"})

    assert list(service.mongo[service.db]["orders"].index_information()) == before
    assert (await ask(service, app="none")).status == 404
    assert (await ask(service, sample=0)).status == 400


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"hidden": True}, "is hidden: unhide it with unhideIndex('sku_1')"),
        ({"sparse": True}, "is sparse, so documents without the property are not in it"),
        (
            {"partialFilterExpression": {"total": {"$gt": 5}}},
            "is partial: add its condition to the filter",
        ),
        ({"collation": {"locale": "de"}}, "compares texts by a collation: create one without it"),
    ],
    ids=["hidden", "sparse", "partial", "collated"],
)
async def test_an_index_that_may_not_be_used_is_reported_with_the_reason_and_the_remedy(
    service: Service, options: dict[str, Any], remedy: str
) -> None:
    orders = service.mongo[service.db]["orders"]
    orders.create_index("sku", **options)
    # A sparse index does not serve a condition that a missing property satisfies.
    find = (
        {"sku": {"$in": [{"$arg": "sku"}, None]}}
        if "sparse" in options
        else {"sku": {"$arg": "sku"}}
    )
    try:
        report = await look_at_orders(service, "(sku: String!)", find=find)
    finally:
        orders.drop_index("sku_1")

    (found,) = pick(report, "no-index")
    assert found["hint"].startswith(f"the index 'sku_1' has these keys, but {remedy}")


async def test_no_index_is_recommended_for_a_property_that_no_document_has(
    service: Service,
) -> None:
    report = await look_at_orders(service, sort={"nowhere": 1})

    assert report["indexes"] == []
    assert pick(report, "never-seen")


async def test_a_list_where_one_object_is_declared_does_not_fit(service: Service) -> None:
    schema = "type Query { orders: [Order] } type Item { qty: Int } type Order { items: Item }"
    mapping = {**service.find("orders"), "limit": 5}

    report = await advise(service, define(service, schema, {"Query": {"orders": mapping}}))

    (found,) = pick(report, "wrong-type")
    assert found["where"] == "schema: Order.items"
    assert "list of object" in found["what"]
