"""The conformance suites of the Model Context Protocol (npm) against a real server.

`make conformance` runs them: their packages take a minute and 240 MB to install, so the usual test
run leaves them out. What is listed below needs fixtures that are no business of ours (tools that
send images, prompts, sampling); everything else has to pass, check by check.
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
from tests.process.harness import Server, run_server
from tests.programs import require

SUITE = Path(__file__).parent / "mcp"
# Scenarios about tools, prompts and resources that a server has only for this suite, and about
# parts of the protocol that we do not offer.
RULED_OUT = (
    "tools-call-",  # image, audio, progress … of tools called test_…
    "prompts-",
    "resources-read-",
    "resources-templates-read",
    "resources-subscribe",
    "resources-unsubscribe",
    "completion-complete",
    "elicitation-",
    "input-required-result-",
    "json-schema-2020-12",
    "http-custom-header-server-validation",
)
MUST = {
    "stable": {"server-initialize", "ping", "tools-list", "resources-list"}
    | {"dns-rebinding-protection"},
    "draft": {"server-stateless", "http-header-validation", "dns-rebinding-protection"}
    | {"tools-list", "resources-list", "sep-2164-resource-not-found", "caching"},
}


@pytest.fixture(scope="module")
def suite() -> Path:
    """The directory of the suites, with their packages installed."""
    require("node", "npm")
    if not (SUITE / "node_modules" / "stable").is_dir():
        install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
        subprocess.run(install, cwd=SUITE, capture_output=True, timeout=600, check=True)
    return SUITE


@pytest.fixture(scope="module")
def server(
    preloaded: None, mongo_uri: str, mongo_client: MongoClient[dict[str, Any]]
) -> Iterator[Server]:
    """An open server with an app; the suites know no credentials and are fast."""
    db = new_name()
    mapping = {"Query": {"posts": {"db": db, "collection": "posts"}}}
    operations = [{"name": "titles", "query": "{ posts { title } }"}]
    mongo_client[db]["gql-apps"].insert_one(
        {
            "_id": "blog",
            "descriptor": {"description": "Posts", "operations": operations},
            "schema": "type Query { posts: [Post] } type Post { title: String }",
            "mappings": mapping,
        }
    )
    settings = {
        "mclient": {"connection-string": mongo_uri},
        "graphql": {"db": db},
        "fullAuthorizer": {"enabled": True, "authentication-required": False},
        "mcp": {"enabled": True, "calls-per-second": 100_000},
    }
    with run_server(settings) as one:
        yield one
    drop(mongo_client, db)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("package", "version"), [("stable", "2025-11-25"), ("draft", "2026-07-28")]
)
def test_every_scenario_that_needs_no_fixture_passes(
    suite: Path, server: Server, tmp_path: Path, package: str, version: str
) -> None:
    """Drill P01."""
    program = suite / "node_modules" / package / "dist" / "index.js"
    url = f"http://127.0.0.1:{server.port}/mcp"
    node = suite / "node_modules/.bin/node"
    command = [str(node), str(program), "server", "--url", url, "-o", str(tmp_path)]
    command += ["--suite", "all", "--spec-version", version]
    subprocess.run(command, capture_output=True, timeout=500, check=False)

    failures: list[str] = []
    seen: set[str] = set()
    for path in sorted(tmp_path.rglob("checks.json")):
        scenario = path.parent.name.removeprefix("server-").rsplit("-20", 1)[0]
        seen |= {scenario, f"server-{scenario}"}
        if not scenario.startswith(RULED_OUT):
            failures += [f"{scenario}: {one}" for one in _find_failures(path)]
    assert failures == []
    assert MUST[package] <= seen


def _find_failures(path: Path) -> Iterator[str]:
    for check in json.loads(path.read_text()):
        is_testable = not (check.get("details") or {}).get("untestable")
        if check.get("status") == "FAILURE" and is_testable:
            yield f"{check['id']}: {check.get('errorMessage')}"
