"""`docgraph keys` as people and pipelines call it; keys in exports (decision 72)."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bcrypt
import httpx2
import pytest
from pymongo import MongoClient

from docgraph.auth.credentials import ApiKeyText
from tests.process.commands import run, start
from tests.process.harness import run_server

Mongo = MongoClient[dict[str, Any]]
LATER = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%d")


@dataclass
class Commands:
    """The command line, on a database of this test."""

    uri: str
    db: str
    mongo: Mongo
    is_on: bool = True

    @property
    def options(self) -> list[str]:
        places = ("graphql/db", "dbAclAuthorizer/acl-db", "dbRealmAuthenticator/users-db")
        return [
            f"--set=/mclient/connection-string={self.uri}",
            f"--set=/apiKeyMechanism/enabled={str(self.is_on).lower()}",
            *(f"--set=/{place}={self.db}" for place in places),
        ]

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = run(*arguments, *self.options)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def add(self, *more: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        given = ("--owner", "ci", "--role", "editor", "--until", LATER)
        return self.run("keys", "add", "nightly", *given, *more, code=code)

    def get_status(self, text: str) -> int:
        """The answer of a server on this database to a request with the key."""
        settings = {
            "mclient": {"connection-string": self.uri},
            "dbRealmAuthenticator": {"users-db": self.db, "create-user": False},
            "fullAuthorizer": {"enabled": True, "authentication-required": True},
            "apiKeyMechanism": {"enabled": True},
        }
        with run_server(settings) as server:
            return server.get("/roles/x", authorization=f"Bearer {text}").status


@pytest.fixture
def commands(mongo_uri: str, mongo_client: Mongo, database: str) -> Commands:
    password = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    user = {"_id": "ci", "password": password, "roles": ["editor", "admin"], "team": "blue"}
    mongo_client[database]["users"].insert_one(user)
    return Commands(mongo_uri, database, mongo_client)


def test_a_key_is_made_listed_rotated_and_revoked(commands: Commands) -> None:
    made = commands.add("--network", "10.0.0.0/8", "--property", "tenant=7", "--inherit", "team")
    text = made.stdout.strip()
    assert ApiKeyText.parse(text).render() == text  # the only line of stdout
    assert "ci/nightly" in made.stderr
    stored = commands.mongo[commands.db]["_apiKeys"].find_one()
    assert stored is not None
    assert (stored["properties"], stored["networks"]) == ({"tenant": 7}, ["10.0.0.0/8"])

    listed = commands.run("keys", "list").stdout.splitlines()
    assert listed[0].split("\t")[:3] == ["owner", "name", "roles"]
    assert listed[1].split("\t")[:3] == ["ci", "nightly", "editor"]
    (shown,) = json.loads(commands.run("keys", "list", "--json").stdout)
    assert (shown["name"], shown["active"], shown["owner"]) == (
        "nightly",
        True,
        "ci",
    )
    assert "hash" not in shown

    rotated = commands.run("keys", "rotate", "ci/nightly", "--hours", "1").stdout.strip()
    assert ApiKeyText.parse(rotated).id == ApiKeyText.parse(text).id
    commands.run("keys", "revoke", shown["_id"])
    assert "there are no keys" in commands.run("keys", "list").stderr
    for name in ("revoke", "rotate"):
        assert "no key" in commands.run("keys", name, "ci/nightly", code=1).stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--owner", "nobody"), "no user"),
        (("--role", "other"), "'other'"),
        (("--role", "admin"), "allow-root-role"),
        (("--until", "2020-01-01"), "future"),
        (("--until", "2999-01-01"), "max-age-days: 365"),
        (("--network", "here"), "not a network"),
    ],
)
def test_a_mistake_is_one_clear_message(
    commands: Commands, more: tuple[str, ...], said: str
) -> None:
    done = commands.add(*more, code=1)
    assert said in done.stderr
    assert done.stdout == ""
    assert "_apiKeys" not in commands.mongo[commands.db].list_collection_names()


def test_the_commands_need_the_mechanism(commands: Commands) -> None:
    commands.is_on = False
    assert "apiKeyMechanism" in commands.run("keys", "list", code=1).stderr


def test_the_matrix_has_a_column_for_a_key(commands: Commands) -> None:
    commands.add()
    app = {
        "_id": "app",
        "schema": "type Query { notes: [Note] } type Note { n: Int }",
        "mappings": {"Query": {"notes": {"db": commands.db, "collection": "notes"}}},
    }
    commands.mongo[commands.db]["gql-apps"].insert_one(app)
    rule = {"_id": "r", "roles": ["editor"], "predicate": "path-prefix('/graphql')"}
    commands.mongo[commands.db]["acl"].insert_one(rule)
    rows = json.loads(commands.run("access", "matrix", "--user", "key:ci/nightly", "--json").stdout)
    assert rows[0]["key:ci/nightly"] is True
    assert rows[0]["(nobody)"] is False
    explained = commands.run(
        "access", "explain", "--user", "key:ci/nightly", "--path", "/graphql/app"
    )
    assert "key:ci/nightly (roles: editor)" in explained.stdout


def test_an_exported_key_is_valid_where_it_was_made_and_nowhere_else(
    commands: Commands, tmp_path: Path
) -> None:
    """The key of the installation is not exported."""
    text = commands.add().stdout.strip()
    assert commands.get_status(text) == 403  # the path of another user: it is authenticated
    told = commands.run("export", str(tmp_path / "export"), "--db", commands.db)
    assert "API keys (valid only where they were made)\t1" in told.stdout
    exported = (tmp_path / "export" / "keys.json").read_text()
    assert ApiKeyText.parse(text).secret not in exported
    database = commands.mongo[commands.db]
    database["_apiKeys"].delete_many({})
    commands.run("import", str(tmp_path / "export"))
    assert commands.get_status(text) == 403

    database["_cursorKeys"].delete_many({})  # as in the database of another installation
    database["_apiKeys"].delete_many({})
    told = commands.run("import", str(tmp_path / "export"))
    assert "API keys (valid only where they were made)\t1" in told.stdout
    assert commands.get_status(text) == 401


def test_no_line_of_the_log_and_of_the_command_has_a_secret(commands: Commands) -> None:
    """A canary: a real server at its most talkative, with right, wrong and misplaced keys."""
    made = commands.add()
    text = made.stdout.strip()
    wrong = ApiKeyText(ApiKeyText.parse(text).id).render()
    options = ("http-listener/port=0", "apiKeyMechanism/header=X-API-Key", "logging/level=debug")
    settings = ("fullAuthorizer/enabled=true", "logging/format=json", *options)
    process = start("serve", *commands.options, *(f"--set=/{option}" for option in settings))
    answers: list[str] = []
    try:
        line = process.stdout.readline()
        assert line.startswith("docgraph ready http://"), line
        url = line.split()[2].rstrip("/")
        for key in (text, wrong, text[:-1]):
            for headers in (
                {"authorization": f"Bearer {key}"},
                {"x-api-key": key},
                {"authorization": f"Basic {key}"},
                {"x-request-id": key},
            ):
                for path in ("/roles/x", "/metrics", f"/none?key={key}", f"/none/{key}"):
                    reply = httpx2.get(url + path, headers=headers)
                    if key not in path and "x-request-id" not in headers:
                        answers += [str(reply.headers), reply.text]
    finally:
        process.terminate()
        _, log = process.communicate()
    assert "auth-failed" in log
    assert "key:ci/nightly" in log
    listed = commands.run("keys", "list", "--json")
    outputs = (made.stderr, listed.stdout, listed.stderr, log, *answers)
    lines = [line for output in outputs for line in output.splitlines()]
    for secret in (ApiKeyText.parse(text).secret, ApiKeyText.parse(wrong).secret):
        for part in (secret, secret[:20], secret[-20:]):
            assert [line for line in lines if part in line] == []
