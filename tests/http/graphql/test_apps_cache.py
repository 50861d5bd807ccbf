"""The app definition cache: loaded at start or at first use, revalidated, invalidated."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from weakref import ref

import pytest
from bson import ObjectId

from docgraph.exchange.errors import StoreError
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.events import (
    AppLoaded,
    AppsRefreshed,
    BackgroundFailed,
)
from docgraph.runtime import Tasks
from tests.databases import new_name
from tests.http.harness import (
    Document,
    Mongo,
    Service,
    build_definition,
    eventually,
    failing,
    listening,
    running,
    until,
)

pytestmark = pytest.mark.anyio

ASK = "{ a: __typename }"
NO_UPDATER = {"graphAppsUpdater": {"enabled": False}}
LAZY = {"graphAppsInitializer": {"enabled": False}, **NO_UPDATER}
NO_HISTORY = {"graphql": {"history-versions": 0}}  # recording versions reads definitions, too
UNCACHED = {"graphql": {"app-cache-enabled": False}}


def app_of(id: str, field: str = "a", **descriptor: Any) -> Document:
    """An app whose `Query` has one field."""
    return build_definition(id, f"type Query {{ {field}: Int }}", **descriptor)


@pytest.fixture
def start(mongo_client: Mongo, mongo_uri: str) -> Any:
    """`async with start(definitions, *settings)`: a service that finds these in its database."""

    @asynccontextmanager
    async def open_with(definitions: list[Document], *settings: Document) -> AsyncIterator[Service]:
        db = new_name()
        if definitions:
            mongo_client[db]["gql-apps"].insert_many(definitions)
        async with running(mongo_client, mongo_uri, NO_HISTORY, *settings, db=db) as service:
            yield service

    return open_with


@contextmanager
def reads_of(service: Service) -> Iterator[list[CommandFinished]]:
    """The commands on the definitions collection."""
    with listening(CommandFinished) as commands:
        mine: list[CommandFinished] = []
        yield mine
        mine += [one for one in commands if one.db == service.db and one.collection == "gql-apps"]


def is_gone(value: ref[Any]) -> bool:
    gc.collect()
    return value() is None


async def status(service: Service, app: str, query: str = ASK) -> int:
    return (await service.query(app, query)).status


async def statuses(service: Service, names: Iterable[str]) -> list[int]:
    return [await status(service, name) for name in names]


# --- loading --------------------------------------------------------------------------------------


async def test_all_apps_are_loaded_at_start_in_one_query(start: Any) -> None:
    """`service.md`, rule 1 of the cache; compiled at their first use."""
    with listening(AppsRefreshed) as refreshed, listening(AppLoaded) as compiled:
        async with start([app_of(f"app{n}") for n in range(50)], NO_UPDATER) as service:
            await eventually(lambda: refreshed)
            with reads_of(service) as reads:
                assert [await status(service, f"app{n}") for n in (0, 49)] == [200, 200]
                assert await status(service, "none") == 404

    assert refreshed[0].served == 50
    assert reads == []
    assert len(compiled) == 2


async def test_parallel_first_requests_of_an_eager_instance_load_once(start: Any) -> None:
    async with start([app_of("a"), app_of("b")], NO_UPDATER) as service:
        with reads_of(service) as reads:
            statuses = await asyncio.gather(*(status(service, "ab"[n % 2]) for n in range(20)))

    assert set(statuses) == {200}
    assert len(reads) <= 1


async def test_without_the_initializer_each_app_is_loaded_at_its_first_request(start: Any) -> None:
    """`service.md`, rule 1 of the cache."""
    async with start([app_of("a"), app_of("b"), app_of("c", uri="x/y")], LAZY) as service:
        with reads_of(service) as first:
            assert await status(service, "a") == 200
        with reads_of(service) as again:
            assert await status(service, "a") == 200
        with reads_of(service) as others:
            assert [await status(service, name) for name in ("b", "x/y", "c")] == [200, 200, 404]

    assert first
    assert again == []
    assert len(others) == 3


async def test_without_the_initializer_parallel_first_requests_load_once(start: Any) -> None:
    async with start([app_of("a")], LAZY) as service:
        assert await status(service, "none") == 404
        with reads_of(service) as reads, listening(AppLoaded) as compiled:
            statuses = await asyncio.gather(*(status(service, "a") for _ in range(30)))

    assert set(statuses) == {200}
    assert (len(reads), len(compiled)) == (1, 1)


async def test_without_the_cache_every_request_reads_the_definition(start: Any) -> None:
    """`service.md`, rule 4 of the cache."""
    async with start([app_of("a")], UNCACHED) as service:
        with reads_of(service) as reads:
            assert [await status(service, "a") for _ in range(3)] == [200] * 3
        service.definitions.update_one({"_id": "a"}, {"$set": {"descriptor.enabled": False}})
        assert await status(service, "a") == 404
        service.definitions.replace_one({"_id": "a"}, app_of("a", "b", uri="/elsewhere/"))
        assert await status(service, "a") == 404
        assert await status(service, "elsewhere", "{ b }") == 200

    assert len(reads) == 3


async def test_without_the_cache_a_bad_definition_answers_its_own_error(start: Any) -> None:
    """Decision 8."""
    bad = {"_id": "bad", "schema": "type", "mappings": {}}
    async with start([bad, app_of("a")], UNCACHED) as service:
        assert await status(service, "bad") == 400
        assert await status(service, "a") == 200


# --- revalidation ---------------------------------------------------------------------------------


async def test_a_round_finds_what_changed_in_two_queries_at_most(start: Any) -> None:
    """`graphAppsUpdater`: whatever the number of apps."""
    async with start([app_of(f"app{n}") for n in range(100)], NO_UPDATER) as service:
        for name in ("app1", "app2", "app3", "new"):
            assert await status(service, name) == (404 if name == "new" else 200)
        service.definitions.replace_one({"_id": "app1"}, app_of("app1", "b"))
        service.definitions.replace_one({"_id": "app2"}, app_of("app2", enabled=False))
        service.definitions.delete_one({"_id": "app3"})
        service.definitions.insert_one(app_of("new"))

        with reads_of(service) as reads:
            await service.apps.revalidate()

        assert len(reads) <= 2
        assert await status(service, "app1", "{ b }") == 200
        assert [await status(service, f"app{n}") for n in (2, 3, 4)] == [404, 404, 200]
        assert await status(service, "new") == 200


async def test_a_round_reads_only_what_has_another_etag(start: Any) -> None:
    definitions = [{**app_of(f"app{n}"), "_etag": ObjectId()} for n in range(20)]
    async with start(definitions, NO_UPDATER) as service:
        assert await status(service, "app1") == 200
        with reads_of(service) as quiet:
            await service.apps.revalidate()
        service.definitions.update_one(
            {"_id": "app1"}, {"$set": {"schema": "type Query { b: Int }", "_etag": ObjectId()}}
        )
        with reads_of(service) as busy:
            await service.apps.revalidate()

        assert (len(quiet), len(busy)) == (1, 2)
        assert await status(service, "app1", "{ b }") == 200


async def test_the_updater_revalidates_every_ttr(start: Any) -> None:
    """`app-cache-ttr`; the change stream is stopped so that only the round can tell."""
    async with start([app_of("a")], {"graphql": {"app-cache-ttr": 200}}) as service:
        tasks: Tasks = service.app._tasks
        await eventually(lambda: tasks.is_running("graphAppsUpdater-watch"))
        await tasks.stop("graphAppsUpdater-watch")
        assert await status(service, "a") == 200
        service.definitions.delete_one({"_id": "a"})

        await until(lambda: status(service, "a"), 404)


async def test_a_change_in_the_database_is_noticed_by_the_change_stream(start: Any) -> None:
    """Decision 44: other instances learn within 2 s."""
    async with start([app_of("a")]) as service:
        await service.app.plugins.find("graphAppsUpdater").follower.wait_open()
        assert await status(service, "a") == 200
        changes: list[tuple[Callable[[], Any], list[int]]] = [
            (lambda: service.definitions.insert_one(app_of("b")), [200, 200]),
            (
                lambda: service.definitions.update_one(
                    {"_id": "a"}, {"$set": {"descriptor.enabled": False}}
                ),
                [404, 200],
            ),
            (lambda: service.definitions.delete_one({"_id": "b"}), [404, 404]),
        ]
        for change, expected in changes:
            change()
            await until(lambda: statuses(service, "ab"), expected)


async def test_a_dropped_collection_serves_nothing_and_its_successor_is_noticed(
    start: Any,
) -> None:
    async with start([app_of("a")]) as service:
        assert await status(service, "a") == 200
        await service.app.plugins.find("graphAppsUpdater").follower.wait_open()
        service.definitions.drop()
        await until(lambda: status(service, "a"), 404)
        service.definitions.insert_one(app_of("b"))
        await until(lambda: status(service, "b"), 200)


# --- failures -------------------------------------------------------------------------------------


async def test_an_error_while_revalidating_never_evicts_a_working_app(
    start: Any, mongo_client: Mongo
) -> None:
    """Drill C07."""
    async with start([app_of("a")], NO_UPDATER) as service:
        assert await status(service, "a") == 200
        with failing(mongo_client, "find", errorCode=11601):
            with pytest.raises(StoreError):
                await service.apps.revalidate()
            service.apps._generations.bump("apps")
            assert await status(service, "a") == 200
        assert await status(service, "a") == 200


async def test_a_write_that_could_not_be_looked_at_is_looked_at_later(
    start: Any, mongo_client: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drill C07: what another worker wrote is not forgotten because the database failed."""
    monkeypatch.setattr("docgraph.graphql.apps.apps._PAUSE", 0.05)
    async with start([app_of("a")], NO_UPDATER) as service:
        assert await status(service, "a") == 200
        service.definitions.delete_one({"_id": "a"})
        service.apps._generations.bump("apps")
        with (
            listening(BackgroundFailed) as failed,
            failing(mongo_client, "find", errorCode=11601),
        ):
            assert await status(service, "a") == 200
        assert {one.task for one in failed} == {"graphql-apps"}
        await until(lambda: status(service, "a"), 404)


