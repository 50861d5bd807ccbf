"""App definitions written by the REST API (decisions 2 to 7; rest-behaviour 5.9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.harness import Document, Mongo, build_definition
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, relative, serving

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { items(name: String): [Item] } type Item { name: String }"
ASK = '{ items(name: "one") { name } }'


@module_application
async def shared_api(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as one:
        await one.service.app.store.available()
        yield one


@pytest.fixture
async def api(shared_api: Api) -> Api:
    """A database of two items and no app."""
    database = shared_api.mongo[shared_api.db]
    there = database.list_collection_names()
    if "gql-apps" in there:
        assert (await shared_api.delete("/gql-apps/*", filter={"_id": {"$ne": None}})).status == 200
    else:
        assert (await shared_api.put("/gql-apps")).status == 201
    if "items" not in there:
        database["items"].insert_many([{"name": "one"}, {"name": "two"}])
    return shared_api


def app(api: Api, id: Any = "shop", **descriptor: Any) -> Document:
    """A definition with operators and a dotted key in it."""
    find = {"name": {"$in": [{"$arg": "name"}]}, "a.b": {"$exists": False}}
    mappings = {"Query": {"items": {"db": api.db, "collection": "items", "find": find}}}
    return build_definition(id, SCHEMA, mappings, **descriptor)


async def status(api: Api, path: str = "shop") -> int:
    reply = await api.service.query(path, ASK)
    if reply.status == 200:
        assert reply.data == {"items": [{"name": "one"}]}
    return int(reply.status)


def stored(api: Api, id: Any = "shop") -> Document | None:
    found: Document | None = api.mongo[api.db]["gql-apps"].find_one({"_id": id})
    return found


async def test_the_collection_is_made_with_its_unique_index(api: Api) -> None:
    """Decision 5."""
    indexes = api.mongo[api.db]["gql-apps"].index_information()

    assert indexes["_uris_1"]["unique"] is True


async def test_a_posted_app_is_served_by_the_next_request(api: Api) -> None:
    assert await status(api) == 404
    posted = await api.post("/gql-apps", app(api))

    assert (posted.status, posted.text) == (201, "")
    assert relative(posted.headers["location"]) == "/gql-apps/shop"
    assert await status(api) == 200


async def test_an_app_with_a_uri_gets_a_generated_id(api: Api) -> None:
    """Decision 3."""
    definition = app(api, uri="/v1/shop")
    del definition["_id"]
    posted = await api.post("/gql-apps", definition)

    assert posted.status == 201, posted.text
    assert await status(api, "v1/shop") == 200
    without = await api.post("/gql-apps", {"schema": SCHEMA, "mappings": {}})
    assert without.status == 400


async def test_reading_gives_back_what_was_written(api: Api) -> None:
    """Decision 6: keys are stored escaped and shown plain; what is ours is not shown."""
    await api.post("/gql-apps", app(api))
    one = (await api.get("/gql-apps/shop")).json
    (listed,) = (await api.get("/gql-apps")).json
    document = stored(api)

    for read in (one, listed):
        assert {key: read[key] for key in ("schema", "mappings")} == {
            key: app(api)[key] for key in ("schema", "mappings")
        }
        assert "_uris" not in read
    assert document is not None
    assert document["mappings"]["Query"]["items"]["find"] == {
        "name": {"_$in": [{"_$arg": "name"}]},
        "a::b": {"_$exists": False},
    }


async def test_what_cannot_work_is_400_with_its_place_and_not_stored(api: Api) -> None:
    """Decisions 4 and 7."""
    wrong = app(api)
    wrong["mappings"]["Query"]["items"]["find"] = {"name": {"$arg": 3}}
    posted = await api.post("/gql-apps", wrong)
    put = await api.put("/gql-apps/shop", wrong, wm="upsert")

    for reply in (posted, put):
        assert reply.status == 400
        assert reply.json["message"].startswith(
            "Wrong GraphQL App definition: mappings.Query.items.find.name.$arg: "
        )
    assert stored(api) is None


async def test_warnings_come_back_with_the_answer(api: Api) -> None:
    """Decision 7."""
    definition = app(api)
    definition["mappings"]["Nothing"] = {"x": "y"}
    reply = await api.post("/gql-apps", definition)

    assert reply.status == 201
    assert any("mappings.Nothing" in one for one in reply.json["_warnings"])
    assert await status(api) == 200


async def test_put_replaces_an_app_and_needs_upsert_for_a_new_one(api: Api) -> None:
    missing = await api.put("/gql-apps/shop", app(api))
    created = await api.put("/gql-apps/shop", app(api), wm="upsert")
    moved = await api.put("/gql-apps/shop", app(api, uri="elsewhere"))

    assert (missing.status, created.status, moved.status) == (404, 201, 200)
    assert await status(api) == 404
    assert await status(api, "elsewhere") == 200


async def test_put_takes_its_id_from_the_path(api: Api) -> None:
    definition = app(api)
    del definition["_id"]

    assert (await api.put("/gql-apps/shop", definition, wm="upsert")).status == 201
    assert await status(api) == 200
    assert (await api.put("/gql-apps/other", app(api), wm="upsert")).status == 400


async def test_a_patch_is_checked_as_a_whole_before_it_is_written(api: Api) -> None:
    """Decision 4."""
    await api.post("/gql-apps", app(api))
    before = stored(api)
    wrong = await api.patch("/gql-apps/shop", {"mappings.Query.items.find": {"x": {"$arg": 1}}})
    assert stored(api) == before
    right = await api.patch(
        "/gql-apps/shop", {"mappings.Query.items.find": {"name": {"$arg": "name"}}}
    )

    assert wrong.status == 400
    assert "mappings.Query.items.find.x.$arg" in wrong.json["message"]
    assert right.status == 200, right.text
    assert await status(api) == 200


async def test_an_app_is_disabled_and_enabled_at_once(api: Api) -> None:
    """Decision 2."""
    await api.post("/gql-apps", app(api))
    await api.patch("/gql-apps/shop", {"descriptor.enabled": False})
    assert await status(api) == 404
    await api.patch("/gql-apps/shop", {"$unset": {"descriptor.enabled": ""}})
    assert await status(api) == 200


async def test_an_etag_guards_a_patch(api: Api) -> None:
    etag = (await api.post("/gql-apps", app(api))).headers["etag"]
    wrong = await api.patch(
        "/gql-apps/shop", {"descriptor.enabled": False}, headers={"If-Match": "0" * 24}
    )
    right = await api.patch(
        "/gql-apps/shop", {"descriptor.enabled": False}, headers={"If-Match": etag}
    )

    assert (wrong.status, right.status) == (412, 200)


async def test_an_array_is_all_or_nothing(api: Api) -> None:
    """Decision 4."""
    good = [app(api, "a"), app(api, "b")]
    bad = await api.post("/gql-apps", [app(api, "c"), {"_id": "d"}])
    posted = await api.post("/gql-apps", good)
    taken = await api.post("/gql-apps", [app(api, "e"), app(api, "a")])

    assert bad.status == 400
    assert "in document at index position 1" in bad.json["message"]
    assert posted.status == 200
    assert posted.json["inserted"] == 2
    assert taken.status == 409
    assert [await status(api, name) for name in "abce"] == [200, 200, 404, 404]


async def test_two_apps_cannot_claim_one_uri(api: Api) -> None:
    """Decision 5."""
    await api.post("/gql-apps", app(api, "shop", uri="v1"))
    by_uri = await api.post("/gql-apps", app(api, "other", uri="/v1/"))
    by_id = await api.post("/gql-apps", app(api, "v1"))
    patched = await api.post("/gql-apps", app(api, "third"))
    moved = await api.patch("/gql-apps/third", {"descriptor": {"uri": "v1"}})
    same = await api.put("/gql-apps/shop", app(api, "shop", uri="shop"))

    for reply in (by_uri, by_id, moved):
        assert reply.status == 409
        assert reply.json["message"] == (
            "URI collision: another GraphQL app is already accessible at /v1"
        )
    assert patched.status == 201
    assert same.status == 200


async def test_of_many_who_claim_a_uri_at_once_one_wins(api: Api) -> None:
    """Decision 5: enforced by the index that came with the collection."""
    replies = await asyncio.gather(
        *(api.post("/gql-apps", app(api, f"app{n}", uri="same")) for n in range(10))
    )

    assert sorted(reply.status for reply in replies) == [201] + [409] * 9


async def test_a_deleted_app_is_gone_at_once(api: Api) -> None:
    """Decision 2."""
    await api.post("/gql-apps", app(api))
    assert await status(api) == 200

    assert (await api.delete("/gql-apps/shop")).status == 204
    assert await status(api) == 404


async def test_bulk_patch_is_refused_before_it_changes_anything(api: Api) -> None:
    """Decision 4."""
    await api.post("/gql-apps", app(api))
    before = stored(api)
    reply = await api.patch("/gql-apps/*", {"descriptor.enabled": False}, filter={"_id": "shop"})

    assert reply.status == 501
    assert reply.json["message"] == (
        "GraphQL App definition cannot be updated with bulk patch requests"
    )
    assert stored(api) == before


async def test_bulk_delete_removes_the_apps(api: Api) -> None:
    """Decision 4."""
    await api.post("/gql-apps", [app(api, "a"), app(api, "b")])
    reply = await api.delete("/gql-apps/*", filter={"_id": {"$in": ["a", "b"]}})

    assert (reply.status, reply.json["deleted"]) == (200, 2)
    assert [await status(api, name) for name in "ab"] == [404, 404]


async def test_with_the_collection_its_apps_are_gone(api: Api) -> None:
    await api.post("/gql-apps", app(api))
    etag = (await api.get("/gql-apps")).headers["etag"]
    assert await status(api) == 200

    assert (await api.delete("/gql-apps", headers={"If-Match": etag})).status == 204
    assert await status(api) == 404
    assert (await api.post("/gql-apps", app(api))).status == 404


async def test_with_the_database_its_apps_are_gone(api: Api) -> None:
    await api.post("/gql-apps", app(api))
    assert await status(api) == 200

    assert (await api.delete("/")).status == 204
    assert await status(api) == 404
