"""`graphql.verbose`: the plan, the commands and the caches, for administrators only."""

from __future__ import annotations

import pytest

from tests.http.harness import Document, Mongo, Service, identity, running

pytestmark = pytest.mark.anyio

VERBOSE: Document = {"graphql": {"verbose": True}}
SCHEMA = """
type Query { books: [Book] }
type Book { title: String author: Author }
type Author { name: String }
"""
ASK = "{ books { title author { name } } }"


async def prepare_app(service: Service) -> None:
    service.insert("books", {"title": "A", "by": 1}, {"title": "B", "by": 1}, {"title": "C"})
    service.insert("authors", {"_id": 1, "name": "Ada"})
    await service.define(
        "library",
        SCHEMA,
        {
            "Query": {"books": service.find("books", {})},
            "Book": {"author": service.find("authors", {"_id": {"$fk": "by"}})},
        },
    )


async def test_an_administrator_sees_plan_commands_and_cache_hits(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with running(mongo_client, mongo_uri, VERBOSE, identity("admin")) as service:
        await prepare_app(service)
        first = await service.query("library", ASK)
        second = await service.query("library", ASK)

    extensions = first.json["extensions"]
    assert list(first.json) == ["data", "extensions"]
    assert extensions["plan"].startswith("query")
    assert "author: find" in extensions["plan"]
    assert [
        (one["field"], one["kind"], one["collection"], one["documents"])
        for one in extensions["commands"]
    ] == [
        ("Query.books", "find", f"{service.db}.books", 3),
        ("Book.author", "find", f"{service.db}.authors", 1),
    ]
    assert all(one["ms"] > 0 for one in extensions["commands"])
    assert (extensions["planCached"], second.json["extensions"]["planCached"]) == (False, True)
    assert extensions["dependsOn"] == [
        f"{service.db}.authors: changes by _id (1 value)",
        f"{service.db}.books: every change",
    ]


async def test_an_answer_that_cannot_be_tracked_has_the_reason(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with running(mongo_client, mongo_uri, VERBOSE, identity("admin")) as service:
        service.insert("books", {"title": "A"})
        past = service.find("books", {"at": {"$lt": {"$arg": "@now"}}})
        await service.define(
            "library",
            "type Query { books: [Book] } type Book { title: String }",
            {"Query": {"books": past}},
        )
        extensions = (await service.query("library", "{ books { title } }")).json["extensions"]

    assert "dependsOn" not in extensions
    reason = "Query.books uses @now, which can change without a change of documents"
    assert extensions["notTrackable"] == reason


@pytest.mark.parametrize("roles", [None, (), ("reader",), ("Admin",)])
async def test_nobody_else_sees_them(
    mongo_client: Mongo, mongo_uri: str, roles: tuple[str, ...] | None
) -> None:
    account: Document = {} if roles is None else identity(*roles)
    async with running(mongo_client, mongo_uri, VERBOSE, account) as service:
        await prepare_app(service)
        for query in (ASK, "{", "{ nothing }"):
            reply = await service.query("library", query)
            assert "extensions" not in reply.json
            assert "plan" not in reply.text


async def test_the_root_role_can_have_another_name(mongo_client: Mongo, mongo_uri: str) -> None:
    root: Document = {"dbAclAuthorizer": {"root-role": "chief"}}
    async with running(mongo_client, mongo_uri, VERBOSE, root, identity("chief")) as service:
        await prepare_app(service)
        assert "extensions" in (await service.query("library", ASK)).json


async def test_it_is_off_by_default(mongo_client: Mongo, mongo_uri: str) -> None:
    async with running(mongo_client, mongo_uri, identity("admin")) as service:
        await prepare_app(service)
        assert "extensions" not in (await service.query("library", ASK)).json
