"""Cached answers: what is stored, for whom, and when it is dropped (52)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.exchange import Write, WriteKind
from docgraph.observe.engine_events import CacheDropped, CacheUsed
from tests.http.cache_harness import (
    CACHE,
    FIRST,
    HIT,
    MISS,
    PATIENT,
    STORED,
    ask_until,
    ask_until_hit,
    find_graphql,
    status_of,
)
from tests.http.harness import (
    Document,
    Mongo,
    Service,
    identity,
    listening,
    listening_to_fields,
    running,
)

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query {
  items(shop: Int): [Item]
  first(shop: Int): [Item]
  item(id: Int): Item
  size(shop: Int): Int
  moment: [Item]
}
type Item { _id: Int name: String shop: Int maker: Maker broken: Int }
type Maker { name: String }
"""
ITEMS = "query ($s: Int) { items(shop: $s) { _id name maker { name } } }"


def mappings(service: Service) -> Document:
    of_shop = {"shop": {"$arg": "shop"}}
    items = service.find("items", of_shop, sort={"_id": 1})
    return {
        "Query": {
            "items": items,
            "first": {**items, "limit": 2},
            "item": service.find("items", {"_id": {"$arg": "id"}}),
            "size": service.find("items", of_shop, count=True),
            "moment": service.find("items", {"made": {"$lt": {"$arg": "@now"}}}),
        },
        "Item": {"maker": service.find("makers", {"_id": {"$fk": "by"}})},
    }


async def prepare(service: Service, **descriptor: Any) -> None:
    service.insert(
        "items",
        {"_id": 1, "name": "tea", "shop": 1, "by": 1},
        {"_id": 2, "name": "jam", "shop": 1, "by": 2},
        {"_id": 3, "name": "ink", "shop": 2, "by": 1, "broken": "text"},
    )
    service.insert("makers", {"_id": 1, "name": "Ada"}, {"_id": 2, "name": "Bob"})
    await define(service, **descriptor)


async def define(service: Service, **descriptor: Any) -> None:
    await service.define("shop", SCHEMA, mappings(service), **{**CACHE, **descriptor})


@pytest.fixture
async def shop(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, PATIENT, identity("admin")) as service:
        await prepare(service)
        yield service


def shown(*names: tuple[int, str, str]) -> Document:
    return {"items": [{"_id": id, "name": name, "maker": {"name": by}} for id, name, by in names]}


BEFORE = shown((1, "tea", "Ada"), (2, "jam", "Bob"))


# --- hits -----------------------------------------------------------------------------------------


async def test_an_equal_query_sends_no_command(shop: Service) -> None:
    first = await ask_until_hit(shop, "shop", ITEMS, {"s": 1})
    with listening_to_fields() as commands:
        second = await shop.query("shop", ITEMS, {"s": 1})
    assert second.data == first.data == BEFORE
    assert status_of(second) == HIT
    assert int(second.headers["age"]) >= 0
    assert not commands
    assert second.headers["content-type"] == "application/graphql-response+json; charset=utf-8"


async def test_apps_without_the_option_are_not_cached(shop: Service) -> None:
    await shop.define("plain", "type Query { all: [Int] }", None)
    await define(shop, cache={"enabled": False})
    with listening(CacheUsed) as used:
        for _ in range(3):
            reply = await shop.query("shop", ITEMS, {"s": 1})
    assert reply.data == BEFORE
    assert "cache-status" not in reply.headers
    assert not used


async def test_answers_may_not_be_stored_elsewhere(shop: Service) -> None:
    first = await shop.query("shop", ITEMS, {"s": 1})
    hit = await ask_until_hit(shop, "shop", ITEMS, {"s": 1})
    assert first.headers["cache-control"] == hit.headers["cache-control"] == "private, no-store"


async def test_a_caller_can_bypass_the_cache(shop: Service) -> None:
    await ask_until_hit(shop, "shop", ITEMS, {"s": 1})
    with listening_to_fields() as commands:
        reply = await shop.query(
            "shop", ITEMS, {"s": 1}, headers={"Cache-Control": "max-age=0, No-Cache"}
        )
    assert status_of(reply) == "docgraph; fwd=request"
    assert len(commands) == 2
    assert status_of(await shop.query("shop", ITEMS, {"s": 1})) == HIT


