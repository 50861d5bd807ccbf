"""`POST /_tools/infer`: a definition out of data that answers as it is; nobody learns more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml
from bson import DBRef, ObjectId
from tests.http.access_harness import ADMIN, NOBODY, allow, caller, forget_rules, guarded
from tests.http.harness import Mongo, Reply, Service, failing, profiled
from tests.http.hosts import module_application

from docgraph.exchange.errors import NotFound
from docgraph_workbench.infer.infer import infer as run_infer
from docgraph_workbench.infer.survey import SurveyScope

pytestmark = pytest.mark.anyio

AUTHOR = caller("aug", "author")
CUSTOMERS = [ObjectId() for _ in range(10)]
START = datetime(2025, 1, 1)


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        fill(one)
        yield one


def fill(service: Service) -> None:
    """A shop: relations by id, in arrays and objects, by a code without a name, to its own kind."""
    service.insert(
        "customers",
        *({"_id": id, "name": f"N{n}", "password": "x"} for n, id in enumerate(CUSTOMERS)),
    )
    service.insert(
        "categories",
        *({"_id": n, "name": f"C{n}", "parentId": None if n < 2 else n % 2} for n in range(6)),
    )
    service.insert(
        "countries", *({"_id": code, "area": 1.5} for code in ("DE", "FR", "IT", "ES", "PT", "AT"))
    )
    service.insert(
        "products",
        *(
            {"_id": ObjectId(), "sku": f"S-{n}", "category_ids": [n % 6], "madeIn": code, "qty": n}
            for n, code in enumerate(("DE", "FR", "IT", "ES", "PT", "AT"))
        ),
    )
    products = list(service.mongo[service.db]["products"].find())
    service.insert(
        "orders",
        *(
            {
                "_id": n,
                "customerId": CUSTOMERS[n % 10],
                "status": ["open", "shipped"][n % 2],
                "placed": START + timedelta(days=n),
                "items": [{"product": products[n % 6]["_id"], "count": n % 4}],
                "lonelyId": ObjectId(),
                "customer_ref": str(CUSTOMERS[n % 10]),
                "product_ref": str(products[n % 6]["_id"]),
            }
            for n in range(60)
        ),
    )
    database = service.mongo[service.db]
    database["orders"].create_index([("customerId", 1), ("placed", -1)])
    database["products"].create_index("sku", unique=True)
    database.create_collection("empty")
    database.create_collection(
        "shipped", viewOn="orders", pipeline=[{"$match": {"status": "shipped"}}]
    )
    database.create_collection("readings", timeseries={"timeField": "at", "metaField": "sensor"})
    service.insert("readings", *({"at": START, "sensor": "a", "v": float(n)} for n in range(5)))
    service.insert("users", {"_id": "ada", "password": "$2b$hashed", "roles": ["admin"]})
    service.insert("fs.files", {"_id": 1, "length": 5})
    fill_movies(service)


def fill_movies(service: Service) -> None:
    """Movies by texts: their sequels, and actors in arrays of objects with arrays."""
    titles = [f"movie-{n:03}" for n in range(40)]
    service.insert("actors", *({"_id": f"actor-{n:03}", "name": f"A{n}"} for n in range(12)))
    service.insert(
        "movies",
        *(
            {
                "_id": title,
                "sequelOf": titles[n - 1] if n else None,
                "scenes": [
                    {
                        "actors": [f"actor-{(n * (k + 1) + n // 5) % 12:03}" for k in range(3)],
                        "minute": 10 * k,
                    }
                    for k in (n % 5, n % 5 + 6)
                ],
            }
            for n, title in enumerate(titles)
        ),
    )
    service.mongo[service.db]["movies"].create_index("scenes.minute")
    service.insert(
        "prizes",
        *(
            {
                "_id": n,
                "winner": DBRef("movies", title),
                "jury": [DBRef("actors", f"actor-{(n + k) % 12:03}") for k in range(2)],
                "about": DBRef(["movies", "actors"][n % 2], title),
            }
            for n, title in enumerate(titles)
        ),
    )


@pytest.fixture
def service(server: Service) -> Service:
    """Nobody but the root role may do anything."""
    forget_rules(server)
    return server


async def infer(service: Service, who: dict[str, str] = ADMIN, **members: Any) -> Reply:
    return await service.request(
        "POST", "/_tools/infer", json={"db": service.db, **members}, headers=who
    )


async def learn(service: Service, who: dict[str, str] = ADMIN, **members: Any) -> Any:
    reply = await infer(service, who, **members)
    assert reply.status == 200, reply.text
    return reply.json


async def ask(service: Service, definition: Any, query: str) -> Any:
    reply = await service.request(
        "POST", "/_tools/draft", json={"definition": definition, "query": query}, headers=ADMIN
    )
    assert reply.status == 200, reply.text
    assert "errors" not in reply.json
    return reply.data


async def test_the_inferred_app_passes_the_check_and_answers_without_edits(
    service: Service,
) -> None:
    definition = (await learn(service))["definition"]

    checked = await service.request(
        "POST", "/_tools/check", json={"definition": definition}, headers=ADMIN
    )
    assert (checked.json["errors"], checked.json["warnings"]) == ([], [])
    data = await ask(
        service,
        definition,
        '{ orders(status: SHIPPED, placedFrom: "2025-01-20", sortByPlaced: DESC, limit: 1) {'
        " id customer { name orders(sortByPlaced: ASC, limit: 1) { id } }"
        " items { count product { sku categories { name parent { name } } country { area } } } } }",
    )
    assert data["orders"] == [
        {
            "id": 59,
            "customer": {"name": "N9", "orders": [{"id": 9}]},
            "items": [
                {
                    "count": 3,
                    "product": {
                        "sku": "S-5",
                        "categories": [{"name": "C5", "parent": {"name": "C1"}}],
                        "country": {"area": 1.5},
                    },
                }
            ],
        }
    ]


async def test_single_documents_ways_back_views_and_time_series_can_be_asked_for(
    service: Service,
) -> None:
    definition = (await learn(service))["definition"]

    data = await ask(
        service,
        definition,
        '{ category(id: 1) { children { id } products { sku } } productBySku(sku: "S-2") { orders'
        "(limit: 2) { id } } shippeds(limit: 1) { status } readings(vMin: 3) { v } }",
    )
    assert data == {
        "category": {"children": [{"id": 3}, {"id": 5}], "products": [{"sku": "S-1"}]},
        "productBySku": {"orders": [{"id": 2}, {"id": 8}]},
        "shippeds": [{"status": "shipped"}],
        "readings": [{"v": 3.0}, {"v": 4.0}],
    }


async def test_relations_are_told_with_their_evidence_and_false_ones_are_not_made(
    service: Service,
) -> None:
    learned = await learn(service)

    relations = {note.split(" (")[0] for note in learned["notes"] if "refers to" in note}
    assert relations >= {
        "categories.parentId refers to categories._id",
        "orders.customerId refers to customers._id",
        "orders.items.product refers to products._id",
        "products.category_ids refers to categories._id",
        "products.madeIn refers to countries._id",
    }
    assert not [one for one in relations if "qty" in one or ".count" in one or "lonely" in one]
    for field, other in (("customer_ref", "customers"), ("product_ref", "products")):
        told = f"orders.{field} holds ids of {other} as texts, which never equal ObjectIds"
        assert [note for note in learned["notes"] if note.startswith(f"{told}: no relation; ")]
    (told,) = [note for note in learned["notes"] if note.startswith("orders.customerId refers")]
    assert "by name and values: 10 of 10 found; 100% of customers used; indexed" in told


async def test_ids_as_texts_are_joined_by_the_mapping_in_the_note(service: Service) -> None:
    learned = await learn(service)
    (note,) = [one for one in learned["notes"] if one.startswith("orders.customer_ref holds")]
    definition, mapping = learned["definition"], json.loads(note.partition("mapping: ")[2])
    schema = definition["schema"].replace("type Order {", "type Order { owner: Customer")
    mappings = yaml.safe_load(definition["mappings"])
    mappings["Order"]["owner"] = mapping
    added = {**definition, "schema": schema, "mappings": mappings}
    lost = {"_id": 1_000, "customer_ref": "no id", "status": "open"}
    none = {"_id": 1_001, "status": "open"}
    service.insert("orders", lost, none)

    try:
        checked = await service.request(
            "POST", "/_tools/check", json={"definition": added}, headers=ADMIN
        )
        with profiled(service.mongo, service.db, "customers") as sent:
            data = await ask(
                service, added, "{ orders(limit: 100) { id customer { id } owner { id name } } }"
            )
    finally:
        service.mongo[service.db]["orders"].delete_many({"_id": {"$gte": 1_000}})

    assert checked.json["errors"] == []
    assert len(data["orders"]) == 62
    for one in data["orders"]:
        assert (one["owner"] or {}).get("id") == (one["customer"] or {}).get("id")
    plans = [one["planSummary"] for one in sent if "listIndexes" not in one["command"]]
    assert plans == 2 * ["IXSCAN { _id: 1 }"]  # one command for each field, not one for each order


async def test_what_cannot_be_learned_from_is_left_out_and_told(service: Service) -> None:
    learned = await learn(service)

    schema, notes = learned["definition"]["schema"], learned["notes"]
    assert "empty: left out, it has no documents to learn from" in notes
    assert "users: left out, it belongs to docgraph itself" in notes
    assert "fs.files: left out, it is reserved" in notes
    assert "# password: left out, it looks like a secret" in schema
    assert "type User" not in schema
    assert not [one for one in notes if "system." in one]


async def test_collections_can_be_chosen(service: Service) -> None:
    definition = (await learn(service, collections=["orders"], sample=5))["definition"]

    assert "type Order " in definition["schema"]
    assert "Customer " not in definition["schema"]
    assert "5 looked at" in definition["schema"]


async def test_the_tool_is_for_the_root_role_unless_a_rule_says_more(service: Service) -> None:
    assert (await infer(service, NOBODY)).status == 401
    assert (await infer(service, AUTHOR)).status == 403


async def test_callers_learn_only_from_collections_that_they_may_read_whole(
    service: Service,
) -> None:
    await allow(service, "path-prefix('/_tools')", "author")
    assert (await infer(service, AUTHOR)).status == 404
    await allow(service, "path-prefix('/categories')", "author")
    await allow(service, "path-prefix('/products')", "author", mongo={"readFilter": {"qty": 1}})
    await allow(
        service, "path-prefix('/orders')", "author", mongo={"projectResponse": {"status": 0}}
    )

    learned = await learn(service, AUTHOR)

    assert list_types(learned) == ["Query", "Category"]
    assert "products" not in str(learned)
    assert "users" not in str(learned)
    assert "createIndex" not in str(learned)  # which is for those who may explain
    for name in ("products", "orders", "users", "nothing"):
        reply = await infer(service, AUTHOR, collections=[name])
        assert (reply.status, reply.json["code"]) == (404, "not-found")


def list_types(learned: Any) -> list[str]:
    lines = learned["definition"]["schema"].splitlines()
    return [line.split()[1] for line in lines if line.startswith("type ")]


async def test_row_filters_of_the_rule_for_the_tools_hold_too(service: Service) -> None:
    filters = {f"{service.db}.categories": {"name": "C1"}}
    await allow(service, "path-prefix('/_tools')", "author", mongo={"readFilters": filters})
    await allow(service, "path-prefix('/categories')", "author")

    assert (await infer(service, AUTHOR)).status == 404


@pytest.mark.parametrize(
    ("members", "status", "message"),
    [
        ({"db": "admin"}, 403, "belongs to the server"),
        ({"db": "a b"}, 400, "invalid database name"),
        ({"db": "never_was"}, 404, "nothing to learn from"),
        ({"db": 5}, 400, "'db' must be a string"),
        ({"collections": "orders"}, 400, "'collections' must be"),
        ({"collections": ["nothing"]}, 404, "no collection 'nothing'"),
        ({"sample": 0}, 400, "'sample' must be from 1 to 10000"),
        ({"sample": True}, 400, "'sample' must be a whole number"),
        ({"app": "x"}, 400, "unknown member 'app'"),
    ],
)
async def test_bad_requests_have_a_clear_result(
    service: Service, members: dict[str, Any], status: int, message: str
) -> None:
    reply = await infer(service, **members)

    assert (reply.status, message in reply.json["message"]) == (status, True), reply.text


async def test_documents_of_sixteen_mebibytes_are_looked_at_within_bounds(
    service: Service,
) -> None:
    large = {"items": [{"x": n} for n in range(1000)], "text": "x" * 15_000_000}
    service.mongo["large_" + service.db]["things"].insert_many([{**large}, {**large}, {**large}])
    try:
        learned = await learn(service, db="large_" + service.db)
    finally:
        service.mongo.drop_database("large_" + service.db)

    assert list_types(learned) == ["Query", "Thing", "ThingItem"]


async def test_a_collection_that_takes_too_long_to_sample_is_read_from_its_beginning(
    service: Service,
) -> None:
    with failing(service.mongo, "aggregate", errorCode=50):
        learned = await learn(service, collections=["categories"], sample=3)

    assert any("only its first documents" in note for note in learned["notes"])
    assert list_types(learned) == ["Query", "Category"]


async def test_collections_that_there_is_no_time_for_are_named(service: Service) -> None:
    scope = SurveyScope(service.db, ("categories", "orders"), seconds=0.0)

    with pytest.raises(NotFound) as caught:
        await service.there(run_infer(service.app.store, scope))

    assert caught.value.hint is not None
    assert "for lack of time: categories, orders;" in caught.value.hint


async def test_a_slow_collection_does_not_use_up_the_time_of_the_others(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is first by name, and refers to the others as they refer to it."""
    monkeypatch.setattr("docgraph_workbench.infer.survey._GLANCE_MS", 900)
    monkeypatch.setattr("docgraph_workbench.infer.relations._PATIENCE_MS", 2_000)
    monkeypatch.setattr("docgraph.store.collection_stats._PATIENCE_MS", 2_000)
    db = f"slow_{service.db}"
    database = service.mongo[db]
    first, second, third = ([ObjectId() for _ in range(30)] for _ in range(3))
    database["aa"].insert_many(
        [{"_id": id, **{f"x{k}": second[n] for k in range(9)}} for n, id in enumerate(first)]
    )
    database["bb"].insert_many(
        [{"_id": id, "thirdId": third[n], "aaId": first[n]} for n, id in enumerate(second)]
    )
    database["thirds"].insert_many([{"_id": id, "bbId": second[n]} for n, id in enumerate(third)])
    commands = ("find", "aggregate", "count", "collStats", "listIndexes")
    block = {"blockConnection": True, "blockTimeMS": 5_000, "namespace": f"{db}.aa"}
    try:
        with failing(service.mongo, *commands, **block):
            scope = SurveyScope(db, seconds=6.0)
            found = await service.there(run_infer(service.app.store, scope))
    finally:
        service.mongo.drop_database(db)

    relations = {note.split(" (")[0] for note in found.notes if "refers to" in note}
    assert relations >= {
        "bb.thirdId refers to thirds._id",
        "thirds.bbId refers to bb._id",
    }
    assert not [note for note in found.notes if "there was no time: " in note]


