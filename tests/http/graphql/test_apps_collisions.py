"""Definitions that claim the same uri, written past the unique index: decision 5 in every mode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from docgraph.graphql.apps.app_plugins import AppsInitializer
from docgraph.observe.events import AppInvalid
from tests.databases import new_name
from tests.http.harness import (
    Document,
    Mongo,
    Service,
    build_definition,
    listening,
    running,
)

pytestmark = pytest.mark.anyio

NO_UPDATER = {"graphAppsUpdater": {"enabled": False}}
MODES = {
    "eager": NO_UPDATER,
    "lazy": {"graphAppsInitializer": {"enabled": False}, **NO_UPDATER},
    "uncached": {"graphql": {"app-cache-enabled": False}},
}
each_mode = pytest.mark.parametrize("mode", MODES)


def app_of(id: Any, field: str, uri: str) -> Document:
    """An app whose `Query` has one field."""
    return build_definition(id, f"type Query {{ {field}: Int }}", uri=uri)


@asynccontextmanager
async def finding(
    mongo: Mongo, uri: str, stored: list[Document], settings: Document
) -> AsyncIterator[Service]:
    """A service that finds these definitions in its database when it starts."""
    db = new_name()
    mongo[db]["gql-apps"].insert_many(stored)
    async with running(mongo, uri, settings, db=db) as service:
        yield service


async def status(service: Service, uri: str, query: str = "{ __typename }") -> int:
    return (await service.query(uri, query)).status


@each_mode
async def test_the_lowest_id_wins_and_the_log_names_the_other_once(
    mongo_client: Mongo, mongo_uri: str, mode: str
) -> None:
    with listening(AppInvalid) as told:
        stored = [app_of(10, "ten", "x"), app_of(9, "nine", "x")]
        async with finding(mongo_client, mongo_uri, stored, MODES[mode]) as service:
            for _ in range(3):
                assert await status(service, "x", "{ nine }") == 200
            await service.apps.revalidate()

    assert [event.app for event in told] == ["10"]


@each_mode
async def test_an_app_whose_uri_is_the_id_of_a_lower_one_answers_its_own_error(
    mongo_client: Mongo, mongo_uri: str, mode: str
) -> None:
    with listening(AppInvalid) as told:
        stored = [app_of("a", "one", "x"), app_of("b", "two", "a")]
        async with finding(mongo_client, mongo_uri, stored, MODES[mode]) as service:
            for _ in range(2):
                assert await status(service, "a", "{ two }") == 400
            assert await status(service, "x", "{ one }") == 200

    assert [event.app for event in told] == ["b"]


@each_mode
async def test_a_collision_that_comes_back_is_told_again(
    mongo_client: Mongo, mongo_uri: str, mode: str
) -> None:
    low, high = app_of(9, "nine", "x"), app_of(10, "ten", "x")
    elsewhere = app_of(9, "nine", "y")
    with listening(AppInvalid) as told:
        async with finding(mongo_client, mongo_uri, [high, low], MODES[mode]) as service:
            assert await status(service, "x") == 200
            for changed in (elsewhere, low):
                service.definitions.replace_one({"_id": 9}, changed)
                await service.apps.revalidate()
                assert await status(service, "x") == 200

    assert [event.app for event in told] == ["10", "10"]


async def test_a_round_before_the_first_load_finds_every_definition(
    mongo_client: Mongo, mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever revalidates is not told less because the initializer has not had its turn yet."""
    may_load = asyncio.Event()
    initialize = AppsInitializer.initialize

    async def wait_and_initialize(initializer: AppsInitializer) -> None:
        await may_load.wait()
        await initialize(initializer)

    monkeypatch.setattr(AppsInitializer, "initialize", wait_and_initialize)
    async with running(mongo_client, mongo_uri, NO_UPDATER, ready=False) as service:
        with listening(AppInvalid) as told:
            await service.smuggle(app_of(10, "ten", "x"), app_of(9, "nine", "x"))
        may_load.set()

    assert [event.app for event in told] == ["10"]


async def test_a_collision_that_a_change_brings_is_told_at_once(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """What the change stream tells of is no less than what a round finds, hours later perhaps."""
    async with running(mongo_client, mongo_uri, NO_UPDATER) as service:
        await service.smuggle(app_of(10, "ten", "x"))
        service.definitions.insert_one(app_of(9, "nine", "x"))
        with listening(AppInvalid) as told:
            await service.apps.refresh([9])

    assert [event.app for event in told] == ["10"]
