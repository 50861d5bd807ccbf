"""Schemathesis reads `/openapi.json` and sends what it can think of to everything described there.

No answer may be a fault of the server, have a status that is not described, or a body that is not
as described. It runs as a program of its own against a real server, and thinks of other things each
time: its seed is that of the test run, which pytest prints and `--randomly-seed` repeats.

That takes long for everything described, and the values at the bounds of parameters and bodies are
thousands of requests, nearly the same for many paths: each run tries some paths, which its seed
chooses, and `make conformance` all of them.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.databases import drop, new_name
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


# Of so many paths, a run tries one: with what chance thinks of, and with the values at bounds.
SHARES = {"fuzzing": 4, "coverage": 16}


def fill(address: str) -> dict[str, int]:
    """A collection with and one without a schema; the paths that are to be tried then.

    With each of them stands how many operations it has.
    """
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
    return {
        path: sum("responses" in one for one in item.values())
        # It does not try the one that it has read the description from.
        for path, item in paths.items()
        if not re.match(EXCLUDED, path) and path != "/openapi.json"
    }


@contextmanager
def described(mongo: Mongo, uri: str, directory: Path) -> Iterator[tuple[str, dict[str, int]]]:
    """The address of a server with something of everything, and its paths."""
    db = new_name()
    settings = (
        f"/mclient/connection-string={uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{db}","where":"/"}}]',
        f"/graphql/db={db}_apps",
        "/dbRealmAuthenticator/enabled=false",
        "/basicAuthMechanism/enabled=false",
        "/dbAclAuthorizer/enabled=false",
        "/logging/level=error",
    )
    mongo[f"{db}_apps"]["gql-apps"].insert_one(APP)
    try:
        with serving(directory, *settings) as (_, address):
            yield address, fill(address)
    finally:
        drop(mongo, db)
        drop(mongo, f"{db}_apps")


def choose(paths: Mapping[str, int], seed: int) -> dict[str, Collection[str]]:
    """The paths that a run with this seed tries, by phase."""
    names = random.Random(seed).sample(sorted(paths), len(paths))
    return {phase: names[: -(-len(names) // share)] for phase, share in SHARES.items()}


def attack(
    address: str,
    paths: Mapping[str, int],
    tried: Mapping[str, Collection[str]],
    seed: int,
    directory: Path,
) -> None:
    """Have everything sent that it thinks of, in each phase to the paths that are tried there.

    The server withstands it.
    """
    names = {name for phase in tried.values() for name in phase}
    config = directory / "schemathesis.toml"
    config.write_text(SETTINGS + "".join(_leave_out(phase, names, tried[phase]) for phase in tried))
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            f"--config-file={config}",
            "run",
            f"{address}/openapi.json",
            f"--checks={','.join(CHECKS)}",
            f"--phases={','.join(tried)}",
            "--max-examples=3",
            *(f"--include-path={name}" for name in sorted(names)),
            f"--seed={seed}",
            "--continue-on-failure",
            "--no-color",
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}: {done.stdout[-8000:]}{done.stderr}"
    selected = re.search(r"Selected: (\d+)/\d+\s+Tested: (\d+)", done.stdout)
    assert selected is not None, done.stdout[-2000:]
    expected = sum(paths[name] for name in names)
    assert {int(number) for number in selected.groups()} == {expected}
    for phase in tried:
        # "Coverage (in 9.10s)", and below it "10 passed"
        passed = re.search(rf"{phase.title()} \(in .*\)\s+\S+\s+(\d+) passed", done.stdout)
        assert passed is not None, done.stdout[-2000:]
        assert int(passed[1]) == sum(paths[name] for name in tried[phase])


def _leave_out(phase: str, names: Collection[str], tried: Collection[str]) -> str:
    """The settings by which a phase leaves out the paths that only others try."""
    others = sorted(set(names) - set(tried))
    if not others:
        return ""
    return f"""
[[operations]]
include-path = {json.dumps(others)}
phases.{phase}.enabled = false
"""


@pytest.mark.usefixtures("preloaded")
@pytest.mark.timeout(600)
def test_nothing_that_is_sent_gets_an_answer_that_is_not_described(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path, run_seed: int
) -> None:
    with described(mongo_client, mongo_uri, tmp_path) as (address, paths):
        attack(address, paths, choose(paths, run_seed), run_seed, tmp_path)
