"""`POST /_tools/infer` before and after the first definition: what there is, and what is new."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml
from bson import ObjectId
from tests.http.access_harness import ADMIN, allow, caller, forget_rules, guarded
from tests.http.harness import Mongo, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

AUTHOR = caller("aug", "author")
CUSTOMERS = [ObjectId() for _ in range(6)]
SCHEMA = """type Query {
  # mine
  people: [Person]
}
type Person {
  id: ObjectId!
  called: String
  # password: String
}
"""


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        one.insert("customers", *({"_id": id, "name": "N", "age": 7} for id in CUSTOMERS))
        one.insert(
            "orders",
            *(
                {"_id": n, "customerId": CUSTOMERS[n % 6], "password": f"x{n}", "total": 1.5}
                for n in range(12)
            ),
        )
        one.mongo[one.db].create_collection(
            "large", viewOn="orders", pipeline=[{"$match": {"total": {"$gt": 9}}}]
        )
        one.insert("users", {"_id": "ada", "password": "$2b$hashed", "roles": ["admin"]})
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    forget_rules(server)
    return server


async def post(service: Service, members: Any, who: dict[str, str] = ADMIN) -> Any:
    reply = await service.request(
        "POST", "/_tools/infer", json={"db": service.db, **members}, headers=who
    )
    assert reply.status == 200, reply.text
    return reply.json


async def test_collections_are_listed_with_their_sizes_before_anything_is_read(
    service: Service,
) -> None:
    listed = await post(service, {"run": False})
    assert listed["db"] == service.db
    assert service.db in listed["databases"]
    assert not {"admin", "config", "local"} & {*listed["databases"]}
    assert listed["collections"] == [
        {"name": "customers", "kind": "collection", "documents": 6},
        {"name": "large", "kind": "view", "documents": None},
        {"name": "orders", "kind": "collection", "documents": 12},
    ]


async def test_others_are_shown_only_collections_that_they_may_read_whole(
    service: Service,
) -> None:
    await allow(service, "path('/_tools/infer')", "author")
    await allow(service, "path-prefix('/customers')", "author")
    listed = await post(service, {"run": False}, AUTHOR)
    assert listed["databases"] == [service.db]
    assert listed["collections"] == [{"name": "customers", "kind": "collection", "documents": None}]
    assert listed["notes"] == []


async def test_relations_and_what_was_left_out_are_described_for_programs(
    service: Service,
) -> None:
    found = await post(service, {"collections": ["orders", "customers"], "texts": False})
    (relation,) = found["relations"]
    assert relation.pop("evidence").startswith("orders.customerId refers to customers._id")
    assert relation == {
        "source": "orders",
        "target": "customers",
        "type": "Order",
        "field": "customer",
        "back": "orders",
    }
    assert {(one["name"], one["type"], one["documents"]) for one in found["collections"]} == {
        ("customers", "Customer", 6),
        ("orders", "Order", 12),
    }
    (left_out,) = found["leftOut"]
    assert (left_out["type"], left_out["name"]) == ("Order", "password")
    assert found["definition"]["mappings"]["Order"]["customer"]["collection"] == "customers"


async def test_an_existing_definition_keeps_its_lines_and_gets_what_is_new(
    service: Service,
) -> None:
    mappings = (
        "# of mine\nQuery:\n"
        f"  people: {{db: {service.db}, collection: customers}}\n"
        "Person:\n  called: name  # as people say\n"
    )
    definition = {"_id": "shop", "schema": SCHEMA, "mappings": mappings}
    found = await post(service, {"definition": definition, "db": None})
    merged = found["definition"]
    assert {"Person.age", "Person.orders", "Query.orders", "Order"} <= {*found["added"]}
    assert "Person.called" not in found["added"]
    assert "  # mine\n" in merged["schema"]
    assert merged["mappings"].startswith("# of mine\n")
    assert "called: name  # as people say" in merged["mappings"]
    assert yaml.safe_load(merged["mappings"])["Order"]["customer"]["collection"] == "customers"
    checked = await service.request(
        "POST", "/_tools/check", json={"definition": {**definition, **merged}}, headers=ADMIN
    )
    assert checked.json["errors"] == []

    again = await post(service, {"definition": {**definition, **merged}})
    assert (again["added"], again["definition"]) == ([], merged)


async def test_mappings_that_nothing_can_be_inserted_into_are_written_again(
    service: Service,
) -> None:
    place = {"db": service.db, "collection": "customers"}
    text = f'{{"Query": {{"people": {{"db": "{service.db}", "collection": "customers"}}}}}}'
    for mappings in (text, {"Query": {"people": place}}):
        definition = {"_id": "shop", "schema": SCHEMA, "mappings": mappings}
        merged = (await post(service, {"definition": definition}))["definition"]
        assert yaml.safe_load(merged["mappings"])["Query"]["people"] == place
        assert "orders" in yaml.safe_load(merged["mappings"])["Query"]


@pytest.mark.parametrize(
    "schema", ["type Query", "type Query\n", "type Query # later\n", '"All"\ntype Query']
)
async def test_a_query_type_without_a_block_gets_one(service: Service, schema: str) -> None:
    definition = {"_id": "shop", "schema": schema, "mappings": "{}"}
    learned = await post(service, {"definition": definition, "db": service.db})

    merged = learned["definition"]
    checked = await service.request(
        "POST", "/_tools/check", json={"definition": {**definition, **merged}}, headers=ADMIN
    )
    assert checked.json["errors"] == []
    assert "Query.orders" in learned["added"]


@pytest.mark.parametrize(
    ("part", "text"), [("schema", "type Query {"), ("mappings", "a: ["), ("schema", "")]
)
async def test_a_definition_that_cannot_be_read_is_rejected(
    service: Service, part: str, text: str
) -> None:
    definition = {"_id": "shop", "schema": SCHEMA, "mappings": "{}", part: text}
    reply = await service.request(
        "POST", "/_tools/infer", json={"definition": definition}, headers=ADMIN
    )
    assert reply.status in (400, 422), reply.text
    assert "cannot be read" in reply.text
