"""`docgraph top` shows what the database does for operations, and no value of it."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.process.commands import run
from tests.process.harness import eventually

COMMENT = {"app": "blog", "operation": "Front", "field": "Query.posts", "request": "r-1"}
ENDLESS: list[dict[str, Any]] = [
    {"$project": {"n": {"$range": [0, 100_000]}}},
    {"$unwind": "$n"},
    {"$project": {"m": {"$range": [0, 100_000]}}},
    {"$unwind": "$m"},
    {"$match": {"m": "secret"}},
]


def test_a_running_command_is_shown_with_its_operation_and_without_its_values(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str
) -> None:
    options = (f"--set=/mclient/connection-string={mongo_uri}", f"--set=/graphql/db={database}")
    posts = mongo_client[database]["posts"]
    posts.insert_one({})

    def ask() -> None:
        with suppress(OperationFailure):  # it is killed below
            list(posts.aggregate(ENDLESS, comment=COMMENT, maxTimeMS=60_000))

    def look() -> list[dict[str, Any]]:
        told = run("top", "--json", *options)
        assert told.returncode == 0, told.stderr
        assert "secret" not in told.stdout
        rows: list[dict[str, Any]] = json.loads(told.stdout)
        return [row for row in rows if row["collection"] == posts.full_name]

    assert look() == []
    asker = threading.Thread(target=ask)
    asker.start()
    try:
        (row,) = eventually(look)
    finally:
        for one in mongo_client.admin.aggregate([{"$currentOp": {}}]):
            if one.get("ns") == posts.full_name:
                mongo_client.admin.command({"killOp": 1, "op": one["opid"]})
        asker.join(90)

    assert {name: row[name] for name in COMMENT} == COMMENT
    assert row["plan"] == "COLLSCAN"
    assert row["ms"] > 0
