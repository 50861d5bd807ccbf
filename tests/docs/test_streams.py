"""The pages on change streams say what the code does, and their programs run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import httpx2
import pytest
import yaml

from docgraph.config.options import options_of
from docgraph.events.sections import Events
from docgraph.exchange import close_reason
from docgraph.exchange.close_reason import LEFT, CloseReason
from docgraph.rest.properties import check_properties
from docgraph.store import Policy
from docgraph.store.guard.stage_checks import STREAM_STAGES
from tests.databases import drop, new_name
from tests.docs.test_examples import EXAMPLES, ROOT, fenced
from tests.http.harness import Mongo
from tests.process.commands import Process
from tests.process.harness import eventually
from tests.process.test_serve import serving

REFERENCE = (ROOT / "docs/reference/streams.md").read_text()
TUTORIAL = "docs/tutorial/chat.md"
HOW_TO = "docs/how-to/follow-changes.md"
CHAT = EXAMPLES / "chat"


def section(title: str) -> str:
    return REFERENCE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_way_a_stream_ends_is_in_the_reference() -> None:
    """Decision 42: a close code and a reason."""
    rows = re.findall(r"^\| (\d+) \| `(.+?)` \|", section("The end"), re.MULTILINE)
    endings = {one for one in vars(close_reason).values() if isinstance(one, CloseReason)} - {LEFT}

    assert {(int(code), reason) for code, reason in rows} == {
        (one.code, one.reason) for one in endings
    }


def test_every_bound_is_in_the_reference() -> None:
    named = set(re.findall(r"`([a-z-]+)`", section("Bounds")))

    assert set(options_of(Events)) <= named


def test_the_stages_that_are_allowed_are_in_the_reference() -> None:
    (row,) = re.findall(r"^\| `stages` \|(.*)\|$", REFERENCE, re.MULTILINE)

    assert set(re.findall(r"`(\$\w+)`", row)) == STREAM_STAGES


def test_the_definition_of_the_reference_can_be_written() -> None:
    body = section("Definition").partition("PATCH /messages\n")[2].partition("```")[0]

    check_properties(json.loads(body), db="docgraph", policy=Policy(), of_collection=True)


def test_the_tutorial_shows_the_files_of_the_example() -> None:
    configuration, rules = map(yaml.safe_load, fenced(TUTORIAL, "yaml"))
    (properties,) = map(json.loads, fenced(TUTORIAL, "json"))

    stored = yaml.safe_load((CHAT / "docgraph.yml").read_text())
    assert configuration == {name: stored[name] for name in configuration}
    assert rules == yaml.safe_load((CHAT / "rules.yml").read_text())
    assert properties == json.loads((CHAT / "messages.json").read_text())


@pytest.mark.usefixtures("preloaded")
def test_the_python_program_follows_a_stream_over_a_restart(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    db = new_name()
    settings = (
        f"/mclient/connection-string={mongo_uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{db}","where":"/"}}]',
        f"/graphql/db={db}",
        "/fileRealmAuthenticator/enabled=true",
        '/fileRealmAuthenticator/users=[{"userid": "ada", "password": "secret", "roles": []}]',
        "/basicAuthMechanism/authenticator=fileRealmAuthenticator",
        "/dbRealmAuthenticator/enabled=false",
        "/logging/level=error",
    )
    (definition,) = re.findall(r"-d '(.*)'", fenced(HOW_TO, "sh")[0])
    (program,) = fenced(HOW_TO, "python")
    try:
        with serving(tmp_path, *settings) as (first, address):
            ask(address, "PUT", "/notes", json.loads(definition))
            path = tmp_path / "follow.py"
            path.write_text(program.replace("http://127.0.0.1:8080", address))
            with subprocess.Popen(
                [sys.executable, "-u", path], stdout=subprocess.PIPE, text=True
            ) as following:
                lines = Lines(following)
                ask_until_seen(address, lines)
                stop(first)
                port = address.rsplit(":", 1)[1]
                with serving(tmp_path, *settings, f"/http-listener/port={port}"):
                    ask(address, "PUT", "/notes/last?wm=upsert", {})
                    eventually(lambda: lines.seen("insert {'_id': 'last'}"))
                following.kill()
                lines.close()
    finally:
        drop(mongo_client, db)


class Lines:
    """What a program prints, collected as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._lines.extend, args=(process.stdout,))
        self._reader.start()

    def seen(self, line: str) -> bool:
        return f"{line}\n" in list(self._lines)

    def close(self) -> None:
        self._reader.join()


def ask(address: str, method: str, path: str, body: object) -> None:
    httpx2.request(method, f"{address}{path}", json=body).raise_for_status()


def ask_until_seen(address: str, lines: Lines) -> None:
    """Write until the program has told of something: it needs a moment to connect."""

    def write() -> bool:
        ask(address, "PUT", "/notes/first?wm=upsert", {})
        return lines.seen("insert {'_id': 'first'}") or lines.seen("replace {'_id': 'first'}")

    eventually(write)


def stop(server: Process) -> None:
    server.terminate()
    server.wait(60)
