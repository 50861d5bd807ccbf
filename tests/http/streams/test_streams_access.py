"""Who is told what: rights are those of the caller, and are asked again while a stream is open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.http.access_harness import (
    ADA,
    ADMIN,
    BOB,
    NOBODY,
    allow,
    caller,
    guarded,
    remove_rules,
    write_rules,
)
from tests.http.harness import Document, Mongo, Service
from tests.http.hosts import module_application
from tests.http.stream_harness import WEBSOCKET, Refused, emptied, listen, notes

pytestmark = pytest.mark.anyio

ROWS = {"team": "@user.team"}
STREAMS = [
    {"uri": "all", "stages": []},
    {"uri": "inserts", "stages": [{"$match": {"operationType": "insert"}}]},
    {"uri": "mine", "stages": [{"$match": {"fullDocument.team": {"$var": "@user.team"}}}]},
]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        for name in ("notes", "plain", "users"):
            reply = await one.request("PUT", f"/{name}", headers=ADMIN, json={"streams": STREAMS})
            assert reply.status in (200, 201), reply.text
        yield one


@pytest.fixture
async def service(server: Service) -> AsyncIterator[Service]:
    async with emptied(server, "notes", "plain"):
        yield server


async def refusal(service: Service, path: str, who: Document, by: str) -> int:
    with pytest.raises(Refused) as refused:
        async with listen(service, path, who, by=by):
            pass
    return refused.value.status


async def test_who_is_not_known_is_401_and_who_may_not_is_403(service: Service, by: str) -> None:
    path = "/notes/_streams/all"
    assert await refusal(service, path, NOBODY, by) == 401
    assert await refusal(service, path, ADA, by) == 403
    # Nobody learns which streams there are.
    assert await refusal(service, "/notes/_streams/unknown", ADA, by) == 403


async def test_everybody_listens_where_a_rule_says_so(service: Service, by: str) -> None:
    await allow(service, "path('/notes/_streams/all')", "$unauthenticated")
    async with listen(service, "/notes/_streams/all", NOBODY, by=by) as client:
        notes(service).insert_one({"_id": 1})
        assert (await client.next())["documentKey"] == {"_id": 1}
    assert await refusal(service, "/notes/_streams/inserts", NOBODY, by) == 401


async def test_pages_of_other_origins_open_no_websocket(service: Service) -> None:
    await allow(service, "path-prefix('/notes')", "$unauthenticated")
    path = "/notes/_streams/all"
    for origin in ("https://evil.example", "null", "http://test:81", "http://test.evil.example"):
        assert await refusal(service, path, {"Origin": origin}, WEBSOCKET) == 403
    async with listen(service, path, {"Origin": "http://test"}, by=WEBSOCKET):
        pass


async def test_a_reader_is_told_what_enters_and_leaves_its_rows(service: Service, by: str) -> None:
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": ROWS})
    async with listen(service, "/notes/_streams/all", ADA, by=by) as ada:
        changes: list[Callable[[], Any]] = [
            lambda: notes(service).insert_one({"_id": 1, "team": "red", "x": 1}),
            lambda: notes(service).update_one({"_id": 1}, {"$set": {"x": 2}}),
            lambda: notes(service).update_one({"_id": 1}, {"$set": {"team": "blue", "x": 3}}),
            lambda: notes(service).update_one({"_id": 1}, {"$set": {"x": 4}}),
            lambda: notes(service).update_one({"_id": 1}, {"$set": {"team": "red", "x": 5}}),
            lambda: notes(service).delete_one({"_id": 1}),
            lambda: notes(service).insert_one({"_id": 2, "team": "blue"}),
            lambda: notes(service).replace_one({"_id": 2}, {"team": "blue", "y": 1}),
            lambda: notes(service).delete_one({"_id": 2}),
        ]
        for change in changes:
            change()
        events = await ada.take(6)
    entered, updated, left, *_ = events
    kinds = [(one["operationType"], one["documentKey"]["_id"]) for one in events]
    assert kinds == [
        ("insert", 1),
        ("update", 1),
        ("delete", 1),
        ("insert", 2),
        ("replace", 2),
        ("delete", 2),
    ]
    assert entered["fullDocument"] == {"_id": 1, "team": "blue", "x": 3}
    assert "updateDescription" not in entered
    assert updated["updateDescription"]["updatedFields"] == {"x": 4}
    assert left == {"documentKey": {"_id": 1}, "operationType": "delete"}


async def test_stages_see_what_the_reader_is_told(service: Service, by: str) -> None:
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": ROWS})
    async with listen(service, "/notes/_streams/inserts", ADA, by=by) as ada:
        notes(service).insert_one({"_id": 1, "team": "red"})
        notes(service).update_one({"_id": 1}, {"$set": {"team": "blue"}})
        event = await ada.next()
    assert (event["operationType"], event["fullDocument"]["team"]) == ("insert", "blue")


async def test_each_reader_has_its_own_rows_and_variables(service: Service, by: str) -> None:
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": ROWS})
    await allow(service, "path-prefix('/plain')", "user")
    plain = service.mongo[service.db]["plain"]
    for path, collection in (
        ("/notes/_streams/all", notes(service)),
        ("/plain/_streams/mine", plain),
    ):
        async with (
            listen(service, path, ADA, by=by) as ada,
            listen(service, path, BOB, by=by) as bob,
        ):
            collection.insert_many([{"team": "red"}, {"team": "blue"}])
            assert (await ada.next())["fullDocument"]["team"] == "blue"
            assert (await bob.next())["fullDocument"]["team"] == "red"


@pytest.mark.parametrize(
    "shown", [{"secret": 0, "in.secret": 0}, {"_id": 1, "name": 1, "in.open": 1}]
)
async def test_what_a_permission_hides_is_in_no_part_of_an_event(
    service: Service, by: str, shown: Document
) -> None:
    await allow(service, "path-prefix('/notes')", "user", mongo={"projectResponse": shown})
    async with listen(service, "/notes/_streams/all", ADA, by=by) as ada:
        document = {"_id": 1, "name": "n", "secret": "s1", "in": {"secret": "s2", "open": 1}}
        notes(service).insert_one(document)
        change = {"name": "m", "secret": "s3", "in.secret": "s4", "in.open": 2}
        notes(service).update_one({"_id": 1}, {"$set": change})
        notes(service).update_one({"_id": 1}, {"$set": {"in": {"secret": "s5", "open": 3}}})
        notes(service).update_one({"_id": 1}, {"$unset": {"secret": 1, "in.secret": 1}})
        notes(service).delete_one({"_id": 1})
        inserted, changed, *others = await ada.take(5)
    assert inserted["fullDocument"] == {"_id": 1, "name": "n", "in": {"open": 1}}
    assert changed["updateDescription"]["updatedFields"] == {"name": "m", "in.open": 2}
    assert "secret" not in str([inserted, changed, *others])


async def test_a_hidden_id_is_not_told_by_the_id_of_the_event(service: Service, by: str) -> None:
    """The database's token of an event holds the `_id` of its document."""
    mongo = {"projectResponse": {"name": 1}}
    await allow(service, "path-prefix('/notes')", "user", mongo=mongo)
    async with listen(service, "/notes/_streams/all?event-ids=true", ADA, by=by) as ada:
        notes(service).insert_one({"_id": "hidden-one", "name": "n"})
        event = await ada.next()
    assert event.keys() == {"clusterTime", "fullDocument", "documentKey", "operationType"}
    assert (event["fullDocument"], event["documentKey"]) == ({"name": "n"}, {})
    assert not any(ada.ids)


