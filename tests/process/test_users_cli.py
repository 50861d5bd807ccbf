"""`docgraph users` as people and machines call it, and users over two worker processes."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from pymongo import MongoClient

from tests.process.commands import Process, run, start_at_terminal
from tests.process.harness import Server, eventually, run_server

Mongo = MongoClient[dict[str, Any]]


@dataclass
class Commands:
    """The command line, on a database of this test."""

    uri: str
    db: str
    mongo: Mongo

    @property
    def options(self) -> list[str]:
        return [
            f"--set=/mclient/connection-string={self.uri}",
            f"--set=/graphql/db={self.db}",
            f"--set=/dbRealmAuthenticator/users-db={self.db}",
            "--set=/dbRealmAuthenticator/bcrypt-complexity=4",
        ]

    def run(
        self, *arguments: str, typed: str = "", code: int = 0, more: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with that on its stdin, which is no terminal."""
        done = run("users", *arguments, *self.options, *more, input=typed)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def at_terminal(self, *arguments: str) -> AbstractContextManager[tuple[int, Process]]:
        """A command at a terminal: our end of it, and the process."""
        return start_at_terminal("users", *arguments, *self.options)

    @property
    def users(self) -> Any:
        return self.mongo[self.db]["users"]

    def has_password(self, user: str, password: str) -> bool:
        stored = self.users.find_one({"_id": user})["password"]
        return bcrypt.checkpw(password.encode(), stored.encode())


@pytest.fixture
def commands(mongo_uri: str, mongo_client: Mongo, database: str) -> Commands:
    return Commands(mongo_uri, database, mongo_client)


# --- the commands ---------------------------------------------------------------------------------


def test_add_reads_the_password_from_stdin_and_stores_a_hash(commands: Commands) -> None:
    done = commands.run("add", "ada", "--role", "admin", "--role", "user", typed="secret word\n")
    assert "added 'ada' with the roles admin, user" in done.stderr
    assert done.stdout == ""
    stored = commands.users.find_one()
    assert (stored["_id"], stored["roles"]) == ("ada", ["admin", "user"])
    assert stored["password"].startswith("$2a$04$")
    assert commands.has_password("ada", "secret word")


