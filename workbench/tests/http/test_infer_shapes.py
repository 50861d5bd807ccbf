"""Inferred definitions of six databases: relations, secrets, and questions that need no edits."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from itertools import product
from random import Random
from typing import Any

import pytest
import yaml
from tests.http.access_harness import ADMIN, guarded
from tests.http.harness import Mongo, Service
from tests.http.hosts import module_application

from workbench.tests.http.data_shapes import SHAPES, DataShape
from workbench.tests.http.shape_questions import QUESTIONS

pytestmark = pytest.mark.anyio

SEEDS = (1, 2)
LEAST = 0.97
KNOWN: dict[str, Any] = {}  # by database, which is another one in each run
Learned = tuple[DataShape, Any]


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        assert (await one.request("PUT", "/gql-apps", headers=ADMIN)).status == 201
        for name, seed in product(SHAPES, SEEDS):
            build(name, seed).fill(mongo_client[name_database(one, name, seed)])
        yield one
        for name, seed in product(SHAPES, SEEDS):
            mongo_client.drop_database(name_database(one, name, seed))


def build(name: str, seed: int) -> DataShape:
    return SHAPES[name](Random(f"{name} {seed}"))


def name_database(service: Service, name: str, seed: int) -> str:
    return f"{service.db}_{name}_{seed}"


async def learn(service: Service, name: str, seed: int) -> Learned:
    db = name_database(service, name, seed)
    if db not in KNOWN:
        reply = await service.request("POST", "/_tools/infer", json={"db": db}, headers=ADMIN)
        assert reply.status == 200, reply.text
        KNOWN[db] = reply.json
    return build(name, seed), KNOWN[db]


def read_relations(learned: Any) -> set[tuple[str, str]]:
    notes = [note.split(" (")[0] for note in learned["notes"]]
    pairs = [note.split(" refers to ") for note in notes if " refers to " in note]
    return {(pair[0], pair[1]) for pair in pairs if "several collections" not in pair[1]}


async def test_relations_are_found_and_right(service: Service) -> None:
    """At least 97 % of the relations are found, and 97 % of those that are found are true."""
    true, found = set(), set()
    for name, seed in product(SHAPES, SEEDS):
        shape, learned = await learn(service, name, seed)
        true |= {(name, seed, *pair) for pair in shape.relations.items()}
        found |= {(name, seed, *pair) for pair in read_relations(learned)}

    assert len(true & found) / len(true) >= LEAST, sorted(true - found)
    assert len(true & found) / len(found) >= LEAST, sorted(found - true)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SHAPES)
async def test_no_secret_is_shown(service: Service, name: str, seed: int) -> None:
    shape, learned = await learn(service, name, seed)
    definition = learned["definition"]
    lines = [line.strip() for line in definition["schema"].splitlines()]
    left_out = {line.split(":")[0].removeprefix("# ") for line in lines if "left out" in line}
    shown = "\n".join(line for line in lines if "left out" not in line)
    texts = (shown, definition["mappings"], *learned["notes"])

    assert len(left_out) >= len(shape.secrets)
    for secret in shape.secrets:
        assert not [text for text in texts if secret in text]
    # Whole words: the name of the database is made up, and may have any four digits.
    words = {word for text in texts for word in re.findall(r"[^\s\"',;:()=]+", text)}
    values = {value for value in shape.list_secret_values() if len(value) > 3}
    assert values.isdisjoint(words)
    long_ones = [value for value in values if len(value) > 8]
    assert not [value for value in long_ones if any(value in text for text in texts)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SHAPES)
async def test_questions_are_answered_without_edits(service: Service, name: str, seed: int) -> None:
    shape, learned = await learn(service, name, seed)
    questions = QUESTIONS[name](shape)
    assert len(questions) == 10
    definition = {**learned["definition"], "_id": f"{name}{seed}"}
    definition["mappings"] = yaml.safe_load(definition["mappings"])
    written = await service.request("POST", "/gql-apps?wm=upsert", json=definition, headers=ADMIN)
    assert written.status in (200, 201), written.text

    for query, expected in questions:
        reply = await service.query(f"{name}{seed}", query, headers=ADMIN)
        assert reply.status == 200, (query, reply.text)
        assert "errors" not in reply.json, (query, reply.text)
        (data,) = reply.data.values()
        is_sorted = "sortBy" in query
        assert arrange(data, is_sorted) == arrange(expected, is_sorted), query
        assert data not in ([], None), query


def arrange(value: Any, is_sorted: bool) -> Any:
    """Return the value with its lists in one order, unless the question sorts."""
    if isinstance(value, dict):
        return {name: arrange(one, is_sorted) for name, one in value.items()}
    if isinstance(value, list):
        items = [arrange(one, is_sorted) for one in value]
        return items if is_sorted else sorted(items, key=json.dumps)
    return value
