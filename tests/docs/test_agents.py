"""The example for agents, run as its README says; and the page on agents."""

from __future__ import annotations

import json
import re
import runpy
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from pymongo import MongoClient

from docgraph.codec import decode
from docgraph.mcp.sections import Mcp
from tests.databases import drop, new_name
from tests.docs.test_examples import EXAMPLES, ROOT, adapt, fenced
from tests.process.commands import run
from tests.process.harness import run_server

Mongo = MongoClient[dict[str, Any]]

AGENTS = EXAMPLES / "agents"
PAGE = "docs/how-to/agents.md"
PASSWORD = "correct horse battery"


@pytest.mark.usefixtures("preloaded")
def test_the_written_session_says_what_stands_beside_it(
    mongo_client: Mongo, mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = new_name()
    settings = yaml.safe_load((AGENTS / "docgraph.yml").read_text())
    own: dict[str, dict[str, Any]] = {
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
            script, url = str(AGENTS / "session.py"), f"http://127.0.0.1:{server.port}/mcp"
            monkeypatch.setattr(sys, "argv", [script, url, f"ada:{PASSWORD}"])
            with redirect_stdout(StringIO()) as told:
                runpy.run_path(script, run_name="__main__")
    finally:
        drop(mongo_client, db)

    assert told.getvalue() == (AGENTS / "session.txt").read_text()


def _fill(database: Any) -> None:
    for file in (AGENTS / "data").glob("*.json"):
        database[file.stem].insert_many(decode(file.read_bytes()))
    database["gql-apps"].insert_one(adapt((AGENTS / "app.json").read_text(), database.name))


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
