"""`docgraph serve` as a user runs it: embedded MongoDB, signals, a database that comes and goes."""

from __future__ import annotations

import json
import random
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from docgraph.embedded import EmbeddedMongo, MongodOptions
from docgraph.embedded.mongod_process import PORTS
from tests.process.commands import Process, start
from tests.process.harness import eventually

OPEN = ("/fullAuthorizer/enabled=true", "/fullAuthorizer/authentication-required=false")


def docgraph(*arguments: str, cwd: Path, **environment: str) -> Process:
    return start(*arguments, cwd=cwd, environment=environment)


@contextmanager
def serving(cwd: Path, *settings: str) -> Iterator[tuple[Process, str]]:
    """A server on a free port and its address; killed at the end if it still runs."""
    options = [f"--set={one}" for one in (*OPEN, "/http-listener/port=0", *settings)]
    process = docgraph("serve", *options, cwd=cwd)
    try:
        line = process.stdout.readline()
        assert line.startswith("docgraph ready http://127.0.0.1:"), process.communicate()
        yield process, line.split()[2]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ask(url: str, body: bytes | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - of loopback
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def mongods(directory: Path) -> list[psutil.Process]:
    return [
        one
        for one in psutil.process_iter(["cmdline", "status"])
        if str(directory) in " ".join(one.info["cmdline"] or ())
        and "mongod" in " ".join(one.info["cmdline"] or ())
        and one.info["status"] != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_frozen_database_does_not_keep_the_server_from_its_end(
    tmp_path: Path, workers: int
) -> None:
    """Without a countdown a dozen seconds, each of which somebody waits for something else."""
    settings = ("/connection-options/shutdown-timeout-ms=300", f"/core/workers={workers}")
    with serving(tmp_path, *settings) as (process, url), ThreadPoolExecutor(4) as callers:
        eventually(lambda: ask(f"{url}/health/db")[0] == 200)
        (mongod,) = mongods(tmp_path)
        mongod.suspend()
        for _ in range(4):
            callers.submit(ask, f"{url}/graphql/nothing", b'{"query": "{ __typename }"}')
        process.send_signal(signal.SIGTERM)
        assert process.wait(9) == 0
    assert mongods(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_stopped_before_it_is_ready_has_not_failed(
    tmp_path: Path, number: signal.Signals
) -> None:
    never_ready = tmp_path / "mongod"
    never_ready.write_text("#!/bin/sh\nexec sleep 600\n")
    never_ready.chmod(0o755)
    options = [f"--set={one}" for one in (*OPEN, "/http-listener/port=0")]
    process = docgraph("serve", *options, cwd=tmp_path, DOCGRAPH_MONGOD=str(never_ready))
    assert process.stderr.readline() == "starting MongoDB\n"
    process.send_signal(number)
    output, errors = process.communicate()

    assert (process.returncode, output, errors) == (0, "", "")


def test_killed_and_started_again_it_says_one_line_ends_cleanly_and_leaves_no_orphan(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as (process, _):
        process.kill()
        process.wait()
    with serving(tmp_path) as (process, url):
        assert ask(f"{url}/ping")[0] == 200
        eventually(lambda: ask(f"{url}/health/db")[0] == 200)
        assert len(mongods(tmp_path)) == 1
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate()
    assert process.returncode == 0
    assert output == ""  # after the line that says where it is
    assert mongods(tmp_path) == []


def test_a_database_that_dies_is_500_until_it_is_back_by_itself_and_ctrl_c_ends_both(
    tmp_path: Path,
) -> None:
    """Decision 25, 45."""
    body = json.dumps({"query": "{ __typename }"}).encode()
    with serving(tmp_path) as (process, url):
        eventually(lambda: ask(f"{url}/graphql/nothing", body)[0] == 404)
        (mongod,) = mongods(tmp_path)
        mongod.kill()
        seen = set()

        def is_back() -> bool:
            status = ask(f"{url}/health/db")[0]
            seen.add(status)
            return status == 200 and read_mongod_pid(tmp_path) != mongod.pid

        eventually(is_back)
        assert seen <= {200, 503, 504}
        assert ask(f"{url}/graphql/nothing", body)[0] == 404
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert mongods(tmp_path) == []


def read_mongod_pid(directory: Path) -> int:
    """The process that is remembered with the data."""
    memory: dict[str, int] = json.loads((directory / "data/mongod.json").read_text())
    return memory["pid"]


def test_a_database_that_is_not_there_at_start_does_not_stop_the_server(tmp_path: Path) -> None:
    """Decision 45: bad configuration stops the start, an unreachable database does not."""
    small = MongodOptions(cache_gb=0.25, oplog_mb=64)
    port = find_port()
    (tmp_path / "db").mkdir()
    (tmp_path / "db/mongod.json").write_text(json.dumps({"port": port}))
    settings = f"/mclient/connection-string=mongodb://127.0.0.1:{port}/?directConnection=true"
    body = json.dumps({"query": "{ __typename }"}).encode()
    with serving(tmp_path, settings, "/mclient/server-selection-timeout-ms=500") as (_, url):
        assert ask(f"{url}/ping")[0] == 200
        assert ask(f"{url}/health/db")[0] in (503, 504)
        status, content = ask(f"{url}/graphql/x", body)
        assert status == 500
        assert json.loads(content)["errors"][0]["extensions"]["code"] == "database-unavailable"
        with EmbeddedMongo(tmp_path / "db", options=small) as again:
            assert f":{port}/" in again
            eventually(lambda: ask(f"{url}/graphql/x", body)[0] == 404)


def find_port() -> int:
    """A free port, of those that the system gives to nobody by itself."""
    while True:
        port = random.choice(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def test_metrics_of_two_workers_are_one_truth(tmp_path: Path) -> None:
    without_database = (
        "/mclient/connection-string=mongodb://127.0.0.1:9/",
        "/dbRealmAuthenticator/enabled=false",
        "/basicAuthMechanism/enabled=false",
        "/dbAclAuthorizer/enabled=false",
    )
    with serving(tmp_path, *without_database, "/core/workers=2") as (_, url):
        for _ in range(20):
            assert ask(f"{url}/ping")[0] == 200

        def count() -> float:
            text = ask(f"{url}/metrics")[1].decode()
            return sum(
                float(line.rsplit(" ", 1)[1])
                for line in text.splitlines()
                if line.startswith("docgraph_http_requests_total") and 'service="ping"' in line
            )

        eventually(lambda: count() == 20)
        histories = [json.loads(ask(f"{url}/metrics?history=true")[1]) for _ in range(6)]
        assert len({one["instance"] for one in histories}) == 1
        assert len({one["points"][0]["at"] for one in histories}) == 1  # of whichever worker


def test_without_an_allower_there_is_no_start(tmp_path: Path) -> None:
    """Decision 38."""
    settings = ("--set=/dbAclAuthorizer/enabled=false",)
    process = docgraph("serve", *settings, cwd=tmp_path)
    output, errors = process.communicate()
    assert (process.returncode, output) == (2, "")
    assert "no allower is enabled" in errors


def test_ten_mistakes_in_one_file_are_ten_messages_with_line_and_way_out(tmp_path: Path) -> None:
    (tmp_path / "docgraph.yml").write_text(
        """\
grafql: {}
core:
  workers: many
  nmae: x
http-listener:
  port: 99999
graphql:
  max-limit: -1
  json-mode: fancy
  limits:
    dept: 3
cors:
  allow-origins: nowhere
logging:
  level: loud
mclient:
  connection-string: postgres://x
"""
    )
    process = docgraph("config", "check", "docgraph.yml", cwd=tmp_path)
    _, errors = process.communicate()
    problems = [line for line in errors.splitlines() if "docgraph.yml:" in line]
    assert process.returncode == 2
    assert len(problems) == 10
    assert "did you mean 'graphql'?" in errors
    assert "docgraph.yml:4:3: /core/nmae" in errors


def test_a_check_tells_of_what_works_and_is_worth_a_look(tmp_path: Path) -> None:
    (tmp_path / "docgraph.yml").write_text(
        """\
caller-limits:
  limits: [{name: user, per: user, concurrent: 5}]
fileAclAuthorizer:
  enabled: true
  permissions:
    - role: user
      predicate: path('/a')
      mongo:
        readFilter: {n: {$gtt: 1}}
"""
    )
    process = docgraph("config", "check", "docgraph.yml", cwd=tmp_path)
    _, errors = process.communicate()

    assert process.returncode == 0
    assert "docgraph.yml:2:3: /caller-limits/limits: 'caller-limits' is off" in errors
    assert "docgraph.yml:9:26: /fileAclAuthorizer/permissions[1]/mongo/readFilter" in errors
    assert "docgraph does not know the operator $gtt (did you mean $gt?)" in errors
    assert "docgraph.yml works, with warnings" in errors


LISTS = """\
dbRealmAuthenticator:
  json-path-roles: '$.['
fileRealmAuthenticator:
  enabled: true
  users: [{userid: ada, password: x, roles: user}]
fileAclAuthorizer:
  enabled: true
  permissions:
    - {role: user, predicate: path('/a')}
    - role: user
      predicate: pat('/a')
"""


@pytest.mark.parametrize(
    "command", [("config", "check", "docgraph.yml"), ("serve",), ("serve", "--set=/core/workers=2")]
)
def test_mistakes_in_lists_are_told_with_file_and_line_before_anything_is_started(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "docgraph.yml").write_text(LISTS)
    process = docgraph(*command, cwd=tmp_path)
    _, errors = process.communicate()
    assert process.returncode == 2
    assert "docgraph.yml:2:3: /dbRealmAuthenticator/json-path-roles: not a JSON path" in errors
    assert "/fileRealmAuthenticator/users[1]/roles: expected a list of texts" in errors
    assert (
        "docgraph.yml:11:7: /fileAclAuthorizer/permissions[2]/predicate: cannot be read" in errors
    )
    assert "MongoDB" not in errors


_KEY = "k" * 40


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f"jwtAuthenticationMechanism:\n  enabled: true\n  key: {_KEY}\n  jwks: keys.json\n",
            "docgraph.yml:4:3: /jwtAuthenticationMechanism/jwks: key and jwks are both set",
        ),
        (
            "originVetoer:\n  enabled: true\n  ignore-paths:\n    - /a\n    - /{a}b\n",
            "docgraph.yml:5:7: /originVetoer/ignore-paths[2]: '{a}b': a name in braces must be",
        ),
        (
            "jwtTokenManager: {enabled: true}\nrndTokenManager: {enabled: false}\n",
            "/jwtTokenManager/enabled: jwtTokenManager is on and has no key",
        ),
        (
            "digestAuthMechanism:\n  enabled: true\n  authenticator: fileRealmAuthenticator\n",
            "the authenticator 'fileRealmAuthenticator' is off",
        ),
        (
            "mongo:\n  mongo-mounts: [{what: /a, where: /}, {what: /b, where: /}]\n",
            "docgraph.yml:2:3: /mongo/mongo-mounts: two mounts at / (give each `where` once)",
        ),
        (
            "mongo:\n  mongo-mounts: [{what: /a, where: /}, {what: '/{b}', where: '/{b}'}]\n",
            "docgraph.yml:2:3: /mongo/mongo-mounts: some are templates and some are not",
        ),
        (
            "rndTokenManager:\n  srv-uri: /graphql\n",
            "docgraph.yml:2:3: /rndTokenManager/srv-uri: /graphql is also the path of /graphql/uri",
        ),
        (
            "graphql:\n  uri: /\n",
            "docgraph.yml:2:3: /graphql/uri: / is also the path of /mongo/uri",
        ),
        (
            "graphql:\n  uri: /%ff\n",
            "docgraph.yml:2:3: /graphql/uri: '/%ff' is not a path: ",
        ),
        (
            "jwtAuthenticationMechanism:\n  enabled: true\n  algorithm: RS256\n  key: " + _KEY,
            "docgraph.yml:4:3: /jwtAuthenticationMechanism/key: neither PEM text nor the path of a "
            "readable file (no such file or directory)",
        ),
        (
            "jwtAuthenticationMechanism:\n  enabled: true\n  jwks: none.json\n",
            "docgraph.yml:3:3: /jwtAuthenticationMechanism/jwks: ",
        ),
        (
            "authCookieSetter: {enabled: true, name: __Host-x, path: /a}\n"
            "authCookieHandler: {enabled: true}\nauthCookieRemover: {enabled: true}\n",
            "docgraph.yml:1:51: /authCookieSetter/path: a cookie called '__Host-x' must have",
        ),
    ],
)
def test_a_check_refuses_what_the_start_refuses(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "docgraph.yml").write_text(text)
    told = []
    for command in (("config", "check", "docgraph.yml"), ("serve",)):
        process = docgraph(*command, cwd=tmp_path)
        _, errors = process.communicate()
        assert process.returncode == 2, errors
        assert "starting MongoDB" not in errors
        told.append([line.strip() for line in errors.splitlines() if "docgraph.yml:" in line])
    assert told[0] == told[1]
    assert problem in told[0][0]


def test_a_check_takes_its_file_as_the_other_commands_do(tmp_path: Path) -> None:
    (tmp_path / "docgraph.yml").write_text("core: {name: a}\n")
    for arguments, expected in (
        (("--config", "docgraph.yml"), (0, "docgraph.yml is fine")),
        (("docgraph.yml", "-c", "docgraph.yml"), (2, "give FILE or --config, not both")),
        ((), (2, "give a configuration file: FILE, or --config FILE")),
    ):
        process = docgraph("config", "check", *arguments, cwd=tmp_path)
        _, errors = process.communicate()
        assert process.returncode == expected[0], errors
        assert expected[1] in errors


def test_config_show_masks_secrets_and_names_origins(tmp_path: Path) -> None:
    secret = "mongodb://ada:geheim@127.0.0.1/"
    process = docgraph(
        "config",
        "show",
        "--set=/graphql/max-limit=500",
        cwd=tmp_path,
        DOCGRAPH_OVERRIDES=f'/mclient/connection-string -> "{secret}"',
    )
    output, _ = process.communicate()
    assert process.returncode == 0
    assert "geheim" not in output
    assert "max-limit: 500" in output
    assert "# --set" in output
    assert "# DOCGRAPH_OVERRIDES" in output


@pytest.mark.parametrize("command", [("--help",), ("version",), ("serve", "--help"), ("plugins",)])
def test_commands_that_only_tell_exit_with_0(command: tuple[str, ...], tmp_path: Path) -> None:
    process = docgraph(*command, cwd=tmp_path)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output


@pytest.mark.parametrize("command", [("nonsense",), ("serve", "--nonsense"), ("config", "check")])
def test_wrong_usage_exits_with_2(command: tuple[str, ...], tmp_path: Path) -> None:
    process = docgraph(*command, cwd=tmp_path)
    output, errors = process.communicate()
    assert (process.returncode, output) == (2, "")
    assert errors


COMMAND = """
from docgraph import Command

class Count(Command):
    name = "count-posts"
    description = "counts"

    def __init__(self, config, store):
        self.store = store

    async def run(self, arguments):
        await self.store.ping(10)
        print("counted", *arguments)
        return 3
"""


def test_a_plugin_brings_a_command_along(tmp_path: Path, mongo_uri: str) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "count.py").write_text(COMMAND)
    (tmp_path / "docgraph.yml").write_text(f"mclient: {{connection-string: '{mongo_uri}'}}\n")
    process = docgraph("count-posts", "--all", "x", cwd=tmp_path)
    output, errors = process.communicate()
    assert (process.returncode, output) == (3, "counted --all x\n"), errors


@pytest.mark.parametrize(
    ("setting", "listed"), [("", True), ("count-posts: {enabled: false}", False)]
)
def test_help_lists_the_commands_of_plugins_that_are_on(
    tmp_path: Path, setting: str, listed: bool
) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "count.py").write_text(COMMAND)
    (tmp_path / "docgraph.yml").write_text(setting)
    process = docgraph("--help", cwd=tmp_path)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "serve " in output
    assert ("count-posts  counts" in output) is listed


def test_help_is_there_when_a_plugin_is_broken(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "broken.py").write_text("raise ValueError('no')")
    process = docgraph("--help", cwd=tmp_path)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "serve " in output
    assert "broken.py cannot be loaded" in errors


def test_mongod_alone_prints_its_address_and_stops_cleanly(tmp_path: Path) -> None:
    process = docgraph("mongod", cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("mongodb://127.0.0.1:")
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 0
    assert mongods(tmp_path) == []