# --- the key --------------------------------------------------------------------------------------


async def test_variables_names_and_texts_are_part_of_the_key(shop: Service) -> None:
    await ask_until_hit(shop, "shop", ITEMS, {"s": 1})
    assert (await shop.query("shop", ITEMS, {"s": 2})).data == shown((3, "ink", "Ada"))
    assert (await shop.query("shop", ITEMS, {"s": None})).data == {"items": []}
    both = "query A { items(shop: 1) { _id } } query B { items(shop: 2) { _id } }"
    for _ in range(2):
        one = await shop.query("shop", both, operation="A")
        two = await shop.query("shop", both, operation="B")
        assert one.data == {"items": [{"_id": 1}, {"_id": 2}]}
        assert two.data == {"items": [{"_id": 3}]}


async def test_a_changed_definition_is_another_key(shop: Service) -> None:
    await ask_until_hit(shop, "shop", "{ item(id: 1) { name } }")
    changed = mappings(shop)
    changed["Query"]["item"] = shop.find("makers", {"_id": {"$arg": "id"}})
    await shop.define("shop", SCHEMA, changed, **CACHE)
    assert (await shop.query("shop", "{ item(id: 1) { name } }")).data == {"item": {"name": "Ada"}}


# --- what is not stored ---------------------------------------------------------------------------


async def test_partial_answers_and_errors_are_not_stored(shop: Service) -> None:
    await ask_until_hit(shop, "shop", ITEMS, {"s": 2})
    partial = "{ items(shop: 2) { _id broken } }"
    replies = [await shop.query("shop", partial) for _ in range(4)]
    assert [status_of(one) for one in replies] == [FIRST, MISS, FIRST, MISS]
    assert all(one.errors for one in replies)
    for _ in range(2):
        assert (await shop.query("shop", "{ nothing }")).status == 400


async def test_what_depends_on_the_moment_is_not_cached(shop: Service) -> None:
    await ask_until_hit(shop, "shop", ITEMS, {"s": 2})
    for _ in range(3):
        reply = await shop.query("shop", "{ moment { _id } }")
        assert status_of(reply) == "docgraph; fwd=bypass; detail=untrackable"


async def test_reports_of_limits_are_not_cached(shop: Service) -> None:
    await ask_until_hit(shop, "shop", "{ first(shop: 1) { _id } }")
    body = {"query": "{ first(shop: 1) { _id } }", "extensions": {"limits": True}}
    reply = await shop.request("POST", "/graphql/shop", json=body)
    assert status_of(reply) == "docgraph; fwd=bypass; detail=extensions"


async def test_introspection_is_not_cached(shop: Service) -> None:
    reply = await shop.query("shop", "{ __typename }")
    assert status_of(reply) == "docgraph; fwd=bypass; detail=no-data"


async def test_a_size_of_0_turns_the_cache_off(mongo_client: Mongo, mongo_uri: str) -> None:
    off: Document = {"graphql": {"cache": {"max-bytes": 0}}}
    async with running(mongo_client, mongo_uri, off, identity("admin")) as service:
        await prepare(service)
        for _ in range(2):
            reply = await service.query("shop", ITEMS, {"s": 1})
            assert status_of(reply) == "docgraph; fwd=bypass; detail=disabled"


