"""Live queries over server-sent events (decision 52)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.exchange.errors import DefinitionError
from tests.http.access_harness import (
    ADA,
    ADMIN,
    BOB,
    allow,
    build_rule,
    caller,
    guarded,
    remove_rules,
    write_rules,
)
from tests.http.harness import Document, Mongo, Service
from tests.http.hosts import module_application
from tests.http.live_harness import subscribe
from tests.http.stream_harness import Refused

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query {
  notes(team: String): [Note]
  note(id: Int!): Note
  mine: [Note]
  clock: [Note]
}
type Note { _id: Int text: String team: String replies: [Reply] }
type Reply { _id: Int text: String note: Int }
"""
NOTES = "query Notes($team: String) @live { notes(team: $team) { _id text } }"
LIVE = {"accept": "text/event-stream"}


def build_mappings(service: Service) -> Document:
    of_team = {"team": {"$arg": "team"}}
    recent = {"at": {"$gt": {"$arg": "@now"}}}
    return {
        "Query": {
            "notes": service.find("notes", of_team, sort={"_id": 1}),
            "note": service.find("notes", {"_id": {"$arg": "id"}}),
            "mine": service.find("notes", {"team": {"$arg": "@user.team"}}, sort={"_id": 1}),
            "clock": service.find("notes", recent),
        },
        "Note": {"replies": service.find("replies", {"note": {"$fk": "_id"}}, sort={"_id": 1})},
    }


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        mappings = build_mappings(one)
        await one.define("app", SCHEMA, mappings, live=True)
        await one.define("roles", SCHEMA, mappings, live=["editor"])
        await one.define("plain", SCHEMA, mappings)
        yield one


@pytest.fixture(autouse=True)
async def notes(service: Service) -> AsyncIterator[Any]:
    """The documents, and a rule that lets everybody read them."""
    for name in ("notes", "replies"):
        service.mongo[service.db][name].delete_many({})
    collection = service.mongo[service.db]["notes"]
    collection.insert_many(
        [
            {"_id": 1, "text": "one", "team": "blue"},
            {"_id": 2, "text": "two", "team": "red"},
        ]
    )
    await allow(service, "path-prefix('/graphql')", "user", "editor")
    yield collection
    await remove_rules(service)


def show(*notes: tuple[int, str]) -> Document:
    return {"data": {"notes": [{"_id": id, "text": text} for id, text in notes]}}


async def test_the_answer_comes_at_once_and_again_when_it_has_changed(
    service: Service, notes: Any
) -> None:
    """Decision 52."""
    async with subscribe(service, "app", NOTES, ADA, variables={"team": "blue"}) as client:
        assert "text/event-stream" in client.head
        assert await client.next() == show((1, "one"))
        notes.update_one({"_id": 1}, {"$set": {"text": "changed"}})
        assert await client.next() == show((1, "changed"))
        notes.insert_one({"_id": 3, "text": "new", "team": "blue"})
        assert await client.next() == show((1, "changed"), (3, "new"))
        notes.delete_one({"_id": 1})
        assert await client.next() == show((3, "new"))


async def test_changes_that_leave_the_answer_as_it_is_are_not_sent(
    service: Service, notes: Any
) -> None:
    async with subscribe(service, "app", NOTES, ADA, variables={"team": "blue"}) as client:
        assert await client.next() == show((1, "one"))
        notes.update_one({"_id": 1}, {"$set": {"other": 1}})
        notes.update_one({"_id": 2}, {"$set": {"text": "of another team"}})
        notes.insert_one({"_id": 3, "text": "new", "team": "blue"})
        assert await client.next() == show((1, "one"), (3, "new"))


async def test_joined_documents_count_as_well(service: Service, notes: Any) -> None:
    query = "query @live { note(id: 1) { replies { text } } }"
    replies = service.mongo[service.db]["replies"]
    replies.insert_one({"_id": 0, "note": 0})
    async with subscribe(service, "app", query, ADA) as client:
        assert await client.next() == {"data": {"note": {"replies": []}}}
        replies.insert_one({"_id": 1, "note": 2, "text": "of another note"})
        replies.insert_one({"_id": 2, "note": 1, "text": "hello"})
        assert await client.next() == {"data": {"note": {"replies": [{"text": "hello"}]}}}


