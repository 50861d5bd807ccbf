"""`infer` on ids of several kinds, and on ids that are stored as texts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
import yaml
from bson import Binary, DBRef, Decimal128, ObjectId, Timestamp
from tests.http.access_harness import ADMIN, guarded
from tests.http.harness import Mongo, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

OIDS = [ObjectId() for _ in range(10)]
UUIDS = [UUID(int=(n + 1) << 90) for n in range(10)]
MIXED: list[Any] = [
    *OIDS,
    *(f"old-{n}" for n in range(10)),
    True,
    Decimal128("1.5"),
    datetime(2024, 1, 1),
]
KONTEN: list[Any] = [
    (n, f"k{n}", Decimal128(f"{n}.5"), datetime(2025, 1, 1, 0, n), Timestamp(n, 1))[n % 5]
    for n in range(40)
]
UNKNOWN = [str(ObjectId()) for _ in range(10)]


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        one.insert("customers", *({"_id": id, "name": "n"} for id in MIXED))
        one.insert("konten", *({"_id": id, "n": n} for n, id in enumerate(KONTEN)))
        one.insert("devices", *({"_id": Binary(id.bytes, 4), "a": 1} for id in UUIDS))
        one.insert("machines", *({"_id": Binary(id.bytes[::-1], 3), "a": 1} for id in UUIDS))
        one.insert("accounts", *({"_id": 1000 + n, "name": f"A{n}"} for n in range(10)))
        one.insert(
            "orders",
            *(
                {
                    "_id": n,
                    "customerId": MIXED[n % 20],
                    "konto_id": KONTEN[n % 40],
                    "customerRef": UNKNOWN[n % 10],
                    "patronId": OIDS[n % 10] if n % 3 else str(OIDS[n % 10]),
                    "bought": str(OIDS[n % 10]).upper() if n % 2 else str(OIDS[n % 10]),
                    "origin": str(UUIDS[n % 10]),
                    "made": str(UUID(bytes=UUIDS[n % 10].bytes[::-1])),
                    "accountRef": str(1000 + n % 10),
                    "zip": str(1000 + n % 10),
                    "seller": DBRef("customers", OIDS[n % 10], one.db),
                    "maker": DBRef("customers", OIDS[n % 10], "elsewhere"),
                }
                for n in range(60)
            ),
        )
        yield one


async def learn(service: Service) -> Any:
    reply = await service.request("POST", "/_tools/infer", json={"db": service.db}, headers=ADMIN)
    assert reply.status == 200, reply.text
    return reply.json


async def test_a_relation_to_ids_of_several_kinds_is_found(service: Service) -> None:
    learned = await learn(service)

    assert [one for one in learned["notes"] if "customerId refers to customers._id" in one]
    query = '{ orders(limit: 100) { id customer { id } } customer(id: "true") { id } }'
    reply = await service.request(
        "POST",
        "/_tools/draft",
        json={"definition": learned["definition"], "query": query},
        headers=ADMIN,
    )
    assert "errors" not in reply.json, reply.text
    assert all(one["customer"]["id"] for one in reply.data["orders"])
    assert reply.data["customer"] == {"id": "true"}


async def test_ids_of_other_kinds_do_not_hide_a_relation(service: Service) -> None:
    """Decimals, dates and timestamps are most of the keys, and they are joined, too."""
    learned = await learn(service)

    assert [one for one in learned["notes"] if "konto_id refers to konten._id" in one]
    query = "{ orders(limit: 100) { id konto { n } } }"
    reply = await service.request(
        "POST",
        "/_tools/draft",
        json={"definition": learned["definition"], "query": query},
        headers=ADMIN,
    )
    assert "errors" not in reply.json, reply.text
    assert all(one["konto"] == {"n": int(one["id"]) % 40} for one in reply.data["orders"])


async def test_ids_that_are_stored_as_texts_are_found_by_their_values(service: Service) -> None:
    notes = [one for one in (await learn(service))["notes"] if "holds ids" in one]

    told = "orders.{} holds ids of {} as texts, which never equal {}: no relation; "
    expected = {
        ("bought", "customers", "ObjectIds"),
        ("origin", "devices", "UUIDs"),
        ("made", "machines", "UUIDs"),
        ("accountRef", "accounts", "numbers"),
    }
    assert len(notes) == len(expected)
    for parts in expected:
        assert [one for one in notes if one.startswith(told.format(*parts))], parts


async def test_ids_of_which_some_are_texts_get_the_mapping_that_finds_all(service: Service) -> None:
    notes = (await learn(service))["notes"]
    (note,) = [one for one in notes if one.startswith("orders.patronId holds some ids")]

    assert "as texts, which never equal ObjectIds: the relation misses them" in note
    mapping = json.loads(note.partition("mapping: ")[2])
    assert '{"$fk": "patronId"}' in json.dumps(mapping)
    assert [one for one in notes if one.startswith("orders.patronId refers to customers._id")]


async def test_numbers_that_are_stored_as_texts_are_joined_by_the_mapping(service: Service) -> None:
    learned = await learn(service)
    (note,) = [one for one in learned["notes"] if one.startswith("orders.accountRef holds")]
    mappings = yaml.safe_load(learned["definition"]["mappings"])
    mappings.setdefault("Order", {})["account"] = json.loads(note.partition("mapping: ")[2])
    schema = learned["definition"]["schema"].replace(
        "type Order {", "type Order { account: Account"
    )
    definition = {**learned["definition"], "schema": schema, "mappings": mappings}
    reply = await service.request(
        "POST",
        "/_tools/draft",
        json={"definition": definition, "query": "{ orders(limit: 9) { id account { name } } }"},
        headers=ADMIN,
    )

    assert [one["account"]["name"] for one in reply.data["orders"]] == [f"A{n}" for n in range(9)]


async def test_a_reference_may_name_its_own_database(service: Service) -> None:
    notes = (await learn(service))["notes"]

    assert [one for one in notes if one.startswith("orders.seller.$id refers to customers._id")]
    assert not [one for one in notes if one.startswith("orders.maker")]


async def test_a_type_that_is_called_like_a_generated_one_does_no_harm(service: Service) -> None:
    """`CustomerOrder` and `CustomerWhere` are documents here, and not what callers order by."""
    db = f"{service.db}_names"
    for name in ("customers", "customer_orders", "customer_where"):
        service.mongo[db][name].insert_many([{"_id": n, "customer_id": n} for n in range(5)])
    try:
        reply = await service.request("POST", "/_tools/infer", json={"db": db}, headers=ADMIN)
        query = "{ customers { id } customerOrders(orderBy: [{id: DESC}], limit: 1) { id } }"
        draft = {"definition": reply.json["definition"], "query": query}
        answer = await service.request("POST", "/_tools/draft", json=draft, headers=ADMIN)
    finally:
        service.mongo.drop_database(db)

    assert answer.data["customerOrders"] == [{"id": 4}]
    assert len(answer.data["customers"]) == 5
