"""Pages for curl: their commands, run in order in one shell against a real server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.databases import drop, new_name
from tests.docs.test_examples import fenced
from tests.http.harness import Mongo
from tests.process.test_serve import serving
from tests.programs import require

PAGES = {
    "docs/how-to/use-the-rest-api.md": ("/dbAclAuthorizer/enabled=false",),
    "docs/how-to/import.md": ("/dbAclAuthorizer/enabled=false",),
    "docs/how-to/export-csv.md": ("/dbAclAuthorizer/enabled=false",),
    "docs/how-to/cache-answers.md": ("/dbAclAuthorizer/enabled=false",),
    "docs/how-to/live-queries.md": ("/dbAclAuthorizer/enabled=false",),
    "docs/reference/rest-batch.md": ("/dbAclAuthorizer/enabled=false",),
    "docs/reference/tools.md": (
        "/fullAuthorizer/enabled=false",
        "/tokenBasicAuthMechanism/enabled=false",
        "/identityAuthMechanism/enabled=true",
        "/identityAuthMechanism/username=admin",
        '/identityAuthMechanism/roles=["admin"]',
    ),
}
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


def check_page(page: str, directory: Path, db: str, *settings: str) -> None:
    """Run the commands of a page; what stands below them has to come of them.

    The first snippet says where the server is; `docgraph` stands for the database.
    """
    require("bash", "curl")
    (first, _), *snippets = map(split, fenced(page, "sh"))
    with serving(directory, *settings) as (_, address):
        assert "http://localhost:8080" in first
        script = [first.replace("http://localhost:8080", address)]
        for commands, _ in snippets:
            # -s and a line break, for the output to be read line by line
            adapted = commands.replace("curl ", "curl -s ").replace('"docgraph"', f'"{db}"')
            script += [adapted, f"echo; echo '{MARK}'"]
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", "\n".join(script)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd=directory,
        )
    told = done.stdout.replace(address, "http://localhost:8080").replace(db, "docgraph")
    outputs = told.split(MARK)
    assert len(outputs) == len(snippets) + 1
    for (commands, expected), output in zip(snippets, outputs, strict=False):
        for line in expected:
            assert matches(line, output), f"{commands}\n{line}\n---\n{output}"


def settle(mongo_uri: str, db: str) -> tuple[str, ...]:
    """The settings of a server without users whose data are one database."""
    return (
        f"/mclient/connection-string={mongo_uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{db}","where":"/"}}]',
        f"/graphql/db={db}",
        f"/dbAclAuthorizer/acl-db={db}",
        "/dbRealmAuthenticator/enabled=false",
        "/basicAuthMechanism/enabled=false",
        "/logging/level=error",
    )


@pytest.mark.usefixtures("preloaded")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_does_what_is_said_below_it(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path, page: str
) -> None:
    db = new_name()
    try:
        check_page(page, tmp_path, db, *settle(mongo_uri, db), *PAGES[page])
    finally:
        drop(mongo_client, db)
