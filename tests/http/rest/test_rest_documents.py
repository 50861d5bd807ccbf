"""One document: created, read, replaced, changed, removed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from bson import Int64, ObjectId

from tests.http.harness import Mongo
from tests.http.rest_harness import Api, relative, serving

pytestmark = [pytest.mark.anyio, pytest.mark.json]

UPDATED, CREATED = 200, 201


async def test_a_posted_document_is_stored_and_its_address_told(api: Api) -> None:
    reply = await api.post("/things", {"name": "Ada"})

    assert (reply.status, reply.text) == (201, "")
    (stored,) = api.things.find()
    assert stored["name"] == "Ada"
    assert reply.headers["etag"] == str(stored["_etag"])
    assert reply.headers["location"] == f"http://{api.host}/things/{stored['_id']}"


async def test_a_document_is_read_at_its_address(api: Api) -> None:
    posted = await api.post("/things", {"name": "Ada", "at": datetime(2020, 1, 1), "n": Int64(5)})

    reply = await api.get(relative(posted.headers["location"]))

    assert reply.status == 200
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.headers["etag"] == posted.headers["etag"]
    assert reply.json == {
        "_id": {"$oid": posted.headers["location"].rsplit("/", 1)[1]},
        "name": "Ada",
        "at": {"$date": 1577836800000},
        "n": 5,
        "_etag": {"$oid": posted.headers["etag"]},
    }


async def test_an_empty_body_is_an_empty_document(api: Api) -> None:
    assert (await api.post("/things")).status == 201
    assert (await api.put("/things/x", wm="upsert")).status == 201

    assert api.things.find_one({"_id": "x"}).keys() == {"_id", "_etag"}


async def test_dotted_keys_and_dates_of_a_post(api: Api) -> None:
    await api.post("/things", {"_id": 1, "a.b": 1, "x.0": 2, "$currentDate": {"at": True}})

    stored = api.things.find_one()
    assert (stored["a"], stored["x"]) == ({"b": 1}, [2])
    assert isinstance(stored["at"], datetime)


async def test_a_put_replaces_everything_but_the_id(api: Api) -> None:
    api.things.insert_one({"_id": "x", "_etag": ObjectId(), "old": 1})

    reply = await api.put("/things/x", {"new": 2})

    stored = api.things.find_one()
    assert (reply.status, reply.text) == (200, "")
    assert stored == {"_id": "x", "new": 2, "_etag": ObjectId(reply.headers["etag"])}
    assert "location" not in reply.headers


async def test_a_patch_merges_and_renews_the_etag(api: Api) -> None:
    etag = ObjectId()
    api.things.insert_one({"_id": "x", "_etag": etag, "a": {"b": 1}, "n": 1, "l": [1, 2]})

    reply = await api.patch(
        "/things/x", {"a.c": 2, "l.0": 9, "m": 1, "$inc": {"n": 5}, "$unset": {"a.b": ""}}
    )

    assert reply.status == 200
    stored = api.things.find_one()
    assert stored.pop("_etag") == ObjectId(reply.headers["etag"]) != etag
    assert stored == {"_id": "x", "a": {"c": 2}, "n": 6, "l": [9, 2], "m": 1}


async def test_an_array_patches_by_a_pipeline(api: Api) -> None:
    api.things.insert_one({"_id": "x", "n": 2})

    reply = await api.patch("/things/x", [{"$set": {"double": {"$multiply": ["$n", 2]}}}])

    assert reply.status == 200
    assert api.things.find_one() == {
        "_id": "x",
        "n": 2,
        "double": 4,
        "_etag": ObjectId(reply.headers["etag"]),
    }


async def test_a_pipeline_may_not_leave_its_document(api: Api) -> None:
    api.things.insert_one({"_id": "x"})

    reply = await api.patch("/things/x", [{"$lookup": {"from": "other"}}])

    assert reply.status == 403


@pytest.mark.parametrize("body", [None, {}, []])
async def test_a_patch_of_nothing_is_400(api: Api, body: Any) -> None:
    api.things.insert_one({"_id": "x"})

    reply = await api.patch("/things/x", body)

    assert (reply.status, reply.json["message"]) == (400, "no data provided")


async def test_a_deleted_document_is_gone(api: Api) -> None:
    api.things.insert_one({"_id": "x"})

    reply = await api.delete("/things/x")

    assert (reply.status, reply.text) == (204, "")
    assert (await api.delete("/things/x")).status == 404
    assert (await api.get("/things/x")).status == 404


# --- write modes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "mode", "exists", "expected"),
    [
        ("POST", None, False, CREATED),
        ("POST", None, True, 409),
        ("POST", "insert", True, 409),
        ("POST", "update", False, 404),
        ("POST", "update", True, UPDATED),
        ("POST", "upsert", False, CREATED),
        ("POST", "upsert", True, UPDATED),
        ("PUT", None, False, 404),
        ("PUT", None, True, UPDATED),
        ("PUT", "insert", False, CREATED),
        ("PUT", "insert", True, 409),
        ("PUT", "upsert", False, CREATED),
        ("PUT", "UPSERT", True, UPDATED),
        ("PATCH", None, False, 404),
        ("PATCH", None, True, UPDATED),
        ("PATCH", "insert", False, CREATED),
        ("PATCH", "insert", True, 409),
        ("PATCH", "upsert", False, CREATED),
        ("PATCH", "upsert", True, UPDATED),
        ("PATCH", "nonsense", False, 404),
    ],
)
async def test_write_modes(
    api: Api, method: str, mode: str | None, exists: bool, expected: int
) -> None:
    if exists:
        api.things.insert_one({"_id": "x", "old": 1})
    path, body = ("/things", {"_id": "x", "a": 1}) if method == "POST" else ("/things/x", {"a": 1})

    modes: dict[str, Any] = {"wm": mode} if mode else {}
    reply = await api.send(method, path, body, **modes)

    assert reply.status == expected
    stored = api.things.find_one({"_id": "x"})
    if expected in (UPDATED, CREATED):
        assert stored["a"] == 1
        assert ("old" in stored) is (method == "PATCH" and exists)
        assert reply.headers["etag"] == str(stored["_etag"])
        assert ("location" in reply.headers) is (expected == CREATED)
    else:
        assert (stored is not None and "a" not in stored) is exists


async def test_a_404_of_an_update_names_the_way_out(api: Api) -> None:
    """Decision 41: error bodies on 404 of updates that name `wm=upsert`."""
    for method in ("PUT", "PATCH"):
        reply = await api.send(method, "/things/x", {"a": 1})

        assert reply.json["message"] == "document 'x' does not exist"
        assert reply.json["hint"] == "wm=upsert creates it"


async def test_an_upsert_by_operators(api: Api) -> None:
    body = {"$inc": {"n": 1}, "$setOnInsert": {"born": True}}

    assert (await api.patch("/things/x", body, wm="upsert")).status == 201
    assert (await api.patch("/things/x", body, wm="upsert")).status == 200

    stored = api.things.find_one({}, {"_etag": 0})
    assert stored == {"_id": "x", "n": 2, "born": True}


async def test_a_post_in_update_mode_needs_an_id(api: Api) -> None:
    reply = await api.post("/things", {"a": 1}, wm="update")

    assert reply.status == 400
    assert (await api.post("/things", {"a": 1}, wm="upsert")).status == 201


@pytest.mark.parametrize(
    ("method", "mode", "expected"),
    [
        ("PUT", "update", 404),
        ("PATCH", "update", 404),
        ("DELETE", "update", 404),
        ("PUT", "upsert", 409),
        ("PATCH", "upsert", 409),
    ],
)
async def test_a_filter_restricts_what_is_written(
    api: Api, method: str, mode: str, expected: int
) -> None:
    api.things.insert_one({"_id": "x", "owner": "ada"})
    body = None if method == "DELETE" else {"owner": "bob"}

    refused = await api.send(method, "/things/x", body, filter={"owner": "eve"}, wm=mode)
    assert (refused.status, api.things.find_one()["owner"]) == (expected, "ada")

    done = await api.send(method, "/things/x", body, filter={"owner": "ada"}, wm=mode)
    assert done.status in (200, 204)


async def test_a_unique_index_is_409(api: Api) -> None:
    api.things.create_index("email", unique=True)
    await api.post("/things", {"email": "a"})

    reply = await api.post("/things", {"email": "a"})

    assert (reply.status, reply.json["code"]) == (409, "conflict")
    assert "email" not in reply.json["message"]


# --- ids in bodies --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("PUT", "_id in content body is different than id in URL"),
        ("PATCH", "_id in json data cannot be different than id in URL"),
    ],
)
async def test_the_id_of_the_body_is_that_of_the_path(api: Api, method: str, message: str) -> None:
    api.things.insert_one({"_id": "x"})

    refused = await api.send(method, "/things/x", {"_id": "y", "a": 1})
    assert (refused.status, refused.json["message"]) == (400, message)

    assert (await api.send(method, "/things/x", {"_id": "x", "a": 1})).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_operators_have_no_place_in_a_whole_document(api: Api, method: str) -> None:
    path = "/things" if method == "POST" else "/things/x"

    reply = await api.send(method, path, {"$set": {"a": 1}}, wm="upsert")

    assert (reply.status, reply.json["message"]) == (
        400,
        "update operators (but $currentDate) cannot be used on POST and PUT requests",
    )


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_an_array_is_not_a_document(api: Api, method: str) -> None:
    reply = await api.send("PUT", "/things/x", [{"a": 1}])

    assert (reply.status, reply.json["message"]) == (400, "request content must be a Json object")


# --- what comes back ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_the_written_document_comes_back_when_asked_for(api: Api, method: str) -> None:
    """Decision 41: `Prefer: return=representation`."""
    path, body = ("/things", {"_id": "x", "a": 1}) if method == "POST" else ("/things/x", {"a": 1})

    reply = await api.send(
        method, path, body, headers={"prefer": "return=representation"}, wm="upsert"
    )

    assert reply.status == 201
    assert reply.json == {"_id": "x", "a": 1, "_etag": {"$oid": reply.headers["etag"]}}
    assert reply.headers["preference-applied"] == "return=representation"


async def test_the_base_url_is_used_in_addresses(mongo_client: Mongo, mongo_uri: str) -> None:
    base = {"core": {"base-url": "https://api.example.org/data"}, "console": {"enabled": False}}
    async with serving(mongo_client, mongo_uri, base) as api:
        reply = await api.post("/things", {"_id": "a b"})

    assert reply.headers["location"] == "https://api.example.org/data/things/a%20b"


async def test_forms_are_documents(api: Api) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}

    assert (await api.post("/things", b"_id=x&n=1&name=Ada", headers=form)).status == 201
    assert (await api.patch("/things/x", b'$inc={"n":1}', headers=form)).status == 200

    assert api.things.find_one({}, {"_etag": 0}) == {"_id": "x", "n": 2, "name": "Ada"}


async def test_a_form_of_another_origin_is_refused(api: Api) -> None:
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "origin": "https://evil.example.org",
    }

    assert (await api.post("/things", b"a=1", headers=headers)).status == 415
    assert api.things.count_documents({}) == 0


async def test_head_is_a_get_without_its_body(api: Api) -> None:
    """Decision 41: HEAD like GET."""
    api.things.insert_one({"_id": "x", "_etag": ObjectId()})

    for path in ("/things/x", "/things", "/things/_size", "/"):
        got, head = await api.get(path), await api.send("HEAD", path)

        assert (head.status, head.text) == (200, "")
        assert head.headers["content-length"] == str(len(got.response.content))
        assert head.headers.get("etag") == got.headers.get("etag")


async def test_keys_and_filter_hold_for_one_document_too(api: Api) -> None:
    api.things.insert_one({"_id": "x", "a": 1, "b": 2})

    assert (await api.get("/things/x", keys={"a": 1})).json == {"_id": "x", "a": 1}
    assert (await api.get("/things/x", filter={"b": 2})).status == 200
    assert (await api.get("/things/x", filter={"b": 3})).status == 404


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("strict", '{"_id":"x","i":1,"l":{"$numberLong":"5"},"d":1.5,"t":{"$date":0}}'),
        (
            "extended",
            '{"_id":"x","i":{"$numberInt":"1"},"l":{"$numberLong":"5"},'
            '"d":{"$numberDouble":"1.5"},"t":{"$date":{"$numberLong":"0"}}}',
        ),
        ("relaxed", '{"_id":"x","i":1,"l":5,"d":1.5,"t":{"$date":"1970-01-01T00:00:00Z"}}'),
        ("unknown", '{"_id":"x","i":1,"l":5,"d":1.5,"t":{"$date":0}}'),
    ],
)
async def test_json_modes(api: Api, mode: str, expected: str) -> None:
    api.things.insert_one({"_id": "x", "i": 1, "l": Int64(5), "d": 1.5, "t": datetime(1970, 1, 1)})

    assert (await api.get("/things/x", jsonMode=mode)).text == expected
