"""The page on the REST API: its commands, run in order in one shell against a real server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from tests.docs.test_examples import fenced
from tests.http.harness import Mongo
from tests.process.test_serve import serving
from tests.programs import require

PAGE = "docs/how-to/use-the-rest-api.md"
MARK = "--- next ---"


def split(snippet: str) -> tuple[str, list[str]]:
    """The commands, and the lines that are said to come of them."""
    lines = snippet.splitlines()
    commands = [line for line in lines if not line.startswith("# ")]
    return "\n".join(commands), [line[2:] for line in lines if line.startswith("# ")]


def matches(expected: str, output: str) -> bool:
    """Whether a line of the output is the expected one; `…` stands for anything."""
    pattern = ".*".join(map(re.escape, expected.split("…")))
    return any(re.fullmatch(pattern, line.strip()) for line in output.splitlines())


@pytest.mark.usefixtures("preloaded")
def test_every_command_of_the_page_does_what_is_said_below_it(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    require("bash", "curl")
    db = f"test_{uuid4().hex[:16]}"
    settings = (
        f"/mclient/connection-string={mongo_uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{db}","where":"/"}}]',
        f"/graphql/db={db}",
        "/dbRealmAuthenticator/enabled=false",
        "/basicAuthMechanism/enabled=false",
        "/dbAclAuthorizer/enabled=false",
        "/logging/level=error",
    )
    (first, _), *snippets = map(split, fenced(PAGE, "sh"))
    try:
        with serving(tmp_path, *settings) as (_, address):
            assert "http://localhost:8080" in first
            script = [first.replace("http://localhost:8080", address)]
            for commands, _ in snippets:
                # -s and a line break, for the output to be read line by line
                script += [commands.replace("curl ", "curl -s "), f"echo; echo '{MARK}'"]
            done = subprocess.run(
                ["bash", "-eu", "-o", "pipefail", "-c", "\n".join(script)],
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            )
    finally:
        mongo_client.drop_database(db)

    outputs = done.stdout.replace(address, "http://localhost:8080").split(MARK)
    assert len(outputs) == len(snippets) + 1
    for (commands, expected), output in zip(snippets, outputs, strict=False):
        for line in expected:
            assert matches(line, output), f"{commands}\n{line}\n---\n{output}"