async def test_the_least_recently_used_answers_are_dropped(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    small: Document = {"graphql": {"cache": {"max-lag-ms": 60_000, "max-bytes": 100_000}}}
    async with running(mongo_client, mongo_uri, small, identity("admin")) as service:
        await prepare(service)
        await ask_until_hit(service, "shop", ITEMS, {"s": 1})
        answers = find_graphql(service)._cache.answers
        with listening(CacheDropped) as dropped:
            for number in range(100, 160):
                for _ in range(2):
                    await service.query("shop", ITEMS, {"s": number})
                assert status_of(await service.query("shop", ITEMS, {"s": 1})) == HIT
                assert answers.bytes <= 100_000
        assert {one.reason for one in dropped} == {"evicted"}
        assert status_of(await service.query("shop", ITEMS, {"s": 100})) == FIRST
        assert status_of(await service.query("shop", ITEMS, {"s": 159})) == HIT


# --- admission ------------------------------------------------------------------------------------


async def test_an_answer_is_stored_at_its_second_miss(shop: Service) -> None:
    await ask_until_hit(shop, "shop", ITEMS, {"s": 1})
    with listening(CacheUsed) as used:
        replies = [await shop.query("shop", ITEMS, {"s": 2}) for _ in range(3)]
    assert [status_of(one) for one in replies] == [FIRST, STORED, HIT]
    assert [(one.result, one.reason) for one in used] == [
        ("miss", "first"),
        ("miss", ""),
        ("hit", ""),
    ]
    assert {one.text for one in replies} == {replies[0].text}


async def test_a_request_that_is_sent_once_is_not_stored(shop: Service) -> None:
    await ask_until_hit(shop, "shop", ITEMS, {"s": 1})
    answers = find_graphql(shop)._cache.answers
    before = len(answers)
    for number in range(100, 150):
        assert status_of(await shop.query("shop", ITEMS, {"s": number})) == FIRST
    assert len(answers) == before


async def test_an_answer_that_was_used_is_stored_again_after_a_change(shop: Service) -> None:
    await ask_until_hit(shop, "shop", ITEMS, {"s": 2})
    write = Write(WriteKind.UPDATE, filter={"_id": 3}, update={"$set": {"name": "pen"}})
    await shop.write("items", write)
    reply = await shop.query("shop", ITEMS, {"s": 2})
    assert reply.data == shown((3, "pen", "Ada"))
    assert status_of(reply) in {STORED, MISS}  # a change that arrives late: it is not stored


async def test_one_that_was_not_used_is_missed_twice_again(shop: Service) -> None:
    await ask_until_hit(shop, "shop", ITEMS, {"s": 1})
    replies = [await shop.query("shop", ITEMS, {"s": 2}) for _ in range(2)]
    assert [status_of(one) for one in replies] == [FIRST, STORED]
    await shop.write("items", Write(WriteKind.DELETE, filter={"_id": 3}))
    assert status_of(await shop.query("shop", ITEMS, {"s": 2})) == FIRST


# --- changes --------------------------------------------------------------------------------------


CHANGES: dict[str, tuple[Any, Document]] = {
    "insert": (
        lambda db: db.items.insert_one({"_id": 0, "name": "cup", "shop": 1, "by": 1}),
        shown((0, "cup", "Ada"), (1, "tea", "Ada"), (2, "jam", "Bob")),
    ),
    "update": (
        lambda db: db.items.update_one({"_id": 2}, {"$set": {"name": "fig"}}),
        shown((1, "tea", "Ada"), (2, "fig", "Bob")),
    ),
    "replace": (
        lambda db: db.items.replace_one({"_id": 2}, {"name": "fig", "shop": 1, "by": 1}),
        shown((1, "tea", "Ada"), (2, "fig", "Ada")),
    ),
    "delete": (lambda db: db.items.delete_one({"_id": 1}), shown((2, "jam", "Bob"))),
    "out": (
        lambda db: db.items.update_one({"_id": 1}, {"$set": {"shop": 7}}),
        shown((2, "jam", "Bob")),
    ),
    "in": (
        lambda db: db.items.update_one({"_id": 3}, {"$set": {"shop": 1}}),
        shown((1, "tea", "Ada"), (2, "jam", "Bob"), (3, "ink", "Ada")),
    ),
    "relation": (
        lambda db: db.makers.update_one({"_id": 2}, {"$set": {"name": "Eve"}}),
        shown((1, "tea", "Ada"), (2, "jam", "Eve")),
    ),
    "drop": (lambda db: db.items.drop(), {"items": []}),
    "rename": (lambda db: db.items.rename("gone"), {"items": []}),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_by_another_program_is_noticed(shop: Service, name: str) -> None:
    change, after = CHANGES[name]
    assert (await ask_until_hit(shop, "shop", ITEMS, {"s": 1})).data == BEFORE
    await asyncio.to_thread(change, shop.mongo[shop.db])
    await ask_until(shop, "shop", ITEMS, after, {"s": 1})
    if name not in {"drop", "rename"}:  # a collection that does not exist is not followed
        assert (await ask_until_hit(shop, "shop", ITEMS, {"s": 1})).data == after


async def test_a_change_of_another_key_keeps_the_answer(shop: Service) -> None:
    await ask_until_hit(shop, "shop", ITEMS, {"s": 1})
    await ask_until_hit(shop, "shop", ITEMS, {"s": 2})
    with listening(CacheDropped) as dropped:
        update = {"$set": {"name": "pen"}}
        await asyncio.to_thread(shop.mongo[shop.db].items.update_one, {"_id": 3}, update)
        await ask_until(shop, "shop", ITEMS, shown((3, "pen", "Ada")), {"s": 2})
    assert [one.reason for one in dropped] == ["changed"]
    assert status_of(await shop.query("shop", ITEMS, {"s": 1})) == HIT


async def test_a_limit_that_was_reached_depends_on_every_deletion(shop: Service) -> None:
    query = "{ first(shop: 1) { _id } }"
    items = shop.mongo[shop.db].items
    items.insert_many([{"_id": 10, "shop": 1}, {"_id": 11, "shop": 1}])
    await ask_until(shop, "shop", query, {"first": [{"_id": 1}, {"_id": 2}]})
    await ask_until_hit(shop, "shop", query)
    await asyncio.to_thread(items.delete_one, {"_id": 1})
    await ask_until(shop, "shop", query, {"first": [{"_id": 2}, {"_id": 10}]})


async def test_a_count_depends_on_every_deletion(shop: Service) -> None:
    await ask_until_hit(shop, "shop", "{ size(shop: 1) }")
    await asyncio.to_thread(shop.mongo[shop.db].items.delete_one, {"_id": 2})
    await ask_until(shop, "shop", "{ size(shop: 1) }", {"size": 1})


async def test_a_view_depends_on_its_definition_and_on_what_it_reads(shop: Service) -> None:
    db = shop.mongo[shop.db]
    db.command({"create": "cheap", "viewOn": "items", "pipeline": [{"$match": {"shop": 1}}]})
    db.command({"create": "named", "viewOn": "cheap", "pipeline": []})
    schema = "type Query { named: [Item] } type Item { _id: Int }"
    mapped = {"Query": {"named": shop.find("named", {}, sort={"_id": 1})}}
    await shop.define("views", schema, mapped, **CACHE)
    query = "{ named { _id } }"
    hit = await ask_until_hit(shop, "views", query)
    assert hit.data == {"named": [{"_id": 1}, {"_id": 2}]}
    await asyncio.to_thread(db.items.delete_one, {"_id": 1})
    await ask_until(shop, "views", query, {"named": [{"_id": 2}]})
    await ask_until_hit(shop, "views", query)
    changed = {"collMod": "cheap", "viewOn": "items", "pipeline": [{"$match": {"shop": 2}}]}
    await asyncio.to_thread(db.command, changed)
    await ask_until(shop, "views", query, {"named": [{"_id": 3}]})
    await ask_until_hit(shop, "views", query)
    await asyncio.to_thread(db.cheap.drop)
    await ask_until(shop, "views", query, {"named": []})


# --- own writes -----------------------------------------------------------------------------------


async def test_a_client_reads_its_own_writes(shop: Service) -> None:
    for number in range(30):
        write = Write(
            WriteKind.UPDATE, filter={"_id": 2}, update={"$set": {"name": f"jam {number}"}}
        )
        await shop.write("items", write)
        reply = await shop.query("shop", ITEMS, {"s": 1})
        assert reply.data == shown((1, "tea", "Ada"), (2, f"jam {number}", "Bob"))
        if number % 3 == 0:
            await ask_until_hit(shop, "shop", ITEMS, {"s": 1})


async def test_a_deleted_collection_is_an_own_write(shop: Service) -> None:
    await ask_until_hit(shop, "shop", ITEMS, {"s": 1})
    await shop.write("items", Write(WriteKind.DROP))
    assert (await shop.query("shop", ITEMS, {"s": 1})).data == {"items": []}
