"""Queries that repeat a field hundreds of times: few bytes that would be much work to compare.

    make drill-repeated-fields      REPEATED=300

Each is another text, so that none is known already. Half of them must be refused within the bound,
from sending to reading, and the processor time of the server for one must be within it, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.drills.server import DrillServer, describe_load, serving, wait_until

REPEATED = int(os.environ.get("REPEATED", "300"))
QUERIES = 50
LONGEST = 0.020  # seconds
APP = {
    "_id": "levels",
    "descriptor": {"uri": "levels", "name": "levels", "enabled": True},
    "schema": "type Query { lvl: Level } type Level { a: Level n: Int }",
    "mappings": {"Query": {"lvl": {"db": "levels", "collection": "levels", "find": {}}}},
}
LEGAL = 30  # repetitions that tools write

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(scope="module")
def server(mongo_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrillServer]:
    directory = Path(tmp_path_factory.mktemp("server"))
    options = {"mclient__connection_string": mongo_uri, "graphql__db": "levels"}
    with (
        MongoClient[dict[str, Any]](mongo_uri) as mongo,
        serving(directory, **options) as server,
    ):
        mongo.drop_database("levels")
        mongo["levels"]["gql-apps"].insert_one(APP)
        query = {"query": "{lvl{n}}"}
        wait_until(lambda: server.ask("POST", "/graphql/levels", query)[0] == 200)
        yield server


@dataclass(frozen=True)
class Asked:
    """What became of all queries of a kind."""

    answers: set[tuple[int, str]]
    times: list[float]  # the fastest first
    cpu: float  # seconds, for each

    def describe(self) -> str:
        found = (self.times[QUERIES // 2], self.times[int(QUERIES * 0.95)], self.cpu)
        half, most, cpu = (f"{one * 1000:.1f} ms" for one in found)
        return f"{sorted(self.answers)}, half within {half}, 95 of 100 within {most}, CPU {cpu}"


def ask_all(server: DrillServer, field: str, count: int) -> Asked:
    answers, times, before = set(), [], server.read_cpu()
    for number in range(QUERIES):
        query = f"query q{number} {{ lvl {{ {field * count}}} }}"
        status, content, seconds = server.ask("POST", "/graphql/levels", {"query": query})
        errors = json.loads(content).get("errors", [])
        answers.add((status, errors[0]["extensions"]["code"] if errors else ""))
        times.append(seconds)
    return Asked(answers, sorted(times), (server.read_cpu() - before) / QUERIES)


@pytest.mark.parametrize("field", ["n ", "a{n} ", "a{a{n}} ", "...on Level{n} "])
def test_repeated_fields_cost_little(server: DrillServer, field: str) -> None:
    legal, refused = (ask_all(server, field, count) for count in (LEGAL, REPEATED))
    print(f"\n{REPEATED} times {field}: {refused.describe()}; {describe_load()}")
    print(f"{LEGAL} times: {legal.describe()}")
    assert legal.answers == {(200, "")}
    assert refused.answers == {(400, "limit-exceeded")}
    assert refused.times[QUERIES // 2] < LONGEST
    assert refused.cpu < LONGEST