def test_add_reads_the_password_from_the_first_line_of_a_file(
    commands: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("pässwörd\r\nsomething else\n")
    commands.run("add", "ada", "--password-file", str(file))
    assert commands.has_password("ada", "pässwörd")


@pytest.mark.parametrize(
    ("arguments", "typed", "message"),
    [
        (("add", "ada"), "", "the password is empty"),
        (("add", "ada"), "x" * 73, "longer than 72 bytes"),
        (("add", "ada", "--password-file", "/nonexistent"), "", "cannot be read: No such file"),
        (("passwd", "eve"), "new", "there is no user 'eve'"),
        (("remove", "eve", "--yes"), "", "there is no user 'eve'"),
        (("remove", "eve"), "y\n", "there is no user 'eve'"),
    ],
)
def test_what_cannot_be_done_is_one_message_and_exit_code_1(
    commands: Commands, arguments: tuple[str, ...], typed: str, message: str
) -> None:
    done = commands.run(*arguments, typed=typed, code=1)
    assert message in done.stderr
    assert commands.users.count_documents({}) == 0


@pytest.mark.parametrize(
    "arguments", [("add",), ("add", "a:b"), ("add", "ada", "--password", "x"), ("drop", "ada")]
)
def test_a_wrong_call_is_exit_code_2_and_no_argument_takes_a_password(
    commands: Commands, arguments: tuple[str, ...]
) -> None:
    commands.run(*arguments, typed="secret\n", code=2)
    assert commands.users.count_documents({}) == 0


def test_a_user_is_added_once(commands: Commands) -> None:
    commands.run("add", "ada", typed="one word\n")
    done = commands.run("add", "ada", typed="two word\n", code=1)
    assert "there is a user 'ada' already" in done.stderr
    assert commands.has_password("ada", "one word")


def test_passwd_sets_another_password_and_remove_removes(commands: Commands) -> None:
    commands.run("add", "ada", "--role", "x", typed="one word\n")
    commands.run("passwd", "ada", typed="two word\n")
    assert commands.has_password("ada", "two word")
    assert commands.users.find_one()["roles"] == ["x"]
    commands.run("remove", "ada", typed="y\n")
    assert commands.users.count_documents({}) == 0


def test_list_shows_users_and_roles_and_never_a_password(commands: Commands) -> None:
    assert "there are no users" in commands.run("list").stderr
    assert json.loads(commands.run("list", "--json").stdout) == []
    commands.users.insert_many(
        [
            {"_id": "bob", "password": "$2b$04$x", "roles": []},
            {"_id": "ada", "password": "$2b$04$x", "roles": ["a", "b"]},
        ]
    )
    table = commands.run("list").stdout
    assert [line.split()[0] for line in table.splitlines()] == ["user", "ada", "bob"]
    rows = json.loads(commands.run("list", "--json").stdout)
    assert rows == [{"user": "ada", "roles": ["a", "b"]}, {"user": "bob", "roles": []}]
    assert "$2" not in table


def test_hash_prints_a_hash_of_the_configured_cost_and_needs_no_database(
    commands: Commands,
) -> None:
    nowhere = ("--set=/mclient/connection-string=mongodb://127.0.0.1:9/",)
    done = commands.run("hash", typed="secret\n", more=nowhere)
    assert done.stdout.startswith("$2a$04$")
    assert bcrypt.checkpw(b"secret", done.stdout.strip().encode())


def test_a_weak_password_is_told_how_to_do_better(commands: Commands) -> None:
    strict = ("--set=/dbRealmAuthenticator/enforce-minimum-password-strength=true",)
    done = commands.run("add", "ada", typed="monkey123\n", code=1, more=strict)
    assert "Password is too weak" in done.stderr
    assert "Add another word or two" in done.stderr
    assert "monkey123" not in done.stderr


def test_a_weak_password_that_is_taken_is_told(commands: Commands) -> None:
    """Nothing is refused unless the configuration says so."""
    done = commands.run("add", "ada", typed="ada12\n")
    assert "the password is weak: its strength is 1 of 4, 3 would be good" in done.stderr
    assert "added 'ada'" in done.stderr
    done = commands.run("passwd", "ada", typed="correct horse battery staple\n")
    assert "weak" not in done.stderr


@pytest.mark.parametrize("command", ["add", "passwd"])
def test_a_password_that_is_guessed_immediately_needs_a_flag(
    commands: Commands, command: str
) -> None:
    if command == "passwd":
        commands.run("add", "ada", typed="first word\n")

    rejected = commands.run(command, "ada", typed="ab\n", code=1)
    assert "the password is too weak" in rejected.stderr
    assert "--weak" in rejected.stderr
    commands.run(command, "ada", "--weak", typed="ab\n")

    assert commands.has_password("ada", "ab")


def test_remove_says_whom_it_is_about_before_it_asks(commands: Commands) -> None:
    commands.users.insert_one({"_id": "ada", "password": "x", "roles": ["editor"]})
    done = commands.run("remove", "ada", typed="n\n", code=1)
    assert "Remove the user 'ada' with the role editor?" in done.stderr
    assert commands.users.count_documents({}) == 1
    done = commands.run("remove", "eve", typed="y\n", code=1)
    assert "?" not in done.stderr


def test_without_the_realm_there_are_no_users(commands: Commands) -> None:
    off = (
        "--set=/dbRealmAuthenticator/enabled=false",
        "--set=/basicAuthMechanism/enabled=false",
    )
    assert "dbRealmAuthenticator is off" in commands.run("list", code=1, more=off).stderr


def test_at_a_terminal_the_password_is_asked_for_twice_and_not_shown(commands: Commands) -> None:
    with commands.at_terminal("add", "ada") as (terminal, process):
        seen = read_until(terminal, "Password: ")
        os.write(terminal, b"hidden one\n")
        seen += read_until(terminal, "Repeat for confirmation: ")
        os.write(terminal, b"hidden one\n")
        seen += read_until(terminal, "added 'ada'")
        assert process.wait(60) == 0
    assert "hidden" not in seen
    assert commands.has_password("ada", "hidden one")


@pytest.mark.parametrize(
    ("command", "user", "told"),
    [
        ("add", "ada", "there is a user 'ada' already"),
        ("passwd", "bob", "there is no user 'bob'"),
    ],
)
def test_at_a_terminal_nobody_types_a_password_in_vain(
    commands: Commands, command: str, user: str, told: str
) -> None:
    commands.run("add", "ada", typed="a longer secret")
    with commands.at_terminal(command, user) as (terminal, process):
        seen = read_until(terminal, told)
        assert process.wait(60) == 1
    assert "Password" not in seen


def read_until(fd: int, text: str) -> str:
    seen = ""
    while text not in seen:
        seen += os.read(fd, 1024).decode()
    return seen


# --- a server with two workers --------------------------------------------------------------------


@contextmanager
def serving(
    commands: Commands, *, workers: int = 2, guarded: bool = True, **realm: Any
) -> Iterator[Server]:
    """The real server, and nothing of the harness in it."""
    settings = {
        "core": {"plugins-directory": "/nonexistent"},
        "mclient": {"connection-string": commands.uri},
        "graphql": {"db": commands.db},
        "logging": {"level": "debug", "format": "json"},
        "dbRealmAuthenticator": {"users-db": commands.db, "bcrypt-complexity": 4, **realm},
        # A day: on a busy machine, ten logins can take longer than the ten seconds of the default.
        "bruteForceAttackGuard": {"enabled": guarded, "window-ms": 86_400_000},
    }
    with run_server(settings, workers=workers) as server:
        yield server


def login(server: Server, user: str, password: str, path: str = "/metrics") -> int:
    """On a connection of its own, so that both workers get their share."""
    credentials = b64encode(f"{user}:{password}".encode()).decode()
    return server.get(path, authorization=f"Basic {credentials}").status


def test_the_first_admin_is_told_once_by_two_workers_and_not_in_the_log(
    commands: Commands,
) -> None:
    """Decision 35."""
    with serving(commands) as server:
        eventually(lambda: any("password  " in line for line in server.errors))
        (told,) = [line for line in server.errors if "password  " in line]
        password = told.split()[1]
        eventually(lambda: login(server, "admin", password) == 200)
        assert login(server, "admin", "wrong") == 401
        assert not [event for event in server.events if password in json.dumps(event)]
    assert commands.users.count_documents({}) == 1


@pytest.mark.parametrize(("cached", "workers"), [(True, 2), (False, 1)])
def test_what_the_command_line_changes_counts_on_every_worker(
    commands: Commands, cached: bool, workers: int
) -> None:
    """Drill A21: another process, another instance."""
    commands.run("add", "ada", typed="one word\n")
    # Were nobody told, the cache would know the old password for longer than the test lasts.
    realm = {"cache-enabled": cached, "cache-ttl": 600_000}
    with serving(commands, workers=workers, guarded=False, **realm) as server:
        eventually(lambda: logins(server, "one word") == {200})
        commands.run("passwd", "ada", typed="two word\n")
        eventually(lambda: logins(server, "one word") == {401})
        assert logins(server, "two word") == {200}


def logins(server: Server, password: str) -> set[int]:
    """The answers to several logins of `ada`, of which each worker gets its share."""
    return {login(server, "ada", password) for _ in range(6)}


def test_the_guard_counts_over_both_workers(commands: Commands) -> None:
    """Decision 37, drill A11."""
    commands.run("add", "ada", typed="right word\n")
    commands.run("add", "bob", typed="right word\n")
    with serving(commands) as server:
        statuses = [login(server, "ada", f"wrong{number}") for number in range(20)]
        assert statuses == [401] * 10 + [429] * 10
        assert login(server, "ada", "right word") == 429
        assert login(server, "bob", "right word") == 200
        forged = server.get(
            "/metrics",
            authorization=f"Basic {b64encode(b'ada:right').decode()}",
            x_forwarded_for="192.0.2.7",
        )
        assert forged.status == 429
        assert forged["retry-after"] == "86400"
        (event, *_) = eventually(lambda: server.named("logins-blocked"))
        assert (event["scope"], event["user"]) == ("address-and-user", "ada")
        assert "wrong1" not in "".join(server.errors)


# --- properties -----------------------------------------------------------------------------------


def test_properties_are_stored_with_a_user_and_changed_later(commands: Commands) -> None:
    given = ("tenant=red", 'regions=["north"]', "address.city=Bern", 'code="007"', "level=7")
    options = [option for one in given for option in ("--property", one)]
    commands.run("add", "ada", "--role", "user", *options, typed="secret word\n")
    stored = commands.users.find_one()
    assert (stored["tenant"], stored["regions"], stored["code"]) == ("red", ["north"], "007")
    assert (stored["address"], stored["level"]) == ({"city": "Bern"}, 7)

    change = ("--property", "tenant=blue", "--property", 'roles=["editor"]', "--without", "level")
    done = commands.run("set", "ada", *change)
    assert "changed tenant, roles, level of 'ada'" in done.stderr
    changed = commands.users.find_one()
    assert (changed["tenant"], changed["roles"], "level" in changed) == ("blue", ["editor"], False)
    assert changed["password"] == stored["password"]

    for refused, reason in (
        (("--property", "password=x"), "users passwd"),
        (("--without", "_id"), "the id of a user cannot be changed"),
        (("--property", 'roles=["admin"]'), "the root role cannot be given"),
    ):
        assert reason in commands.run("set", "ada", *refused, code=1).stderr
    assert commands.users.find_one() == changed
    missing = commands.run("set", "eve", "--property", "tenant=red", code=1)
    assert "there is no user 'eve'" in missing.stderr
    commands.run("set", "ada", code=2)
