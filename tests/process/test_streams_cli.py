"""`docgraph streams tail`: events in a terminal."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.databases import drop, new_name
from tests.http.harness import Mongo
from tests.process.commands import Process, run, start
from tests.process.harness import eventually
from tests.process.test_serve import serving

STREAMS = [
    {"uri": "all", "stages": []},
    {"uri": "named", "stages": [{"$match": {"fullDocument.name": {"$var": "name"}}}]},
]
USERS = [{"userid": "ada", "password": "lovelace", "roles": ["admin"]}]
ADA = ("ada", "lovelace")
Serving = Callable[..., Any]


@pytest.fixture(scope="module")
def server(
    commands_are_preloaded: None,
    mongo_client: Mongo,
    mongo_uri: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Serving]:
    """Starts servers on the same database; anybody may read their metrics."""
    db = new_name()
    settings = (
        f"/mclient/connection-string={mongo_uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{db}","where":"/"}}]',
        f"/graphql/db={db}",
        "/dbRealmAuthenticator/enabled=false",
        "/fileRealmAuthenticator/enabled=true",
        f"/fileRealmAuthenticator/users={json.dumps(USERS)}",
        "/basicAuthMechanism/authenticator=fileRealmAuthenticator",
        "/metrics/secured=false",
        "/logging/level=error",
    )

    @contextmanager
    def run_server(*more: str) -> Iterator[tuple[Process, str]]:
        with serving(tmp_path_factory.mktemp("server"), *settings, *more) as (process, address):
            body = {"streams": STREAMS}
            httpx2.put(f"{address}/things", json=body, auth=ADA).raise_for_status()
            yield process, address

    yield run_server
    drop(mongo_client, db)


@pytest.fixture(scope="module")
def address(server: Serving) -> Iterator[str]:
    """The server that most tests share."""
    with server() as (_, one):
        yield one


@contextmanager
def tail(address: str, *arguments: str) -> Iterator[Process]:
    """The command, once it is connected."""
    eventually(lambda: not has_client(address))  # of the test before
    with start("streams", "tail", f"--url={address}", *arguments) as process:
        eventually(lambda: has_client(address))
        yield process


def has_client(address: str) -> bool:
    metrics = httpx2.get(f"{address}/metrics").text
    return 'docgraph_stream_clients{transport="sse"} 1.0' in metrics


def write(address: str, id: str, **document: Any) -> None:
    path = f"{address}/things/{id}?wm=upsert"
    httpx2.put(path, json=document, auth=ADA).raise_for_status()


def test_events_are_printed_until_ctrl_c_which_is_quiet(address: str) -> None:
    with tail(address, "things/all") as process:
        write(address, "a", text="hello\x1b[2J")
        httpx2.patch(f"{address}/things/a", json={"n": 1}, auth=ADA).raise_for_status()
        httpx2.delete(f"{address}/things/a", auth=ADA).raise_for_status()
        lines = [process.stdout.readline().rstrip("\n").split("  ") for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")
    assert [line[1:3] for line in lines] == [
        ["insert", '"a"'],
        ["update", '"a"'],
        ["delete", '"a"'],
    ]
    assert json.loads(lines[0][3])["text"] == "hello\x1b[2J"
    assert json.loads(lines[1][3])["updatedFields"]["n"] == 1


def test_json_has_the_id_that_a_later_call_resumes_after(address: str) -> None:
    with tail(address, "things/all", "--json") as process:
        write(address, "b", n=1)
        first = json.loads(process.stdout.readline())
    write(address, "c", n=2)
    token = json.dumps(first["_id"])
    with tail(address, "things/all", "--json", "--resume-after", token) as process:
        second = json.loads(process.stdout.readline())
    assert first["fullDocument"]["n"] == 1
    assert second["fullDocument"]["n"] == 2


def test_parameters_of_the_request_can_be_given(address: str) -> None:
    with tail(address, "things/named", "--json", "--query", 'avars={"name": "ada"}') as process:
        write(address, "d", name="bob")
        write(address, "e", name="ada")
        assert json.loads(process.stdout.readline())["documentKey"] == {"_id": "e"}


def test_a_server_that_comes_back_is_followed_without_a_gap(server: Serving) -> None:
    with server() as (first, address), tail(address, "things/all", "--json") as process:
        write(address, "before", n=1)
        assert json.loads(process.stdout.readline())["documentKey"]["_id"] == "before"
        first.terminate()
        assert "connecting again" in process.stderr.readline()
        first.wait(60)
        with server(f"/http-listener/port={urlsplit(address).port}"):
            for number in range(3):
                write(address, f"after-{number}")
            seen = [json.loads(process.stdout.readline()) for _ in range(3)]
    assert [one["documentKey"]["_id"] for one in seen] == ["after-0", "after-1", "after-2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("things/unknown",), "the server refuses: Change Stream does not exist"),
        (("missing/all",), "the server refuses: Collection 'missing' does not exist"),
        (("things/named",), "the server refuses: variable name not bound"),
        (("things/all", "--resume-after=82"), "cannot be resumed from this token"),
        (("things/all", "--url=http://127.0.0.1:9"), "http://127.0.0.1:9 does not answer"),
    ],
)
def test_what_cannot_be_followed_is_one_message(
    address: str, arguments: tuple[str, ...], message: str
) -> None:
    done = run("streams", "tail", f"--url={address}", *arguments)

    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_who_has_to_log_in_is_told_how_and_can(server: Serving, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("lovelace\n")
    with server("/fullAuthorizer/enabled=false") as (_, address):
        unknown = run("streams", "tail", f"--url={address}", "things/all")
        wrong = run("streams", "tail", f"--url={address}", "-u", "ada", "things/all", input="no\n")
        options = ("-u", "ada", f"--password-file={secret}", "--json", "things/all")
        with tail(address, *options) as process:
            write(address, "f")
            assert json.loads(process.stdout.readline())["documentKey"] == {"_id": "f"}
    for refused in (unknown, wrong):
        assert refused.returncode == 1
        assert "--user or --token-file says who you are" in refused.stderr