async def test_an_app_that_is_written_after_a_failure_is_live_at_once(
    start: Any, mongo_client: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause after a failed look is for what was looked for then, not for what came later."""
    monkeypatch.setattr("docgraph.graphql.apps.apps._PAUSE", 3_600)
    async with start([app_of("a")], NO_UPDATER) as service:
        assert await status(service, "a") == 200
        service.apps._generations.bump("apps")
        with failing(mongo_client, "find", errorCode=11601):
            assert await status(service, "a") == 200
        await service.define("b", "type Query { a: Int }")
        assert await status(service, "b") == 200


async def test_a_first_load_that_fails_is_500_and_recovers(start: Any, mongo_client: Mongo) -> None:
    """Decision 25."""
    async with start([app_of("a")], LAZY) as service:
        with failing(mongo_client, "find", errorCode=11601):
            reply = await service.query("a", ASK)
            assert (reply.status, reply.json["data"]) == (500, None)
        assert await status(service, "a") == 200


# --- the provider ---------------------------------------------------------------------------------

INVALIDATOR = """
from typing import ClassVar
from docgraph import Answer, Body, Exchange, PluginConfig, Service

class Invalidator(Service):
    name: ClassVar[str] = "invalidator"
    uri: ClassVar[str] = "/invalidate"
    methods: ClassVar[tuple[str, ...]] = ("POST",)

    def __init__(self, config: PluginConfig, gql_app_definition_cache) -> None:
        self.cache = gql_app_definition_cache

    async def handle(self, exchange: Exchange) -> Answer:
        name = exchange.request.segments[1]
        if name == "all":
            self.cache.invalidate_all()
        elif name == "get":
            app = await self.cache.get(exchange.request.segments[2])
            return Body(200 if app else 404)
        else:
            self.cache.invalidate(name)
        return Body(204)
"""


@pytest.mark.parametrize("what", ["a", "all"])
@pytest.mark.parametrize("lazy", [False, True])
async def test_a_plugin_invalidates_an_entry_and_the_next_request_reloads_it(
    start: Any, tmp_path: Any, what: str, lazy: bool
) -> None:
    """The provider `gql-app-definition-cache`."""
    (tmp_path / "invalidator.py").write_text(INVALIDATOR)
    plugins = {"core": {"plugins-directory": str(tmp_path)}}
    stored = {**app_of("a"), "_etag": 1}
    settings = LAZY if lazy else NO_UPDATER
    async with start([stored, {**app_of("b"), "_etag": 1}], plugins, settings) as service:
        assert [await status(service, name) for name in "ab"] == [200, 200]
        # the same etag: nothing but the plugin can tell
        service.definitions.replace_one({"_id": "a"}, {**app_of("a", "other"), "_etag": 1})
        await service.apps.revalidate()
        assert await status(service, "a", "{ other }") == 400

        await service.request("POST", f"/invalidate/{what}")

        assert await status(service, "a", "{ other }") == 200
        assert await status(service, "b") == 200
        assert (await service.request("POST", "/invalidate/get/a")).status == 200
        assert (await service.request("POST", "/invalidate/get/none")).status == 404


async def test_compiled_apps_are_bounded(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled at first use, the least recently used go first."""
    monkeypatch.setattr("docgraph.graphql.apps.apps._MAX_COMPILED", 3)
    async with start([app_of(f"app{n}") for n in range(5)], NO_UPDATER) as service:
        with listening(AppLoaded) as compiled:
            for name in ("app0", "app1", "app2", "app3", "app4", "app4", "app0"):
                assert await status(service, name) == 200

    assert Counter(event.app for event in compiled) == {
        "app0": 2,
        "app1": 1,
        "app2": 1,
        "app3": 1,
        "app4": 1,
    }


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["replace", "delete", "disable", "invalidate"])
async def test_an_app_that_is_no_longer_served_is_forgotten_with_its_plans(
    start: Any, way: str
) -> None:
    """Nothing that was compiled of it stays: no schema, no plan."""
    async with start([app_of("a")], NO_UPDATER) as service:
        assert await status(service, "a", "{ a __typename }") == 200
        served = ref(await service.apps.get("a"))

        if way == "replace":
            await service.store(app_of("a", "other"))
        elif way == "delete":
            await service.remove("a")
        elif way == "disable":
            await service.store(app_of("a", enabled=False))
        else:
            service.apps.invalidate("a")
        await status(service, "a")

        await eventually(lambda: is_gone(served))


async def test_an_app_that_is_pushed_out_of_its_cache_is_forgotten_with_its_plans(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docgraph.graphql.apps.apps._MAX_COMPILED", 1)
    async with start([app_of("a"), app_of("b")], NO_UPDATER) as service:
        assert await status(service, "a") == 200
        served = ref(await service.apps.get("a"))

        assert await status(service, "b") == 200

        await eventually(lambda: is_gone(served))
