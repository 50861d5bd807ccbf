"""The stored key of cursors: made once, whoever comes first, and by nobody without the right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute.cursor_keys import KeyRing
from docgraph.graphql.execute.cursors import CursorKeys, Cursors
from docgraph.graphql.sections import Graphql
from docgraph.store import Store, open_store
from docgraph.store.sections import AggregationSecurity, MClient
from tests.databases import drop
from tests.guarded_mongo import GuardedMongo
from tests.http.harness import Mongo

pytestmark = pytest.mark.anyio


SECRET = b"s" * 32


@asynccontextmanager
async def opened(uri: str) -> AsyncIterator[Store]:
    store = open_store(MClient(min_pool_size=0), AggregationSecurity(), connection_string=uri)
    await store.client.admin.command("ping")
    yield store
    await store.close()


def render(keys: CursorKeys) -> str:
    return Cursors.bind(keys, "a").render([1], 1)


async def test_instances_that_begin_together_have_one_key(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    async with opened(mongo_uri) as store:
        rings = [KeyRing(store, Graphql(db=database), SECRET) for _ in range(8)]

        found = await asyncio.gather(*(ring.find() for ring in rings))

    assert len({render(keys) for keys in found}) == 1
    assert mongo_client[database]["_cursorKeys"].count_documents({}) == 1


async def test_a_key_is_read_again_after_a_while(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    stored = mongo_client[database]["_cursorKeys"]
    async with opened(mongo_uri) as store:
        ring = KeyRing(store, Graphql(db=database), SECRET)
        first = await ring.find()
        stored.update_one({}, {"$set": {"keys": [b"x" * 64, "no key", b"short"]}})

        assert await ring.find() is first
        assert render(await ring.find(0.0)) == render(CursorKeys([b"x" * 64]))


async def test_without_the_right_to_store_a_key_there_is_an_error_that_says_so(
    guarded_mongo: GuardedMongo, database: str
) -> None:
    settings = Graphql(db=database)
    try:
        with guarded_mongo.user([{"role": "read", "db": database}]) as user:
            async with opened(guarded_mongo.render_uri(user, "secret")) as store:
                with pytest.raises(
                    FieldFailure, match=r"set the option graphql\.cursor-key"
                ) as one:
                    await KeyRing(store, settings, SECRET).find()
                assert one.value.code == "no-cursor-key"
                configured = Graphql(db=database, cursor_key="k" * 32)
                assert render(await KeyRing(store, configured, SECRET).find())
                key = {"_id": "cursors", "keys": [b"x" * 64]}
                guarded_mongo.admin[database]["_cursorKeys"].insert_one(key)
                assert render(await KeyRing(store, settings, SECRET).find())
    finally:
        drop(guarded_mongo.admin, database)


def test_drafts_have_a_key_that_only_the_workers_of_an_instance_share() -> None:
    store = cast(Store, None)  # nothing is read or stored
    one, two = (KeyRing(store, Graphql(cursor_key="k" * 32), SECRET) for _ in range(2))
    other = KeyRing(store, Graphql(cursor_key="k" * 32), b"o" * 32)

    assert render(one.of_drafts) == render(two.of_drafts) != render(other.of_drafts)