async def test_each_caller_gets_their_own_rows(service: Service, notes: Any) -> None:
    query = "query @live { mine { _id } }"
    async with (
        subscribe(service, "app", query, ADA) as ada,
        subscribe(service, "app", query, BOB) as bob,
    ):
        assert await ada.next() == {"data": {"mine": [{"_id": 1}]}}
        assert await bob.next() == {"data": {"mine": [{"_id": 2}]}}
        notes.insert_one({"_id": 3, "team": "red"})
        assert await bob.next() == {"data": {"mine": [{"_id": 2}, {"_id": 3}]}}
        notes.insert_one({"_id": 4, "team": "blue"})
        assert await ada.next() == {"data": {"mine": [{"_id": 1}, {"_id": 4}]}}


async def test_a_query_without_the_directive_is_answered_once(service: Service) -> None:
    async with subscribe(service, "app", "{ note(id: 1) { text } }", ADA) as client:
        assert await client.next() == {"data": {"note": {"text": "one"}}}
        assert await client.wait_closed() == (0, "complete")


async def test_sent_in_another_way_it_is_an_ordinary_query(service: Service) -> None:
    """Decision 52."""
    reply = await service.query("app", "query @live { note(id: 1) { text } }", headers=ADA)
    assert reply.data == {"note": {"text": "one"}}
    both = {**ADA, "accept": "application/json, text/event-stream"}
    reply = await service.query("app", "query @live { note(id: 1) { text } }", headers=both)
    assert reply.data == {"note": {"text": "one"}}


async def test_an_invalid_operation_is_reported_as_an_event(service: Service) -> None:
    async with subscribe(service, "app", "query @live { nothing }", ADA) as client:
        (error,) = (await client.next())["errors"]
        assert error["extensions"]["code"] == "invalid-query"
        assert await client.wait_closed() == (0, "complete")


@pytest.mark.parametrize("kind", ["subscription", "mutation"])
async def test_other_operations_stay_rejected(service: Service, kind: str) -> None:
    """Decision 52."""
    async with subscribe(service, "app", kind + " @live { notes { _id } }", ADA) as client:
        (error,) = (await client.next())["errors"]
        assert error["extensions"]["code"] == "operation-not-supported"


async def test_a_query_that_cannot_be_tracked_is_rejected_with_the_reason(
    service: Service,
) -> None:
    async with subscribe(service, "app", "query @live { clock { _id } }", ADA) as client:
        (error,) = (await client.next())["errors"]
        assert error["extensions"]["code"] == "live-not-possible"
        assert "@now" in error["message"]
        assert await client.wait_closed() == (0, "complete")


async def test_a_reason_that_names_collections_is_for_those_who_may_explain(
    service: Service,
) -> None:
    service.mongo[service.db]["replies"].drop()
    query = "query @live { note(id: 1) { replies { _id } } }"
    for who, is_shown in ((ADA, False), (ADMIN, True)):
        async with subscribe(service, "app", query, who) as client:
            (error,) = (await client.next())["errors"]
            assert error["extensions"]["code"] == "live-not-possible"
            assert ("replies" in error["message"]) is is_shown


async def test_a_dropped_collection_is_an_empty_list_until_it_is_there_again(
    service: Service, notes: Any
) -> None:
    async with subscribe(service, "app", NOTES, ADA, variables={"team": "blue"}) as client:
        assert await client.next() == show((1, "one"))
        notes.drop()
        assert await client.next() == show()
        notes.insert_one({"_id": 9, "text": "back", "team": "blue"})
        assert await client.next() == show((9, "back"))
        notes.insert_one({"_id": 10, "text": "more", "team": "blue"})
        assert await client.next() == show((9, "back"), (10, "more"))


async def test_without_permission_there_is_only_a_status(service: Service) -> None:
    for headers, status in (({}, 401), (caller("eve", "other"), 403)):
        with pytest.raises(Refused) as refused:
            async with subscribe(service, "app", NOTES, headers):
                pass
        assert refused.value.status == status


