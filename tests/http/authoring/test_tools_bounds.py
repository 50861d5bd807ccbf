"""What one definition can cost those who check it: everything in it is judged and asked once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import pytest
from graphql import DocumentNode

from docgraph.access import author_limits
from docgraph.authoring.requests import Draft, read_draft
from docgraph.authoring.toolset import Toolset
from docgraph.graphql.apps import definition_questions
from docgraph.graphql.definition.schema import parse_schema
from docgraph.store.collection_stats import CollectionStats
from docgraph.store.guard.shield import find_named
from tests.http.access_harness import ADMIN, allow, caller, guarded
from tests.http.harness import Document, Mongo, Service, build_definition, failing
from tests.http.hosts import module_application
from tests.programs import HANGS_SECONDS

pytestmark = pytest.mark.anyio

AUTHOR = caller("aug", "author")


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        one.insert("users", {"_id": "ada", "password": "$2b$hashed", "roles": ["admin"]})
        one.insert("posts", {"_id": 1})
        for path in ("_tools", "users", "posts"):
            await allow(one, f"path-prefix('/{path}')", "author")
        yield one


def build(fields: Iterable[Document]) -> Document:
    """A definition with a field of Query for each mapping."""
    mapped = {f"f{index}": one for index, one in enumerate(fields)}
    schema = f"type Query {{ {' '.join(f'{name}: [T]' for name in mapped)} }} type T {{ a: Int }}"
    return build_definition("bounds", schema, {"Query": mapped})


def is_on_event_loop() -> bool:
    """Whether others wait for what runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def check(
    service: Service, definition: Document, who: dict[str, str] = ADMIN
) -> dict[str, Any]:
    members = {"definition": definition}
    reply = await service.request("POST", "/_tools/check", json=members, headers=who)
    assert reply.status == 200, reply.text
    content: dict[str, Any] = reply.json
    return content


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The collections whose existence the database was asked for."""
    counter: Counter[str] = Counter()
    find_existing = CollectionStats.find_existing

    async def count(self: CollectionStats, db: str, collections: list[str]) -> list[str] | None:
        counter.update(collections)
        return await find_existing(self, db, collections)

    monkeypatch.setattr(CollectionStats, "find_existing", count)
    return counter


async def test_the_database_is_asked_once_for_a_collection_that_many_fields_read(
    service: Service, asked: Counter[str]
) -> None:
    fields = [service.find("missing", {"a": {"$equals": 1}}) for _ in range(5)]

    found = await check(service, build(fields))

    assert asked == {"missing": 1}
    assert [one["where"] for one in found["errors"]] == [
        f"mappings.Query.f{index}.find.a.$equals" for index in range(5)
    ]
    assert [one["where"] for one in found["warnings"]] == [
        f"mappings.Query.f{index}.collection" for index in range(5)
    ]


async def test_the_database_is_asked_about_so_many_things_and_no_more(
    service: Service, asked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition_questions, "MAX_ASKED", 3)

    found = await check(service, build([service.find(f"no{i}", {}) for i in range(9)]))

    assert len(asked) == len(found["warnings"]) == 3


async def test_a_sort_by_what_is_no_direction_is_checked_like_any_other(service: Service) -> None:
    find, sort = {"$text": {"$search": "x"}}, {"a": {"$meta": "textScore"}}
    fields = [service.find("posts", find, sort=sort) for _ in range(2)]

    assert (await check(service, build(fields)))["valid"] is True


async def test_what_an_author_may_not_name_is_looked_for_once_in_each_mapping(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: Counter[str] = Counter()

    def count(value: Any, hidden: Any) -> str | None:
        looked["times"] += 1
        return find_named(value, hidden)

    monkeypatch.setattr(author_limits, "find_named", count)
    stages = [{"$unionWith": "users"}] * 50

    found = await check(service, build([service.stages("posts", *stages)]), AUTHOR)

    assert (found["valid"], looked["times"]) == (True, 1)


async def test_a_draft_is_examined_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large schema takes seconds."""
    parsed: list[str] = []

    def count(text: str) -> DocumentNode:
        parsed.append(text)
        return parse_schema(text)

    monkeypatch.setattr("docgraph.graphql.definition.check.parse_schema", count)
    definition = build([service.find("posts")])
    body = {"definition": definition, "query": "{ f0 { a } }"}
    reply = await service.request("POST", "/_tools/draft", json=body, headers=ADMIN)

    assert reply.json == {"data": {"f0": [{"a": None}]}}
    assert parsed == [definition["schema"]]


