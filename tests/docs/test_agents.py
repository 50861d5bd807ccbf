"""The example for agents, run as its README says; and the page on agents."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from pymongo import MongoClient

from docgraph.codec import decode
from docgraph.mcp.sections import Mcp
from tests.databases import drop
from tests.docs.test_examples import EXAMPLES, ROOT, adapt, fenced
from tests.process.commands import run
from tests.process.harness import run_server
from tests.programs import run_program

Mongo = MongoClient[dict[str, Any]]

AGENTS = EXAMPLES / "agents"
PAGE = "docs/how-to/agents.md"
PASSWORD = "correct horse battery"


@pytest.mark.usefixtures("preloaded")
def test_the_written_session_says_what_stands_beside_it(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    db = f"test_{uuid4().hex[:16]}"
    settings = yaml.safe_load((AGENTS / "docgraph.yml").read_text())
    own = {
        "mclient": {"connection-string": mongo_uri},
        "graphql": {"db": db},
        "dbRealmAuthenticator": {"users-db": db},
        "dbAclAuthorizer": {"acl-db": db},
        "fullAuthorizer": {"enabled": False},
    }
    options = [
        f"--set=/{section}/{name}={json.dumps(value)}"
        for section, values in own.items()
        for name, value in values.items()
    ]
    try:
        _fill(mongo_client[db])
        added = run("users", "add", "ada", "--role", "shop-agent", *options, input=PASSWORD)
        assert added.returncode == 0, added.stderr
        with run_server({**own, **settings}) as server:
            told = asyncio.run(_converse(f"http://127.0.0.1:{server.port}/mcp"))
    finally:
        drop(mongo_client, db)

    assert told == (AGENTS / "session.txt").read_text()


def _fill(database: Any) -> None:
    for file in (AGENTS / "data").glob("*.json"):
        database[file.stem].insert_many(decode(file.read_bytes()))
    database["gql-apps"].insert_one(adapt((AGENTS / "app.json").read_text(), database.name))


async def _converse(url: str) -> str:
    command = [sys.executable, str(AGENTS / "session.py"), url, f"ada:{PASSWORD}"]
    done = await run_program(*command, cwd=ROOT)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_the_page_names_every_tool_and_every_option() -> None:
    page = (ROOT / PAGE).read_text()
    session = (AGENTS / "session.txt").read_text()

    for tool in re.findall(r"\w+", session.splitlines()[0].removeprefix("tools:")):
        assert f"`{tool}`" in page or "__" in tool, tool
    for option in Mcp.__struct_encode_fields__:
        if option not in ("enabled", "secured", "max-body-size"):
            assert option in page, option


def test_the_configurations_of_clients_can_be_read() -> None:
    snippets = [json.loads(text) for text in fenced(PAGE, "json")]

    assert len(snippets) >= 4
    for snippet in snippets:
        servers = snippet.get("mcpServers") or snippet.get("servers")
        if servers is not None:
            assert servers["docgraph"].keys() & {"url", "command"}


def test_the_rules_of_the_page_are_rules(tmp_path: Path) -> None:
    for text in fenced(PAGE, "yaml"):
        assert isinstance(yaml.safe_load(text), dict)
