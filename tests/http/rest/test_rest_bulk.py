"""Many documents at once: arrays, and everything that matches a filter."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import pytest
from bson import Decimal128, Int64, ObjectId

from docgraph.observe.engine_events import CommandFinished
from tests.http.harness import eventually, listening
from tests.http.rest_harness import Api

pytestmark = pytest.mark.anyio


async def test_an_array_is_inserted_with_links(api: Api) -> None:
    reply = await api.post("/things", [{"_id": "a"}, {"_id": 1}, {}])

    assert reply.status == 200
    made = next(one["_id"] for one in api.things.find() if isinstance(one["_id"], ObjectId))
    links = ["/things/a", "/things/1?id_type=NUMBER", f"/things/{made}"]
    assert reply.json == {
        "inserted": 3,
        "links": links,
        "deleted": 0,
        "modified": 0,
        "matched": 0,
        "results": [
            {"index": index, "httpStatus": 201, "link": link} for index, link in enumerate(links)
        ],
    }
    assert {one["_etag"] for one in api.things.find()} == {ObjectId(reply.headers["etag"])}


async def test_elements_that_fail_do_not_keep_others_from_being_inserted(api: Api) -> None:
    """Decision 41: per-element results of bulk writes."""
    api.things.insert_one({"_id": 1})

    reply = await api.post("/things", [{"_id": 1}, {"_id": 2}, {"_id": 2}, {"_id": 3}])

    assert reply.status == 207
    assert reply.json["inserted"] == 2
    assert [(one["index"], one["httpStatus"]) for one in reply.json["errors"]] == [
        (0, 409),
        (2, 409),
    ]
    assert [one["httpStatus"] for one in reply.json["results"]] == [409, 201, 409, 201]
    assert sorted(one["_id"] for one in api.things.find()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("body", "mode", "extra"),
    [
        ({"_id": 1}, "insert", {}),
        ({"_id": 2, "email": "a"}, "insert", {}),
        ({"_id": 2, "email": "a"}, "upsert", {}),
        ({"_id": 3, "email": "a"}, "update", {}),
        ({"_id": 1}, "upsert", {"filter": {"x": 1}}),
    ],
    ids=str,
)
async def test_an_array_of_one_element_that_fails_is_an_array(
    api: Api, body: Any, mode: str, extra: dict[str, Any]
) -> None:
    api.things.create_index("email", unique=True, sparse=True)
    api.things.insert_many([{"_id": 1, "email": "a"}, {"_id": 3, "email": "c"}])

    reply = await api.post("/things", [body], wm=mode, **extra)

    assert reply.status == 207, reply.text
    assert (reply.json["inserted"], reply.json["modified"]) == (0, 0)
    assert [(one["index"], one["httpStatus"]) for one in reply.json["errors"]] == [(0, 409)]
    assert reply.json["results"] == reply.json["errors"]
    assert (await api.post("/things", body, wm=mode, **extra)).status == 409


async def test_an_element_with_another_etag_is_412_also_alone(api: Api) -> None:
    stale = {"if-match": "5f0000000000000000000000"}
    api.things.insert_one({"_id": 1, "_etag": ObjectId()})
    for mode in ("update", "upsert"):
        reply = await api.post("/things", [{"_id": 1}], headers=stale, wm=mode)
        assert reply.status == 207, reply.text
        assert [one["httpStatus"] for one in reply.json["results"]] == [412]


async def test_a_value_that_the_collection_does_not_take_is_400_for_its_element(api: Api) -> None:
    api.mongo[api.db].command(
        {"collMod": "things", "validator": {"n": {"$type": "int"}}, "validationLevel": "strict"}
    )

    reply = await api.post("/things", [{"n": 1}, {"n": "x"}])

    assert reply.status == 207
    (error,) = reply.json["errors"]
    assert error == {
        "index": 1,
        "httpStatus": 400,
        "message": "document failed validation",
        "mongodbErrorCode": 121,
    }


async def test_what_only_the_database_finds_wrong_with_an_element_is_400_for_it(api: Api) -> None:
    api.things.create_index([("place", "2dsphere")])

    reply = await api.post("/things", [{"place": [1, 2]}, {"place": "nowhere"}])

    assert (reply.status, reply.json["inserted"]) == (207, 1)
    (error,) = reply.json["errors"]
    assert (error["index"], error["httpStatus"], error["mongodbErrorCode"]) == (1, 400, 16755)


async def test_an_update_of_an_array_tells_what_it_did_not_find(api: Api) -> None:
    api.things.insert_many([{"_id": 1, "old": 1}, {"_id": 3, "old": 1}])

    reply = await api.post("/things", [{"_id": 1, "a": 1}, {"_id": 2}, {"_id": 3}], wm="update")

    assert reply.status == 207
    assert (reply.json["inserted"], reply.json["matched"]) == (0, 2)
    assert [one["httpStatus"] for one in reply.json["results"]] == [200, 404, 200]
    assert [(one["index"], one["httpStatus"]) for one in reply.json["errors"]] == [(1, 404)]
    assert api.things.find_one({"_id": 1}, {"_etag": 0}) == {"_id": 1, "a": 1}
    assert api.things.count_documents({}) == 2


@pytest.mark.parametrize(
    ("stored", "sent"), [(1, 1.0), (Int64(7), Decimal128("7")), ({"a": 1}, {"a": 1.0})]
)
async def test_an_update_finds_ids_that_are_equal_to_the_database(
    api: Api, stored: Any, sent: Any
) -> None:
    """A number of another type is the same id."""
    api.things.insert_one({"_id": stored, "_etag": "old"})
    body = [{"_id": sent, "n": 1}, {"_id": "none"}]

    other = await api.send("POST", "/things?wm=update", body, {"if-match": "another"})
    updated = await api.send("POST", "/things?wm=update", body)

    assert [one["httpStatus"] for one in other.json["results"]] == [412, 404]
    assert [one["httpStatus"] for one in updated.json["results"]] == [200, 404]


async def test_etags_of_ids_that_a_collation_makes_equal_are_compared(api: Api) -> None:
    names = api.things.database.create_collection(
        "names", collation={"locale": "en", "strength": 1}
    )
    names.insert_many([{"_id": "é", "_etag": "old"}, {"_id": "b", "_etag": "old"}])
    body = [{"_id": "E"}, {"_id": "b"}, {"_id": "none"}]

    for mode, last in (("update", 404), ("upsert", 201)):
        reply = await api.send("POST", f"/names?wm={mode}", body, {"if-match": "another"})

        assert [one["httpStatus"] for one in reply.json["results"]] == [412, 412, last]


@pytest.mark.parametrize(("stored", "kind", "most"), [(1.0, int, 20), ("É", str, 120)])
async def test_ids_that_are_equal_to_the_database_are_not_read_one_by_one(
    api: Api, stored: Any, kind: type, most: int
) -> None:
    api.things.drop()
    things = api.things.database.create_collection(
        "things", collation={"locale": "en", "strength": 1}
    )
    things.insert_one({"_id": stored, "_etag": "old"})
    body = [{"_id": "e" if kind is str else 1}, *({"_id": kind(n)} for n in range(2, 500))]

    with listening(CommandFinished) as commands:
        reply = await api.send("POST", "/things?wm=update", body, {"if-match": "another"})

    statuses = [one["httpStatus"] for one in reply.json["results"]]
    assert statuses == [412, *[404] * 498]
    assert len([one for one in commands if one.collection == "things"]) <= most


async def test_an_upsert_of_an_array_tells_what_is_new(api: Api) -> None:
    api.things.insert_one({"_id": 1, "old": 1})

    reply = await api.post("/things", [{"_id": 1}, {"_id": {"a": 1}}, {}], wm="upsert")

    assert reply.status == 200
    assert (reply.json["inserted"], reply.json["matched"], reply.json["modified"]) == (2, 1, 1)
    assert [one["httpStatus"] for one in reply.json["results"]] == [200, 201, 201]
    assert len(reply.json["links"]) == 1  # no path leads to an id that is a document
    assert "old" not in api.things.find_one({"_id": 1})


async def test_an_id_that_repeats_in_an_array_is_created_once(api: Api) -> None:
    bodies = [{"_id": "z", "v": 1}, {"_id": "y"}, {"_id": "z", "v": 2}]

    reply = await api.post("/things", bodies, wm="upsert")

    assert [one["httpStatus"] for one in reply.json["results"]] == [201, 201, 200]
    assert len(reply.json["links"]) == len(set(reply.json["links"])) == reply.json["inserted"] == 2


async def test_an_upsert_of_one_element_respects_the_filter(api: Api) -> None:
    api.things.insert_many([{"_id": 1, "kind": "a"}, {"_id": 2, "kind": "b"}])

    reply = await api.post("/things", [{"_id": 1, "n": 1}], wm="update", filter={"kind": "b"})

    assert (reply.status, reply.json["matched"]) == (207, 0)
    assert api.things.find_one({"_id": 2}) == {"_id": 2, "kind": "b"}


async def test_an_empty_array_does_nothing(api: Api) -> None:
    reply = await api.post("/things", [])

    assert (reply.status, reply.json) == (
        200,
        {"inserted": 0, "links": [], "deleted": 0, "modified": 0, "matched": 0},
    )
    assert api.things.count_documents({}) == 0


@pytest.mark.parametrize(
    ("elements", "mode", "status", "message"),
    [
        ([{}, {"_id": [1]}], "insert", 400, "the type of _id in request data is not supported"),
        ([{}, {"_id": "_properties"}], "insert", 403, "id is reserved: _properties"),
        ([{}, {"$set": {"a": 1}}], "insert", 400, "update operators (but $currentDate)"),
        ([{"_id": 1}, {}], "update", 400, "_id in content body is mandatory"),
    ],
)
async def test_an_array_with_a_wrong_element_writes_nothing(
    api: Api, elements: list[Any], mode: str, status: int, message: str
) -> None:
    reply = await api.post("/things", elements, wm=mode)

    assert reply.status == status
    assert reply.json["message"].startswith(message)
    assert reply.json["details"] == {"index": 1}
    assert api.things.count_documents({}) == 0


async def test_a_bulk_patch_changes_all_that_match_and_their_etags(api: Api) -> None:
    old = ObjectId()
    api.things.insert_many({"_id": n, "even": n % 2 == 0, "_etag": old} for n in range(5))

    reply = await api.patch("/things/*", {"a.b": 1, "$inc": {"n": 2}}, filter={"even": True})

    assert reply.status == 200
    counts = {"inserted": 0, "links": [], "deleted": 0, "modified": 3, "matched": 3}
    assert reply.json == counts
    new = ObjectId(reply.headers["etag"])
    for one in api.things.find():
        assert (one["_etag"] == new) is one["even"]
        assert (one.get("a"), one.get("n")) == (({"b": 1}, 2) if one["even"] else (None, None))


async def test_a_bulk_delete_removes_all_that_match(api: Api) -> None:
    api.things.insert_many({"_id": n} for n in range(5))

    reply = await api.delete("/things/*", filter={"_id": {"$gte": 2}})

    assert (reply.status, reply.json["deleted"], reply.json["links"]) == (200, 3, [])
    assert api.things.count_documents({}) == 2


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_bulk_write_without_a_filter_is_400(api: Api, method: str) -> None:
    api.things.insert_one({"_id": 1})
    body = {"a": 1} if method == "PATCH" else None

    reply = await api.send(method, "/things/*", body)

    assert (reply.status, reply.json["message"]) == (
        400,
        "filter parameter is mandatory for bulk write requests",
    )
    assert api.things.find_one() == {"_id": 1}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([{"$set": {"a": 1}}], "request content must be a Json object"),
        ({}, "no data provided"),
        ({"_id": 1}, "the _id of a document cannot be changed"),
    ],
)
async def test_bodies_that_a_bulk_patch_refuses(api: Api, body: Any, message: str) -> None:
    reply = await api.patch("/things/*", body, filter={"a": 1})

    assert reply.status == 400
    assert reply.json["message"].startswith(message)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
async def test_other_methods_are_405(api: Api, method: str) -> None:
    reply = await api.send(method, "/things/*", {} if method != "GET" else None)

    assert (reply.status, reply.json["message"]) == (405, f"method {method} not allowed")
    assert reply.headers["allow"] == "PATCH, DELETE, OPTIONS"


async def test_ten_thousand_documents_are_inserted_in_bounded_memory(api: Api) -> None:
    bodies = [{"_id": n, "name": f"name {n}", "tags": ["a", "b"], "n": n} for n in range(10_000)]

    tracemalloc.start()
    reply = await api.post("/things", bodies)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (reply.status, reply.json["inserted"]) == (200, 10_000)
    assert api.things.count_documents({}) == 10_000
    assert peak < 64 * 1024 * 1024


async def test_a_client_that_gives_up_leaves_whole_documents_and_right_counts(api: Api) -> None:
    bodies = [{"_id": n, "n": n} for n in range(3000)]
    task = asyncio.ensure_future(api.post("/things", bodies))
    await eventually(lambda: task.done() or api.things.find_one())
    task.cancel()
    await asyncio.wait([task])

    again = await api.post("/things", bodies)

    errors = again.json.get("errors", [])
    assert {one["httpStatus"] for one in errors} <= {409}
    assert again.json["inserted"] + len(errors) == 3000
    assert (await api.get("/things/_size")).json == {"_size": 3000}
