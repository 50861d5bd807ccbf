"""The audit suite of GraphQL over HTTP (npm `graphql-http`) against a real server.

Eleven of its 61 audits contradict the specification, which wins: it fixes the type of the response,
knows no GET, answers 400 to what cannot be run, and writes `data: null` beside errors.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.databases import drop, new_name
from tests.npm import install
from tests.process.harness import run_server

SUITE = Path(__file__).parent / "graphql_http"
AUDITS = 61
RULED_OUT = {
    "4655": "the response type is always application/graphql-response+json",
    "47DE": "the same, for Accept */*",
    "80D8": "the same, without Accept",
    "5A70": "GET is 405",
    "D6D5": "GET is 405, with variables",
    "6A70": "GET is 405, with variables",
    "572B": "a syntax error is 400, whatever Accept says",
    "FDE2": "a validation error is 400, whatever Accept says",
    "7B9B": "a variable that does not fit is 400, whatever Accept says",
    "D586": "a syntax error has data: null",
    "5E5B": "a validation error has data: null",
}


@pytest.fixture(scope="module")
def suite() -> Path:
    """The directory of the suite, with its packages installed."""
    install(SUITE, "graphql-http")
    return SUITE


@pytest.mark.usefixtures("preloaded")
def test_exactly_the_audits_that_the_specification_rules_out_fail(
    suite: Path, mongo_uri: str, mongo_client: MongoClient[dict[str, Any]]
) -> None:
    """Decision 22, drill G01: 50 of 61."""
    db = new_name()
    mongo_client[db]["gql-apps"].insert_one(
        {"_id": "audit", "schema": "type Query { hello: String }", "mappings": {"Query": {}}}
    )
    settings = {
        "mclient": {"connection-string": mongo_uri},
        "core": {"plugins-directory": str(suite)},
        "graphql": {"db": db},
        "fullAuthorizer": {"enabled": True, "authentication-required": False},
    }
    try:
        with run_server(settings) as server:
            done = subprocess.run(
                ["node", "audit.js", f"{server.urls[0]}/graphql/audit"],
                cwd=suite,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
    finally:
        drop(mongo_client, db)
    outcomes = json.loads(done.stdout)

    failed = {id: one for id, one in outcomes.items() if one["status"] != "ok"}

    assert len(outcomes) == AUDITS
    assert failed.keys() == RULED_OUT.keys(), failed