async def test_a_short_text_that_stands_for_very_many_values_is_read_off_the_event_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Aliases of YAML multiply: below a thousand bytes can be two hundred thousand values."""
    read: list[bool] = []

    def notice(source: Mapping[str, Any]) -> Draft:
        read.append(is_on_event_loop())
        return read_draft(source)

    monkeypatch.setattr("docgraph.authoring.requests.read_draft", notice)
    twenty = ", ".join(["*a"] * 20)
    definition = {"_id": "bounds", "schema": "type Query { a: Int }"}
    definition["mappings"] = f"a: &a [1, 2, 3]\nb: [{twenty}]"

    found = await check(service, definition)

    assert not found["valid"]
    assert read == [False]


async def test_requests_that_arrive_while_the_tools_are_loaded_wait_for_them(
    mongo_client: Mongo, mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are loaded once, in a thread; more requests wait than the lane of the tools queues."""
    built: list[bool] = []
    building, may_end = threading.Event(), threading.Event()

    class SlowlyBuilt(Toolset):
        def __init__(self, **parts: Any) -> None:
            built.append(is_on_event_loop())
            building.set()
            assert may_end.wait(HANGS_SECONDS)
            super().__init__(**parts)

    monkeypatch.setattr("docgraph.authoring.toolset.Toolset", SlowlyBuilt)
    async with guarded(mongo_client, mongo_uri) as service:

        async def read_realm() -> int:
            return (await service.request("GET", "/_tools/realm", headers=ADMIN)).status

        try:
            left = asyncio.create_task(read_realm())
            await asyncio.to_thread(building.wait, HANGS_SECONDS)
            others = [asyncio.create_task(read_realm()) for _ in range(40)]
            left.cancel()
            await asyncio.wait([left])
            await service.request("POST", "/_tools/nosuchtool", headers=ADMIN)
        finally:
            may_end.set()
        statuses = await asyncio.gather(*others)

    assert statuses == [200] * 40
    assert not any(built)
    assert len(built) <= 2  # for the client that left, and for all others


async def test_a_draft_has_a_time_limit_where_queries_have_none(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """What is tried may be far from ready; `graphql.query-time-limit` is off unless it is set."""
    author_limits: Document = {"tools": {"query-time-limit": 200}}
    async with guarded(mongo_client, mongo_uri, author_limits) as service:
        service.insert("posts", {"_id": 1})
        definition = build([service.find("posts")])
        members = {"definition": definition, "query": "{ f0 { a } }"}
        ask = {"app": "bounds", "query": "{ f0 { a } }", "run": True}
        await service.define("bounds", definition["schema"], definition["mappings"])
        where = f"{service.db}.posts"
        with failing(
            mongo_client, "find", namespace=where, blockConnection=True, blockTimeMS=1_000
        ):
            for path, body in (
                ("draft", members),
                ("plan", {**members, "run": True}),
                ("plan", ask),
            ):
                reply = await service.request("POST", f"/_tools/{path}", json=body, headers=ADMIN)
                assert reply.status == 408, (path, reply.text)
            reply = await service.request(
                "POST", "/graphql/bounds", json={"query": "{ f0 { a } }"}, headers=ADMIN
            )
            assert reply.status == 200
