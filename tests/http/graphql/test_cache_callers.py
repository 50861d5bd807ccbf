"""Cached answers and callers: no one gets what only others may read, or learns what they asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from docgraph.exchange import Write, WriteKind
from docgraph.observe.engine_events import CacheUsed
from tests.http.access_harness import ADA, ADMIN, BOB, allow, caller, guarded, remove_rules
from tests.http.cache_harness import CACHE, HIT, ask_until_hit, status_of
from tests.http.harness import Document, Mongo, Service, listening

pytestmark = pytest.mark.anyio

EVE = caller("eve", "guest", team="blue")
ZOE = caller("zoe", "user", team="blue")
SHOWN: Document = {"graphql": {"cache": {"max-lag-ms": 60_000}, "explain": ["user", "guest"]}}
SCHEMA = """
type Query { notes: [Note] mine: [Note] }
type Note { _id: Int text: String secret: String @visible(roles: ["user"]) }
"""
NOTES, MINE = "{ notes { _id } }", "{ mine { _id } }"


@pytest.fixture
async def notes(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, SHOWN) as service:
        service.insert(
            "notes",
            {"_id": 1, "team": "blue", "by": "ada", "text": "a", "secret": "x"},
            {"_id": 2, "team": "red", "by": "bob", "text": "b", "secret": "y"},
            {"_id": 3, "team": "blue", "by": "zoe", "text": "c", "secret": "z"},
        )
        mine = service.find("notes", {"by": {"$arg": "@user._id"}}, sort={"_id": 1})
        await service.define(
            "notes",
            SCHEMA,
            {"Query": {"notes": service.find("notes", {}, sort={"_id": 1}), "mine": mine}},
            **CACHE,
        )
        rows = {"readFilters": {f"{service.db}.notes": {"team": "@user.team"}}}
        await allow(service, "path-prefix('/graphql')", "user", "guest", mongo=rows)
        yield service


def ids(*numbers: int) -> list[Document]:
    return [{"_id": number} for number in numbers]


async def test_row_filters_divide_the_answers(notes: Service) -> None:
    ada = await ask_until_hit(notes, "notes", NOTES, headers=ADA)
    bob = await ask_until_hit(notes, "notes", NOTES, headers=BOB)
    assert ada.data == {"notes": ids(1, 3)}
    assert bob.data == {"notes": ids(2)}
    root = await notes.query("notes", NOTES, headers=ADMIN)
    assert root.data == {"notes": ids(1, 2, 3)}


async def test_equal_row_filters_share_an_answer(notes: Service) -> None:
    await ask_until_hit(notes, "notes", NOTES, headers=ADA)
    assert status_of(await notes.query("notes", NOTES, headers=ZOE)) == HIT


async def test_variables_of_the_caller_divide_the_answers(notes: Service) -> None:
    await ask_until_hit(notes, "notes", MINE, headers=ADA)
    zoe = await notes.query("notes", MINE, headers=ZOE)
    assert (status_of(zoe), zoe.data) == ("docgraph; fwd=miss; detail=first", {"mine": ids(3)})


async def test_the_visible_schema_divides_the_answers(notes: Service) -> None:
    query = "{ notes { _id secret } }"
    await ask_until_hit(notes, "notes", query, headers=ADA)
    assert (await notes.query("notes", query, headers=EVE)).status == 400
    await ask_until_hit(notes, "notes", NOTES, headers=ADA)
    eve = await notes.query("notes", NOTES, headers=EVE)
    assert status_of(eve) != HIT  # she sees another schema


async def test_rules_apply_to_each_hit(notes: Service) -> None:
    await ask_until_hit(notes, "notes", NOTES, headers=ADA)
    await remove_rules(notes)
    assert (await notes.query("notes", NOTES, headers=ADA)).status == 403
    rows = {"readFilters": {f"{notes.db}.notes": {"by": "@user._id"}}}
    await allow(notes, "path-prefix('/graphql')", "user", mongo=rows)
    assert (await notes.query("notes", NOTES, headers=ADA)).data == {"notes": ids(1)}


async def test_a_changed_property_of_the_user_is_another_key(notes: Service) -> None:
    await ask_until_hit(notes, "notes", NOTES, headers=ADA)
    moved = caller("ada", "user", team="red")
    assert (await notes.query("notes", NOTES, headers=moved)).data == {"notes": ids(2)}


async def test_what_the_cache_did_is_not_for_everyone(mongo_client: Mongo, mongo_uri: str) -> None:
    patient: Document = {"graphql": {"cache": {"max-lag-ms": 60_000}}}
    async with guarded(mongo_client, mongo_uri, patient) as service:
        service.insert("notes", {"_id": 1})
        mapped = {"Query": {"notes": service.find("notes", {})}}
        schema = "type Query { notes: [Note] } type Note { _id: Int }"
        await service.define("notes", schema, mapped, **CACHE)
        await allow(service, "path-prefix('/graphql')", "user")
        await ask_until_hit(service, "notes", NOTES, headers=ADMIN)
        with listening(CacheUsed) as used:
            first = await service.query("notes", NOTES, headers=ADA)
            fresh = {**ADA, "Cache-Control": "no-cache"}
            second = await service.query("notes", NOTES, headers=fresh)
        assert [one.result for one in used] == ["hit", "bypass"]
        for reply in (first, second):
            assert {"cache-status", "age"}.isdisjoint(reply.headers)
        told = ("content-length", "x-request-id", "date")
        assert [(name, text) for name, text in first.headers.items() if name not in told] == [
            (name, text) for name, text in second.headers.items() if name not in told
        ]
        assert first.text == second.text


async def test_a_value_of_another_type_is_another_key(notes: Service) -> None:
    teams = [1, True, "1", 1.5, None, ["blue"], {"a": 1}]
    people = [caller("ada", "user", team=team) for team in teams]
    notes.mongo[notes.db].notes.delete_many({})
    notes.insert("notes", *({"_id": n, "team": team} for n, team in enumerate(teams)))
    await ask_until_hit(notes, "notes", NOTES, headers=ADA)
    for _ in range(2):
        answers = [await notes.query("notes", NOTES, headers=one) for one in people]
        fresh = [
            await notes.query("notes", NOTES, headers={**one, "Cache-Control": "no-cache"})
            for one in people
        ]
        assert [one.text for one in answers] == [one.text for one in fresh]


async def test_own_writes_of_one_caller_are_read_by_all(notes: Service) -> None:
    for one in (ADA, BOB):
        await ask_until_hit(notes, "notes", NOTES, headers=one)
    await notes.write("notes", Write(WriteKind.DELETE, filter={"_id": {"$in": [1, 2]}}, many=True))
    replies = await asyncio.gather(
        *(notes.query("notes", NOTES, headers=one) for one in (ADA, BOB, ZOE))
    )
    assert [one.data["notes"] for one in replies] == [ids(3), [], ids(3)]
