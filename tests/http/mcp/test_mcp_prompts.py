"""Prompts of apps, and completion of their arguments: for what the caller may see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.access_harness import caller, guarded
from tests.http.harness import Document, Mongo, Service
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, ask, result

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query { films(genre: Genre, rank: Rank): [Film] }
type Film { title: String secret: String @visible(roles: ["editor"]) }
enum Genre { DRAMA COMEDY DOCUMENTARY }
enum Rank { HIGH LOW }
"""
OPERATIONS = [
    {"name": "byGenre", "query": "query($genre: Genre!) { films(genre: $genre) { title } }"},
    {"name": "secrets", "query": "query($rank: Rank) { films(rank: $rank) { secret } }"},
]
RULES = [
    {"role": "editor", "predicate": "path-prefix('/')"},
    {"role": "reader", "predicate": "path('/mcp') or path-prefix('/graphql/films')"},
    {"role": "stranger", "predicate": "path('/mcp')"},
]
ED, RITA, STAN = caller("ed", "editor"), caller("rita", "reader"), caller("stan", "stranger")


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, AGENTS, file_rules=RULES) as one:
        mappings = {"Query": {"films": one.find("films")}}
        for uri, text in (("films", "Films of a cinema"), ("festivals", "")):
            await one.define(uri, SCHEMA, mappings, operations=OPERATIONS, description=text)
        yield one


async def complete(service: Service, who: Any, ref: Document, name: str, value: str) -> list[str]:
    params = {"ref": ref, "argument": {"name": name, "value": value}}
    found = await result(service, "completion/complete", params, who)
    values: list[str] = found["completion"]["values"]
    return values


@pytest.mark.parametrize(
    ("who", "names"), [(ED, ["festivals", "films"]), (RITA, ["films"]), (STAN, [])]
)
async def test_there_is_one_prompt_for_each_app_of_the_caller(
    service: Service, who: dict[str, str], names: list[str]
) -> None:
    prompts = (await result(service, "prompts/list", None, who))["prompts"]

    assert [one["name"] for one in prompts] == names


async def test_arguments_of_hidden_operations_are_not_named(service: Service) -> None:
    def names(found: Document) -> dict[str, list[str]]:
        return {
            one["name"]: [argument["name"] for argument in one["arguments"]]
            for one in found["prompts"]
        }

    seen_by_ed = names(await result(service, "prompts/list", None, ED))
    seen_by_rita = names(await result(service, "prompts/list", None, RITA))

    assert seen_by_ed["films"] == ["question", "operation", "genre", "rank"]
    assert seen_by_rita == {"films": ["question", "operation", "genre"]}


async def test_a_prompt_explores_or_answers(service: Service) -> None:
    async def get(**arguments: str) -> str:
        params = {"name": "films", "arguments": arguments}
        found = await result(service, "prompts/get", params, RITA)
        (message,) = found["messages"]
        assert message["role"] == "user"
        text: str = message["content"]["text"]
        assert "Films of a cinema" in text
        return text

    assert "Explore it" in await get()
    assert "Question: Which films are new?" in await get(question="Which films are new?")
    assert "films__byGenre" in await get(operation="byGenre", genre="DRAMA")
    assert "genre: DRAMA" in await get(operation="byGenre", genre="DRAMA")
    assert "secrets" not in await get(operation="secrets")


@pytest.mark.parametrize("name", ["festivals", "none", "", "../films"])
async def test_a_prompt_of_an_app_that_is_not_for_the_caller_does_not_exist(
    service: Service, name: str
) -> None:
    reply = await ask(service, "prompts/get", {"name": name}, RITA)

    assert reply.json["error"] == {"code": -32602, "message": "Unknown prompt"}


async def test_names_of_apps_and_values_of_enums_are_completed(service: Service) -> None:
    template = {"type": "ref/resource", "uri": "docgraph://apps/{app}/schema"}
    prompt = {"type": "ref/prompt", "name": "films"}

    assert await complete(service, ED, template, "app", "F") == ["festivals", "films"]
    assert await complete(service, RITA, template, "app", "f") == ["films"]
    assert await complete(service, STAN, template, "app", "") == []
    assert await complete(service, RITA, prompt, "genre", "d") == ["DRAMA", "DOCUMENTARY"]
    assert await complete(service, RITA, prompt, "operation", "") == ["byGenre"]
    assert await complete(service, ED, prompt, "rank", "") == ["HIGH", "LOW"]
    assert await complete(service, RITA, prompt, "rank", "") == []
