"""Versions of definitions: each once, with its author, bounded, whoever writes and whoever sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from docgraph.exchange import Write, WriteKind
from docgraph.graphql.apps.history import DATABASE, History, Version, VersionChange, find_excess
from docgraph.graphql.sections import Graphql
from docgraph.observe.events import BackgroundFailed
from tests.expect import present
from tests.http.access_harness import ADMIN, allow, caller, guarded
from tests.http.harness import (
    Document,
    Mongo,
    Service,
    build_definition,
    eventually,
    failing,
    identity,
    listening,
    running,
)
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

NOT_ALLOWED = 13  # the code for a missing right


def build(name: str, *fields: str) -> Document:
    schema = "type Query { " + " ".join(f"{field}: Int" for field in fields or ("a",)) + " }"
    return build_definition(name, schema)


def versions(service: Service, app: Any) -> list[Document]:
    """The stored versions of an app."""
    stored = service.mongo[service.db]["_appHistory"]
    return list(stored.find({"app": app}, sort=[("_id", 1)]))


def told(service: Service, app: Any) -> list[tuple[int, str, str]]:
    return [(one["_id"]["n"], one["change"], one["by"]) for one in versions(service, app)]


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        await allow(one, "path-prefix('/gql-apps')", "author")
        assert (await one.request("PUT", "/gql-apps", headers=ADMIN)).status == 201
        yield one


async def put(service: Service, document: Document, who: dict[str, str] = ADMIN) -> None:
    body = {key: value for key, value in document.items() if key != "_id"}
    path = f"/gql-apps/{document['_id']}?wm=upsert"
    reply = await service.request("PUT", path, json=body, headers=who)
    assert reply.status in (200, 201), reply.text


# --- who, when, what ------------------------------------------------------------------------------


async def test_writes_are_versions_with_their_authors(service: Service) -> None:
    author = caller("ann", "admin")
    before = datetime.now(UTC) - timedelta(minutes=5)
    await put(service, build("kept"))
    await put(service, build("kept", "a", "b"), author)
    reply = await service.request("DELETE", "/gql-apps/kept", headers=author)
    assert reply.status == 204

    assert told(service, "kept") == [
        (1, "created", "root"),
        (2, "changed", "ann"),
        (3, "deleted", "ann"),
    ]
    first, _, last = versions(service, "kept")
    assert before < first["at"].replace(tzinfo=UTC) < datetime.now(UTC) + timedelta(minutes=5)
    assert last["text"] is None


async def test_a_write_that_changes_nothing_is_no_version(service: Service) -> None:
    for _ in range(2):
        await put(service, build("same"))
    assert told(service, "same") == [(1, "created", "root")]


async def test_a_version_gives_the_definition_back_as_it_was_written(service: Service) -> None:
    definition = build("exact", "a")
    definition["mappings"]["Query"]["a"]["find"] = {"x.y": {"$arg": ["n", {"$exists": True}]}}
    definition["mappings"]["Query"]["a"]["sort"] = {"b": -1, "a": 1}
    definition["schema"] = "type Query { a(n: Int): Int }"
    await put(service, definition)

    history = History(service.app.store, settings(service))
    (version,) = await service.there(history.list_of("str:exact"))
    assert version.definition == definition
    assert list(version.definition["mappings"]["Query"]["a"]["sort"]) == ["b", "a"]


def settings(service: Service, **others: Any) -> Graphql:
    return Graphql(db=service.db, **others)


async def test_the_root_role_reads_versions_and_their_difference_over_http(
    service: Service,
) -> None:
    async def ask(who: dict[str, str] = ADMIN, **members: Any) -> tuple[int, Any]:
        reply = await service.request("POST", "/_tools/history", json=members, headers=who)
        return reply.status, reply.json

    ann, author = caller("ann", "admin"), caller("bob", "author")
    await put(service, build("told", "a", "b"))
    await put(service, build("told", "a"), ann)
    await service.request("DELETE", "/gql-apps/told", headers=ann)
    _, content = await ask(app="told")
    rows = content["versions"]
    assert [(one["version"], one["by"], one["change"], one["breaking"]) for one in rows] == [
        (1, "root", "created", 0),
        (2, "ann", "changed", 1),
        (3, "ann", "deleted", 1),
    ]
    assert rows[1]["parts"] == ["schema"]
    assert rows[1]["at"].endswith("Z")

    status, content = await ask(app="told", version=1)
    assert (status, content) == (200, {"definition": build("told", "a", "b")})
    _, content = await ask(app="told", version=2, since=1)
    assert (content["change"], content["breaking"]) == ("changed", 1)
    assert "told/schema (version 1)" in content["diff"]
    assert [(await ask(app="told", version=number))[0] for number in (3, 4)] == [404, 404]
    assert await ask(app="nothing") == (200, {"versions": []})
    assert (await ask())[0] == 400
    # A secret of a former version may have been taken out for exactly this reader.
    await allow(service, "path-prefix('/_tools')", "author")
    assert (await ask(author, app="told"))[0] == 403


async def test_definitions_written_into_the_database_are_versions_when_they_are_seen(
    service: Service,
) -> None:
    await service.smuggle(build("smuggled"))
    await eventually(lambda: told(service, "smuggled") == [(1, "created", DATABASE)])
    await service.smuggle(build("smuggled", "b"))
    await eventually(lambda: len(versions(service, "smuggled")) == 2)
    await service.smuggle(build("smuggled"))
    await eventually(lambda: len(versions(service, "smuggled")) == 3)
    service.definitions.delete_one({"_id": "smuggled"})
    await service.there(service.apps.revalidate())
    await eventually(lambda: told(service, "smuggled")[-1] == (4, "deleted", DATABASE))


async def test_what_a_write_overwrites_is_a_version_though_nobody_has_seen_it(
    service: Service,
) -> None:
    """A command works where no instance runs."""
    history = History(service.app.store, settings(service))
    service.definitions.insert_one(build("unseen"))
    await put(service, build("unseen", "b"))
    assert [one[1:] for one in told(service, "unseen")] == [
        ("created", DATABASE),
        ("changed", "root"),
    ]
    assert present(await service.there(history.find_head("str:unseen"))).number == 2


async def test_an_author_signs_what_an_instance_has_seen_first(service: Service) -> None:
    history = History(service.app.store, settings(service))
    service.definitions.insert_one({**build("signed"), "_etag": "e1"})
    await service.there(history.record("signed"))
    assert told(service, "signed") == [(1, "created", DATABASE)]
    await service.there(history.record("signed", "eve", {"another"}))
    assert told(service, "signed") == [(1, "created", DATABASE)]
    await service.there(history.record("signed", "ann", {"e1"}))
    assert told(service, "signed") == [(1, "created", "ann")]


async def test_each_version_is_recorded_once_by_many_who_see_it_at_the_same_time(
    service: Service,
) -> None:
    many = [History(service.app.store, settings(service)) for _ in range(8)]
    service.definitions.insert_one(build("crowded"))

    async def record_all() -> None:
        await asyncio.gather(*(one.record("crowded") for one in many))

    await service.there(record_all())
    assert len(versions(service, "crowded")) == 1
    service.definitions.replace_one({"_id": "crowded"}, build("crowded", "b"))
    await service.there(record_all())
    assert len(versions(service, "crowded")) == 2


async def test_many_apps_are_recorded_together_once_each(service: Service) -> None:
    many = [History(service.app.store, settings(service)) for _ in range(4)]
    names = [f"together{number}" for number in range(24)]  # more than one portion

    async def record_all() -> None:
        await asyncio.gather(*(one.record_all(names, "ann", {"e1"}) for one in many))

    service.definitions.insert_many([{**build(name), "_etag": "e1"} for name in names])
    await service.there(record_all())
    assert [told(service, name) for name in names] == [[(1, "created", "ann")]] * len(names)
    for name in names[::2]:
        service.definitions.replace_one({"_id": name}, {**build(name, "b"), "_etag": "e1"})
    await service.there(record_all())
    assert [len(versions(service, name)) for name in names] == [2, 1] * 12
    service.definitions.delete_many({"_id": {"$in": names[:9]}})
    await service.there(many[0].record_all(names[:9], "bob"))
    assert {told(service, name)[-1][1:] for name in names[:9]} == {("deleted", "bob")}
    await service.there(many[0].record_all(names[9:], "eve", {"another"}))
    assert {told(service, name)[-1][2] for name in names[9:]} == {"ann"}


async def test_versions_are_neither_apps_nor_for_callers(service: Service) -> None:
    await put(service, build("private"))
    for who in (ADMIN, caller("ann", "author")):
        for path in ("/_appHistory", "/_appHistory/x", "/_apphistory"):
            reply = await service.request("GET", path, headers=who)
            assert reply.status in (403, 404), (path, reply.status)
    assert "_appHistory" not in (await service.request("GET", "/", headers=ADMIN)).text
    definition = build("thief")
    definition["mappings"]["Query"]["a"] |= {"db": service.db, "collection": "_appHistory"}
    reply = await service.request("PUT", "/gql-apps/thief", json=definition, headers=ADMIN)
    assert reply.status in (400, 403)


# --- bounds ---------------------------------------------------------------------------------------


def version(key: str, number: int, size: int = 1, change: str = "changed") -> Version:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    return Version(key, number, key, at, "ann", change, "d", None, size)


def gone(stored: list[Version], most: int, size: int) -> list[tuple[str, int]]:
    return [(one.key, one.number) for one in find_excess(stored, most, size)]


def test_the_oldest_versions_of_an_app_go_when_there_are_too_many() -> None:
    stored = [version("a", number) for number in range(1, 6)] + [version("b", 1)]
    assert gone(stored, 3, 100) == [("a", 1), ("a", 2)]
    assert gone(stored, 5, 100) == []


def test_the_oldest_versions_of_all_go_when_they_are_too_large() -> None:
    stored = [version("a", 1, 40), version("a", 4, 40), version("b", 2, 40), version("b", 3, 40)]
    assert gone(stored, 9, 160) == []
    assert gone(stored, 9, 120) == [("a", 1)]
    assert gone(stored, 9, 1) == [("a", 1), ("b", 2)]  # the latest of apps that are there stay


def test_of_a_deleted_app_nothing_has_to_stay() -> None:
    stored = [version("a", 1, 40), version("a", 2, 40, VersionChange.DELETED), version("b", 3, 40)]
    assert gone(stored, 9, 50) == [("a", 1), ("a", 2)]


async def test_bounds_hold_after_every_write_and_a_large_definition_is_noted_without_its_text(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    own = {"graphql": {"history-versions": 2, "history-size": 2_000}}
    async with running(mongo_client, mongo_uri, own, identity("admin")) as service:
        for number in range(4):
            await service.store(build("bounded", f"a{number}"))
        assert [one["_id"]["n"] for one in versions(service, "bounded")] == [3, 4]
        await service.store(build("large", *(f"field{number}" for number in range(300))))
        (only,) = versions(service, "large")
        assert only["text"] is None
        assert sum(one["size"] for one in versions(service, "bounded")) <= 2_000


# --- nothing breaks -------------------------------------------------------------------------------


@asynccontextmanager
async def open_app(mongo: Mongo, uri: str, **options: Any) -> AsyncIterator[Service]:
    async with running(mongo, uri, {"graphql": options}) as service:
        yield service


async def test_without_history_nothing_is_recorded(mongo_client: Mongo, mongo_uri: str) -> None:
    async with open_app(mongo_client, mongo_uri, **{"history-versions": 0}) as service:
        await service.store(build("off"))
        await service.smuggle(build("off", "b"))
        assert "_appHistory" not in service.mongo[service.db].list_collection_names()


async def test_a_database_that_refuses_history_keeps_apps_from_nothing_and_is_told_once(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with open_app(mongo_client, mongo_uri) as service:
        with listening(BackgroundFailed) as failed:
            place = f"{service.db}._appHistory"
            options = {"errorCode": NOT_ALLOWED, "namespace": place}
            with failing(service.mongo, "find", "insert", **options):
                for number in range(3):
                    await service.store(build("served", f"a{number}"))
                assert (await service.query("served", "{ a2 }")).data == {"a2": None}
            tasks = [one.task for one in failed]
        assert tasks.count("graphAppsHistory") in (1, 2)  # the writer, and the one who looks
        await service.store(build("served", "z"))
        assert told(service, "served")[-1][1:] == ("changed", "(docgraph)")


async def test_without_a_cache_the_database_is_looked_at_now_and_then(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    own = {"app-cache-enabled": False, "app-cache-ttr": 100}
    async with open_app(mongo_client, mongo_uri, **own) as service:
        service.definitions.insert_one(build("polled"))
        await eventually(lambda: told(service, "polled") == [(1, "created", DATABASE)])


async def test_an_app_that_was_there_before_the_start_is_recorded_and_a_drop_is_its_end(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    mongo_client[database]["gql-apps"].insert_one(build("old"))
    async with running(mongo_client, mongo_uri, db=database) as service:
        await eventually(lambda: told(service, "old") == [(1, "created", DATABASE)])
        await service.write("gql-apps", Write(WriteKind.DELETE, many=True))
        await eventually(lambda: told(service, "old")[-1][1] == "deleted")
