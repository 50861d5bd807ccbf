"""`apps explain` and `apps advise` name the same index for a field, whatever kind it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.http.access_harness import ADMIN, guarded, remove_rules
from tests.http.harness import Mongo, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

MANY = 1_200  # documents: more than few
SCHEMA = """
type Query {{ {root} parents: [Parent] }}
type Parent {{ id: Int! {related} }}
type Order {{ id: Int! sku: String tags: [String] }}
type Total {{ state: String count: Int! sumTotal: Float }}
"""
FINDS: dict[str, Any] = {
    "equality": {"sku": "S1"},
    "two equalities": {"state": "lost", "sku": "S1"},
    "range": {"total": {"$gt": 700}},
    "equality and range": {"sku": "S1", "total": {"$gt": 1}},
    "list": {"tags": "t1"},
    "two lists": {"tags": "t1", "items.sku": "S1"},
    "two conditions on objects": {"items.qty": {"$gt": 5}, "items.sku": "S1"},
    "one object": {"items": {"$elemMatch": {"qty": {"$gt": 5}, "sku": "S1"}}},
    "list and equality": {"tags": "t1", "sku": "S1"},
    "alternatives": {"$or": [{"sku": "S1"}, {"state": "lost"}]},
    "conjunction": {"$and": [{"sku": "S1"}, {"total": {"$gte": 3}}]},
    "values": {"sku": {"$in": ["S1", "S2"]}, "state": "lost"},
    "nothing served": {"note": {"$regex": "y"}},
    "negation": {"sku": {"$ne": "S1"}, "state": "lost"},
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "find": ("[Order]", {"limit": 5}),
    "sorted": ("[Order]", {"limit": 5, "sort": {"total": -1}}),
    "single": ("Order", {}),
    "count": ("Int", {"count": True}),
    "group": ("[Total]", {"group": {"by": "state", "sum": "total"}}),
    "sorted group": ("[Total]", {"group": {"by": "state"}, "sort": {"count": -1}, "limit": 3}),
    "totals": ("Total", {"group": {"sum": "total"}}),
    "unwound": ("[Total]", {"group": {"unwind": "tags", "by": {"state": "tags"}}}),
    "connection": ("[Order!]!", {"connection": {}, "sort": {"total": 1}}),
    "stages": ("[Order]", {"stages": True}),
}


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as service:
        orders = (
            {
                "_id": n,
                "parentId": n % 300,
                "sku": f"S{n % 300}",
                "total": n * 0.5,
                "tags": [f"t{n % 400}", "x"],
                "items": [{"qty": n, "sku": f"S{n % 200}"}],
                "state": "lost" if n == 5 else "new",
                "note": "x",
            }
            for n in range(MANY)
        )
        service.insert("orders", *orders)
        service.insert("parents", *({"_id": n} for n in range(5)))
        await remove_rules(service)
        yield service


def define(service: Service, kind: str, find: dict[str, Any], *, is_related: bool) -> Any:
    type_, members = KINDS[kind]
    mapping = {**service.find("orders", find), **members}
    if mapping.pop("stages", False):
        mapping["stages"] = [{"$match": mapping.pop("find")}, {"$sort": {"total": 1}}]
    field = f"field: {type_}"
    root, related = ("", field) if is_related else (field, "")
    mappings: dict[str, Any] = {
        "Query": {"parents": {**service.find("parents"), "limit": 5}},
        "Parent": {"id": "_id"},
        "Order": {"id": "_id"},
    }
    mappings["Parent" if is_related else "Query"]["field"] = mapping
    return {
        "_id": "shop",
        "schema": SCHEMA.format(root=root, related=related),
        "mappings": mappings,
    }


def ask_for(kind: str, *, is_related: bool) -> str:
    inner = {
        "count": "",
        "group": " { count }",
        "sorted group": " { count }",
        "totals": " { count }",
        "unwound": " { count }",
        "connection": " { nodes { id } }",
    }.get(kind, " { id }")
    field = f"field{inner}"
    return f"{{ parents {{ {field} }} }}" if is_related else f"{{ {field} }}"


@pytest.mark.parametrize("is_related", [False, True], ids=["root", "relation"])
@pytest.mark.parametrize("kind", KINDS)
async def test_explain_and_advise_name_the_same_index(
    server: Service, kind: str, is_related: bool
) -> None:
    different: list[Any] = []
    named = 0
    related = {"parentId": {"$fk": "_id"}} if is_related else {}
    for name, find in FINDS.items():
        definition = define(server, kind, {**find, **related}, is_related=is_related)
        body = {"definition": definition}
        advised = await server.request(
            "POST", "/_tools/advise", json={**body, "sample": 100}, headers=ADMIN
        )
        assert advised.status == 200, advised.text
        commands = [
            command
            for finding in advised.json["findings"]
            if finding["where"].split(".")[2] == "field"
            for command in finding.get("createIndex", [])
        ]
        query = ask_for(kind, is_related=is_related)
        planned = await server.request(
            "POST",
            "/_tools/plan",
            json={**body, "query": query, "run": False},
            headers=ADMIN,
        )
        fetch = planned.json["fetches"][-1]
        named += len(commands)
        if fetch.get("createIndex", "") != "; ".join(commands):
            different.append((name, fetch.get("createIndex", ""), commands))
    assert named
    assert not different, "\n".join(map(str, different))