async def test_a_range_below_an_array_finds_documents_with_one_element_within_it(
    service: Service,
) -> None:
    definition = (await learn(service, collections=["movies", "actors"]))["definition"]

    for low, high in ((0, 10), (15, 55), (30, 30), (70, 95)):
        arguments = f"scenesMinuteMin: {low}, scenesMinuteMax: {high}, limit: 40"
        data = await ask(service, definition, f"{{ movies({arguments}) {{ id }} }}")
        within = {"scenes": {"$elemMatch": {"minute": {"$gte": low, "$lte": high}}}}
        expected = service.mongo[service.db]["movies"].find(within)
        assert {one["id"] for one in data["movies"]} == {one["_id"] for one in expected}


def list_values(value: Any, path: list[str]) -> list[Any]:
    """The values at a path, of all elements where there are arrays."""
    if isinstance(value, list):
        return [found for one in value for found in list_values(one, path)]
    if not path:
        return [value]
    return list_values(value[path[0]], path[1:]) if isinstance(value, dict) else []


def build_mixed(n: int) -> dict[str, Any]:
    """Single values and arrays at every step; the most frequent form depends on the property."""
    low, high = 5 + n % 30, 55 - n % 20
    day, later = START + timedelta(days=low), START + timedelta(days=high)
    lists = {"len": high} if n % 3 else [{"len": low}, {"len": high}]
    return {
        "_id": n,
        "mass": [low, high] if n % 4 == 0 else high,
        "seen": [day, later] if n % 3 == 0 else day,
        "part": {"len": low} if n % 3 else [{"len": low}, {"len": high}],
        "parts": [{"len": low}, {"len": high}] if n % 3 else {"len": low},
        "boxes": [{"lid": lists}, {"lid": {"len": low}}],
        "crate": {"lid": lists} if n % 5 else [{"lid": lists}, {"lid": {"len": low}}],
    }


