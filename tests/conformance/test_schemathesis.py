"""Schemathesis reads `/openapi.json` and sends what it can think of to everything described there.

No answer may be a fault of the server, have a status that is not described, or a body that is not
as described. It runs as a program of its own against a real server, and thinks of other things each
time: its seed is that of the test run, which pytest prints and `--randomly-seed` repeats.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from tests.http.harness import Mongo
from tests.process.test_serve import serving

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
PERSON = {
    "_id": "person",
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
}
STAGES = [{"$match": {"n": {"$gt": {"$var": "min"}}}}, {"$limit": {"$var": ["most", 5]}}]
STREAMS = [{"uri": "all", "stages": []}]
# 501 is an answer: understood, deliberately not done.
SETTINGS = """\
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 501]
"""
# What is the same for a collection with a schema as for one without.
EXCLUDED = r"^/people/(_|\*)"
APP = {"_id": "films", "schema": "type Query { a: Int }", "mappings": {"Query": {}}}


def fill(address: str) -> int:
    """A collection with and one without a schema; how many operations are to be tried then."""
    with httpx2.Client(base_url=address) as client:
        for method, path, body in (
            ("PUT", "/things", {"aggrs": [{"uri": "above", "stages": STAGES}], "streams": STREAMS}),
            ("POST", "/things", [{"_id": "a", "n": 1}, {"_id": "b", "n": 2}]),
            ("PUT", "/_schemas", {}),
            ("POST", "/_schemas", PERSON),
            ("PUT", "/people", {"jsonSchema": {"schemaId": "person"}}),
            ("POST", "/people", {"_id": "ada", "name": "Ada"}),
        ):
            reply = client.request(method, path, json=body)
            assert reply.is_success, reply.text
        paths = client.get("/openapi.json").json()["paths"]
    asked = [item for path, item in paths.items() if not re.match(EXCLUDED, path)]
    return sum("responses" in one for item in asked for one in item.values())


@pytest.mark.usefixtures("preloaded")
@pytest.mark.timeout(300)
def test_nothing_that_is_sent_gets_an_answer_that_is_not_described(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path, run_seed: int
) -> None:
    db = f"test_{uuid4().hex[:16]}"
    settings = (
        f"/mclient/connection-string={mongo_uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{db}","where":"/"}}]',
        f"/graphql/db={db}_apps",
        "/dbRealmAuthenticator/enabled=false",
        "/basicAuthMechanism/enabled=false",
        "/dbAclAuthorizer/enabled=false",
        "/logging/level=error",
    )
    mongo_client[f"{db}_apps"]["gql-apps"].insert_one(APP)
    config = tmp_path / "schemathesis.toml"
    config.write_text(SETTINGS)
    try:
        with serving(tmp_path, *settings) as (_, address):
            described = fill(address)
            done = subprocess.run(
                [
                    Path(sys.executable).with_name("schemathesis"),
                    f"--config-file={config}",
                    "run",
                    f"{address}/openapi.json",
                    f"--checks={','.join(CHECKS)}",
                    "--phases=coverage,fuzzing",
                    "--max-examples=3",
                    f"--exclude-path-regex={EXCLUDED}",
                    f"--seed={run_seed}",
                    "--continue-on-failure",
                    "--no-color",
                ],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
    finally:
        mongo_client.drop_database(db)
        mongo_client.drop_database(f"{db}_apps")

    assert done.returncode == 0, f"seed {run_seed}: {done.stdout[-8000:]}{done.stderr}"
    selected = re.search(r"Selected: (\d+)/\d+\s+Tested: (\d+)", done.stdout)
    assert selected is not None, done.stdout[-2000:]
    # All but the one that it has read the description from.
    assert {int(number) for number in selected.groups()} == {described - 1}