async def test_the_directive_exists_for_the_roles_alone(service: Service) -> None:
    """Decision 52."""
    query = "{ __schema { directives { name locations } } }"
    for app, who, is_there in (
        ("app", ADA, True),
        ("plain", ADA, False),
        ("roles", ADA, False),
        ("roles", caller("ed", "editor"), True),
    ):
        found = (await service.query(app, query, headers=who)).data["__schema"]["directives"]
        live = [one for one in found if one["name"] == "live"]
        assert live == ([{"name": "live", "locations": ["QUERY"]}] if is_there else [])
    for app in ("plain", "roles"):
        reply = await service.query(app, NOTES, headers={**ADA, **LIVE})
        assert (reply.status, reply.code) == (400, "invalid-query")
    blue = {"variables": {"team": "blue"}}
    async with subscribe(service, "roles", NOTES, caller("ed", "editor"), **blue) as client:
        assert await client.next() == show((1, "one"))


async def test_who_loses_the_permission_gets_no_more_answers(service: Service, notes: Any) -> None:
    async with subscribe(service, "app", NOTES, ADA, variables={"team": "blue"}) as client:
        assert await client.next() == show((1, "one"))
        await remove_rules(service)
        (error,) = (await client.next())["errors"]
        assert error["extensions"]["code"] == "forbidden"
        assert await client.wait_closed() == (0, "complete")


async def test_other_row_filters_give_another_answer(service: Service, notes: Any) -> None:
    notes.insert_one({"_id": 3, "text": "secret", "team": "blue", "secret": True})
    rule = build_rule("path-prefix('/graphql')", "user")
    await remove_rules(service)
    await write_rules(service, rule)
    async with subscribe(service, "app", NOTES, ADA, variables={"team": "blue"}) as client:
        assert await client.next() == show((1, "one"), (3, "secret"))
        hidden = {"readFilters": {f"{service.db}.notes": {"secret": {"$ne": True}}}}
        await write_rules(service, {**rule, "mongo": hidden})
        assert await client.next() == show((1, "one"))


async def test_a_rule_that_another_program_changes_counts_too(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """A minute passes between two checks without an announcement: longer than the test waits."""
    rare: Document = {"events": {"renewal-interval-ms": 60_000}}
    async with guarded(mongo_client, mongo_uri, rare) as service:
        service.insert("notes", {"_id": 1, "text": "one", "team": "blue"})
        await service.define("app", SCHEMA, build_mappings(service), live=True)
        await allow(service, "path-prefix('/graphql')", "user")
        async with subscribe(service, "app", NOTES, ADA, variables={"team": "blue"}) as client:
            assert await client.next() == show((1, "one"))
            hidden = {"readFilters": {f"{service.db}.notes": {"team": "red"}}}
            rules = service.mongo[service.db].acl
            await asyncio.to_thread(rules.update_many, {}, {"$set": {"mongo": hidden}})
            assert await client.next() == show()


async def test_a_changed_definition_gives_another_answer(service: Service, notes: Any) -> None:
    mappings = build_mappings(service)
    await service.define("moving", SCHEMA, mappings, live=True)
    query = "query @live { note(id: 1) { text } }"
    async with subscribe(service, "moving", query, ADA) as client:
        assert await client.next() == {"data": {"note": {"text": "one"}}}
        mappings["Query"]["note"] = service.find("notes", {"_id": 2})
        await service.define("moving", SCHEMA, mappings, live=True)
        assert await client.next() == {"data": {"note": {"text": "two"}}}
        await service.define("moving", SCHEMA, mappings)
        (error,) = (await client.next())["errors"]
        assert error["extensions"]["code"] == "invalid-query"
        assert await client.wait_closed() == (0, "complete")
    await service.remove("moving")


@pytest.mark.parametrize("live", ["yes", [], [1], {}, 1])
async def test_the_descriptor_is_checked(service: Service, live: Any) -> None:
    with pytest.raises(DefinitionError) as refused:
        await service.define("wrong", "type Query { a: Int }", None, live=live)
    assert "descriptor.live" in str(refused.value.details)


async def test_an_own_directive_of_that_name_is_rejected(service: Service) -> None:
    schema = "directive @live on QUERY\ntype Query { a: Int }"
    with pytest.raises(DefinitionError):
        await service.define("own", schema, None, live=True)