async def test_a_range_where_some_have_an_array_and_some_a_single_value(service: Service) -> None:
    documents = [build_mixed(n) for n in range(60)]
    service.insert("mixed", *documents)
    definition = (await learn(service, collections=["mixed"]))["definition"]

    paths = ("mass", "part.len", "parts.len", "boxes.lid.len", "crate.lid.len")
    for path in paths:
        words = path.split(".")
        name = words[0] + "".join(map(str.capitalize, words[1:]))
        for low, high in ((0, 10), (15, 34), (20, 40), (36, 60)):
            arguments = f"{name}Min: {low}, {name}Max: {high}, limit: 60"
            data = await ask(service, definition, f"{{ mixeds({arguments}) {{ id }} }}")
            expected = {
                one["_id"]
                for one in documents
                if any(low <= value <= high for value in list_values(one, words))
            }
            assert {one["id"] for one in data["mixeds"]} == expected, (path, low, high)
    arguments = 'seenFrom: "2025-01-16", seenBefore: "2025-02-10", limit: 60'
    data = await ask(service, definition, f"{{ mixeds({arguments}) {{ id }} }}")
    expected = {
        one["_id"]
        for one in documents
        if any(
            datetime(2025, 1, 16) <= day < datetime(2025, 2, 10)
            for day in list_values(one, ["seen"])
        )
    }
    assert {one["id"] for one in data["mixeds"]} == expected