async def test_passwords_are_never_told(service: Service, by: str) -> None:
    await allow(service, "path-prefix('/users')", "user")
    users = service.mongo[service.db]["users"]
    async with listen(service, "/users/_streams/all", ADA, by=by) as ada:
        users.insert_one({"_id": "eve", "password": "hash-1", "roles": []})
        users.update_one({"_id": "eve"}, {"$set": {"password": "hash-2", "x": 1}})
        users.delete_one({"_id": "eve"})
        events = await ada.take(3)
    assert [one["operationType"] for one in events] == ["insert", "update", "delete"]
    assert "hash" not in str(events)
    assert "password" not in str(events)


# --- while a stream is open -----------------------------------------------------------------------


async def test_who_may_no_longer_is_told_so_and_closed(service: Service, by: str) -> None:
    await allow(service, "path-prefix('/notes')", "user")
    async with listen(service, "/notes/_streams/all", ADA, by=by) as ada:
        await remove_rules(service)
        assert await ada.wait_closed() == (1008, "this is no longer allowed")


async def test_who_would_be_told_something_else_is_closed(service: Service, by: str) -> None:
    rule = {"_id": "r", "predicate": "path-prefix('/notes')", "roles": ["user"]}
    await write_rules(service, rule)
    async with listen(service, "/notes/_streams/all", ADA, by=by) as ada:
        await write_rules(service, {**rule, "mongo": {"readFilter": ROWS}})
        assert await ada.wait_closed() == (1008, "the rights have changed, connect again")


async def test_a_changed_definition_closes_its_streams_and_no_others(
    service: Service, by: str
) -> None:
    others = STREAMS[1:]
    async with (
        listen(service, "/plain/_streams/all", ADMIN, by=by) as changed,
        listen(
            service, "/plain/_streams/mine?avars={}", caller("a", "admin", team=1), by=by
        ) as gone,
        listen(service, "/plain/_streams/inserts", ADMIN, by=by) as kept,
    ):
        new = {"uri": "all", "stages": [{"$match": {"operationType": "delete"}}]}
        body = {"streams": [new, others[0]]}
        reply = await service.request("PATCH", "/plain", headers=ADMIN, json=body)
        assert reply.status == 200
        assert await changed.wait_closed() == (4000, "the stream was changed, connect again")
        assert await gone.wait_closed() == (4001, "the stream or its collection no longer exists")
        service.insert("plain", {"_id": "still"})
        assert (await kept.next())["documentKey"] == {"_id": "still"}
    await service.request("PATCH", "/plain", headers=ADMIN, json={"streams": STREAMS})


async def test_stages_compare_texts_alike_with_and_without_a_row_filter(
    service: Service, by: str
) -> None:
    """Row filters follow the collation of the collection, stages compare byte by byte."""
    name = f"collated_{by}"
    words = service.mongo[service.db].create_collection(
        name,
        collation={"locale": "en", "strength": 2},
        changeStreamPreAndPostImages={"enabled": True},
    )
    named = {"$match": {"fullDocument.name": {"$in": ["blue", {"$var": "name"}]}}}
    streams = [{"uri": "named", "stages": [named]}]
    reply = await service.request("PUT", f"/{name}", headers=ADMIN, json={"streams": streams})
    assert reply.status == 200, reply.text
    await allow(service, f"path-prefix('/{name}')", "user", mongo={"readFilter": ROWS})
    path = f"/{name}/_streams/named?avars=%7B%22name%22:%22red%22%7D"
    async with (
        listen(service, path, ADMIN, by=by) as free,
        listen(service, path, ADA, by=by) as restricted,
    ):
        names = ["BLUE", "blue", "RED", "Red", "red"]
        words.insert_many({"_id": n, "name": one, "team": "BLUE"} for n, one in enumerate(names))
        found = [
            [one["fullDocument"]["_id"] for one in await c.take(2)] for c in (free, restricted)
        ]

    assert found == [[1, 4], [1, 4]]
