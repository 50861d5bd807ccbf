"""Clients of npm that run live queries, as the page on live queries shows them.

`make conformance` runs them: the usual test run leaves out what has to be installed first.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.databases import drop, new_name
from tests.docs.test_examples import fenced
from tests.npm import install
from tests.process.harness import run_server

CLIENTS = Path(__file__).parent / "npm_live"
QUERY = "query @live { open { title } }"
# What a page leaves to its reader: a token, and what is done with the answers.
BEFORE = """
globalThis.WebSocket ??= (await import("ws")).WebSocket;
const token = "none";
const show = (data, errors) => console.log(JSON.stringify({ data, errors }));
"""
# What follows the code of the page, by the library that it imports first.
AFTER = {
    "graphql-sse": "",
    "graphql-ws": "",
    "@urql/core": """
const { gql } = await import("@urql/core");
client.query(gql`QUERY`, {}).subscribe(({ data, error }) => show(data, error));
""",
    "@apollo/client": "",
}


@pytest.fixture(scope="module")
def app(
    preloaded: None, mongo_uri: str, mongo_client: MongoClient[dict[str, Any]]
) -> Iterator[tuple[int, Any]]:
    """The port of a server with the app of the page, and its collection."""
    install(CLIENTS, "graphql-ws")
    db = new_name()
    tasks = mongo_client[db]["tasks"]
    mapping = {"db": db, "collection": "tasks", "find": {"done": False}, "sort": {"_id": 1}}
    mongo_client[db]["gql-apps"].insert_one(
        {
            "_id": "board",
            "descriptor": {"live": True},
            "schema": "type Query { open: [Task] } type Task { _id: Int title: String }",
            "mappings": {"Query": {"open": mapping}},
        }
    )
    settings = {
        "mclient": {"connection-string": mongo_uri},
        "sample": {"enabled": False},
        "graphql": {"db": db},
        "fullAuthorizer": {"enabled": True, "authentication-required": False},
    }
    try:
        with run_server(settings) as server:
            yield server.port, tasks
    finally:
        drop(mongo_client, db)


def build_program(code: str, library: str, port: int) -> str:
    """The code of the page as a program that prints each answer."""
    imports = [line for line in code.splitlines() if line.startswith("import ")]
    rest = [line for line in code.splitlines() if not line.startswith("import ")]
    given = BEFORE
    if library == "@apollo/client":
        imports[0] = imports[0].replace("{ ApolloClient", "{ gql, ApolloClient")
        given += f"const query = gql`{QUERY}`;\n"
    parts = [*imports, given, *rest, AFTER[library].replace("QUERY", QUERY)]
    return "\n".join(parts).replace("127.0.0.1:8080", f"127.0.0.1:{port}")


@pytest.mark.parametrize("library", AFTER)
def test_a_client_gets_each_new_answer(app: tuple[int, Any], library: str) -> None:
    port, tasks = app
    codes = fenced("docs/how-to/live-queries.md", "js")
    (code,) = (one for one in codes if f'from "{library}"' in one.splitlines()[0])
    # Their Authorization header would be wrong here, where everybody may ask.
    code = "\n".join(line for line in code.splitlines() if "Bearer" not in line)
    tasks.delete_many({})
    tasks.insert_one({"_id": 1, "title": "write", "done": False})
    command = ["node", "--input-type=module", "-e", build_program(code, library, port)]
    with subprocess.Popen(command, cwd=CLIENTS, stdout=subprocess.PIPE, text=True) as client:
        try:
            assert client.stdout is not None
            answers = [json.loads(client.stdout.readline())]
            tasks.insert_one({"_id": 2, "title": "read", "done": False})
            answers.append(json.loads(client.stdout.readline()))
        finally:
            client.kill()
    found = [[task["title"] for task in one["data"]["open"]] for one in answers]
    assert found == [["write"], ["write", "read"]]
