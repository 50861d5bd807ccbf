"""`docgraph streams tail`: events in a terminal."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
import pytest

from tests.http.harness import Mongo
from tests.process.commands import Process, run, start
from tests.process.harness import eventually
from tests.process.test_serve import serving

STREAMS = [
    {"uri": "all", "stages": []},
    {"uri": "named", "stages": [{"$match": {"fullDocument.name": {"$var": "name"}}}]},
]


@pytest.fixture
def db(mongo_client: Mongo) -> Iterator[str]:
    name = f"test_{uuid4().hex[:16]}"
    yield name
    mongo_client.drop_database(name)


@contextmanager
def server(cwd: Path, uri: str, db: str, *settings: str) -> Iterator[tuple[Process, str]]:
    own = (
        f"/mclient/connection-string={uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{db}","where":"/"}}]',
        f"/graphql/db={db}",
        "/dbRealmAuthenticator/enabled=false",
        "/basicAuthMechanism/enabled=false",
        "/dbAclAuthorizer/enabled=false",
        "/logging/level=error",
    )
    with serving(cwd, *own, *settings) as (process, address):
        httpx2.put(f"{address}/things", json={"streams": STREAMS}).raise_for_status()
        yield process, address


@contextmanager
def tail(address: str, *arguments: str) -> Iterator[Process]:
    with start("streams", "tail", f"--url={address}", *arguments) as process:
        yield process


def write(address: str, id: str, **document: Any) -> None:
    path = f"{address}/things/{id}?wm=upsert"
    httpx2.put(path, json=document).raise_for_status()


def follow(process: Process, address: str) -> None:
    """Let the process print something, after which it misses nothing."""
    lines: list[str] = []
    eventually(lambda: write(address, "probe", n=uuid4().hex) or has_client(address))
    while not lines or "probe" not in lines[-1]:
        lines.append(process.stdout.readline())


def has_client(address: str) -> bool:
    text = httpx2.get(f"{address}/metrics").text
    return 'docgraph_stream_clients{transport="sse"} 1.0' in text


def read_events(process: Process) -> Iterator[dict[str, Any]]:
    """The events that are not about the probe."""
    while line := process.stdout.readline():
        event = json.loads(line)
        if event["documentKey"]["_id"] != "probe":
            yield event


def test_events_are_printed_until_ctrl_c_which_is_quiet(
    tmp_path: Path, mongo_uri: str, db: str
) -> None:
    with server(tmp_path, mongo_uri, db) as (_, address), tail(address, "things/all") as process:
        follow(process, address)
        write(address, "a", text="hello\x1b[2J")
        httpx2.patch(f"{address}/things/a", json={"n": 1}).raise_for_status()
        httpx2.delete(f"{address}/things/a").raise_for_status()
        lines = []
        while len(lines) < 3:
            line = process.stdout.readline()
            lines += [] if "probe" in line else [line.split("  ")[1:]]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    assert [line[0] for line in lines] == ["insert", "update", "delete\n"][:2] + ["delete"]
    assert lines[0][1] == '"a"'
    assert json.loads(lines[0][2])["text"] == "hello\x1b[2J"
    assert json.loads(lines[1][2])["updatedFields"]["n"] == 1


def test_json_has_the_id_that_a_later_call_resumes_after(
    tmp_path: Path, mongo_uri: str, db: str
) -> None:
    with server(tmp_path, mongo_uri, db) as (_, address):
        with tail(address, "things/all", "--json") as process:
            follow(process, address)
            write(address, "a", n=1)
            first = next(read_events(process))
        write(address, "b", n=2)
        token = json.dumps(first["_id"])
        with tail(address, "things/all", "--json", "--resume-after", token) as process:
            second = next(read_events(process))
        named = ("--json", "--resume-after", token, "--query", 'avars={"name": "c"}')
        with tail(address, "things/named", *named) as process:
            write(address, "c", name="c")
            third = next(read_events(process))
    assert first["fullDocument"]["n"] == 1
    assert second["fullDocument"]["n"] == 2
    assert third["documentKey"] == {"_id": "c"}


def test_a_server_that_comes_back_is_followed_without_a_gap(
    tmp_path: Path, mongo_uri: str, db: str
) -> None:
    with server(tmp_path, mongo_uri, db) as (serving, address):
        process = start("streams", "tail", f"--url={address}", "things/all", "--json")
        with process:
            follow(process, address)
            write(address, "before", n=1)
            events = read_events(process)
            assert next(events)["documentKey"]["_id"] == "before"
            serving.terminate()
            assert "connecting again" in process.stderr.readline()
            serving.wait(60)
            port = f"/http-listener/port={urlsplit(address).port}"
            with server(tmp_path, mongo_uri, db, port) as (_, again):
                for number in range(3):
                    write(again, f"after-{number}")
                seen = [next(events)["documentKey"]["_id"] for _ in range(3)]
    assert seen == ["after-0", "after-1", "after-2"]


def test_what_cannot_be_followed_is_one_message(tmp_path: Path, mongo_uri: str, db: str) -> None:
    with server(tmp_path, mongo_uri, db) as (_, address):
        unknown = run("streams", "tail", f"--url={address}", "things/unknown")
        other = run("streams", "tail", f"--url={address}", "things/all", "--resume-after=82")
    gone = run("streams", "tail", f"--url={address}", "things/all")

    assert [one.returncode for one in (unknown, other, gone)] == [1, 1, 1]
    assert "the server refuses: Change Stream does not exist" in unknown.stderr
    assert "the change stream cannot be resumed from this token" in other.stderr
    assert f"{address} does not answer" in gone.stderr


def test_who_has_to_log_in_is_told_how_and_can(tmp_path: Path, mongo_uri: str, db: str) -> None:
    users = [{"userid": "ada", "password": "lovelace", "roles": ["any"]}]
    secured = (
        "/fileRealmAuthenticator/enabled=true",
        f"/fileRealmAuthenticator/users={json.dumps(users)}",
        "/basicAuthMechanism/enabled=true",
        "/basicAuthMechanism/authenticator=fileRealmAuthenticator",
    )
    with server(tmp_path, mongo_uri, db) as (_, address):
        pass
    closed = (*secured, "/fullAuthorizer/authentication-required=true")
    with serving(
        tmp_path,
        f"/mclient/connection-string={mongo_uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{db}","where":"/"}}]',
        f"/graphql/db={db}",
        "/dbRealmAuthenticator/enabled=false",
        "/dbAclAuthorizer/enabled=false",
        *closed,
    ) as (_, address):
        unknown = run("streams", "tail", f"--url={address}", "things/all")
        wrong = run("streams", "tail", f"--url={address}", "-u", "ada", "things/all", input="no\n")
        secret = tmp_path / "password"
        secret.write_text("lovelace\n")
        options = ("-u", "ada", f"--password-file={secret}", "--json")
        with tail(address, *options, "things/all") as process:
            event: list[Any] = []
            with httpx2.Client(auth=("ada", "lovelace")) as client:
                eventually(
                    lambda: client.get(f"{address}/metrics").text.count(
                        'docgraph_stream_clients{transport="sse"} 1.0'
                    )
                )
                client.put(f"{address}/things/a?wm=upsert", json={}).raise_for_status()
            event.append(json.loads(process.stdout.readline()))
    for refused in (unknown, wrong):
        assert refused.returncode == 1
        assert "--user or --token-file says who you are" in refused.stderr
    assert event[0]["documentKey"] == {"_id": "a"}