async def test_a_relation_to_the_own_collection_has_the_name_of_its_property(
    service: Service,
) -> None:
    definition = (await learn(service, collections=["movies", "actors"]))["definition"]

    data = await ask(service, definition, '{ movie(id: "movie-003") { sequelOf { id } } }')
    assert data == {"movie": {"sequelOf": {"id": "movie-002"}}}


async def test_the_evidence_has_no_share_above_one_hundred_percent(service: Service) -> None:
    notes = (await learn(service, collections=["movies", "actors"]))["notes"]

    (evidence,) = [note for note in notes if note.startswith("movies.scenes.actors refers")]
    assert "; 100% of actors used" in evidence


async def test_references_become_relations_by_the_collection_that_they_name(
    service: Service,
) -> None:
    learned = await learn(service, collections=["movies", "actors", "prizes"])

    data = await ask(
        service,
        learned["definition"],
        "{ prize(id: 3) { winner { id prizes { id } } jury { id } winnerRef about } }",
    )
    assert data["prize"] == {
        "winner": {"id": "movie-003", "prizes": [{"id": 3}]},
        "jury": [{"id": "actor-003"}, {"id": "actor-004"}],
        "winnerRef": {"$ref": "movies", "$id": "movie-003"},
        "about": {"$ref": "actors", "$id": "movie-003"},
    }
    several = "prizes.about.$id refers to several collections (actors, movies): no relation"
    assert several in learned["notes"]
