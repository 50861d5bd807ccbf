"""A subgraph over HTTP: `_service`, and who may read it."""

from __future__ import annotations

import pytest

from tests.http.harness import OPEN, Mongo, Service, identity, running

pytestmark = [pytest.mark.anyio, pytest.mark.json]

SCHEMA = """
extend schema @link(url: "https://specs.apollo.dev/federation/v2.5", import: ["@key"])
type Query { posts: [Post!]! }
type Post @key(fields: "id", resolvable: false) {
  id: ID! title: String notes: String @visible(roles: ["editor"])
}
"""
SDL = "{ _service { sdl } }"


async def test_the_sdl_is_what_the_caller_sees(mongo_client: Mongo, mongo_uri: str) -> None:
    for roles, sees in (((), False), (("editor",), True)):
        settings = {**OPEN, **(identity(*roles) if roles else {})}
        async with running(mongo_client, mongo_uri, settings) as service:
            await define(service)

            sdl = (await service.query("blog", SDL)).data["_service"]["sdl"]

            assert ("notes: String" in sdl) is sees
            assert "@visible" not in sdl
            assert '@key(fields: "id", resolvable: false)' in sdl


async def test_without_introspection_there_is_no_sdl(mongo_client: Mongo, mongo_uri: str) -> None:
    settings = {**OPEN, "graphql": {"introspection": "off"}}
    async with running(mongo_client, mongo_uri, settings) as service:
        await define(service)
        await service.define("own", "type Query { _service: [Own] } type Own { sdl: String }")

        assert "introspection has been disabled" in (await service.query("blog", SDL)).text
        assert (await service.query("own", SDL)).data == {"_service": []}


async def define(service: Service) -> None:
    mappings = {"Query": {"posts": service.find("posts")}}
    await service.define("blog", SCHEMA, mappings, federation=True)
