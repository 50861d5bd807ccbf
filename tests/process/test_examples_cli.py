"""`docgraph examples NAME --load`, and names that a shell completes, on a real database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.databases import drop
from tests.process.commands import ROOT, run

Mongo = MongoClient[dict[str, Any]]

EXAMPLES = sorted(
    path.parent.name
    for path in ROOT.glob("examples/*/README.md")
    if any((path.parent / name).exists() for name in ("app.json", "app.yml", "app"))
    or (path.parent / "app.json").is_symlink()
)
DB = "docgraph"  # that of the definitions


@pytest.fixture
def options(mongo_uri: str, mongo_client: Mongo, database: str) -> Iterator[list[str]]:
    """The options of commands; apps and users are in a database of this test."""
    places = ("graphql/db", "dbAclAuthorizer/acl-db", "dbRealmAuthenticator/users-db")
    try:
        yield [
            f"--set=/mclient/connection-string={mongo_uri}",
            *(f"--set=/{place}={database}" for place in places),
        ]
    finally:
        drop(mongo_client, DB)


def test_every_example_with_an_app_is_loaded(options: list[str], tmp_path: Path) -> None:
    """One after the other into one database: they do not get in each other's way."""
    for name in EXAMPLES:
        done = run("examples", name, "--load", *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "nothing was loaded" not in done.stderr

    listed = json.loads(run("apps", "list", "--json", *options).stdout)
    assert len(listed) == len(EXAMPLES)
    assert all(one["valid"] for one in listed)


def test_documents_of_others_stay(options: list[str], mongo_client: Mongo, tmp_path: Path) -> None:
    mongo_client[DB]["people"].insert_one({"_id": "mine"})

    for _ in range(2):  # the second time from the copy
        done = run("examples", "movies", ".", "--load", *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"{DB}.people has documents: nothing was loaded into it" in done.stderr

    assert list(mongo_client[DB]["people"].find()) == [{"_id": "mine"}]
    assert mongo_client[DB]["titles"].count_documents({}) == 6


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("apps show mo", {"movies"}),
        ("apps remove mo", {"movies"}),
        ("explain mo", {"movies"}),
        ("users passwd a", {"ada", "alan"}),
        ("users remove a", {"ada", "alan"}),
        ("users add bob --role ed", {"editor"}),
    ],
)
def test_a_shell_completes_names(
    options: list[str],
    mongo_client: Mongo,
    database: str,
    tmp_path: Path,
    words: str,
    expected: set[str],
) -> None:
    own = mongo_client[database]
    own["gql-apps"].insert_many([{"_id": "movies"}, {"_id": "shop"}])
    own["users"].insert_many([{"_id": "ada", "roles": ["editor"]}, {"_id": "alan", "roles": []}])
    settings = [one.removeprefix("--set=/").split("=", 1) for one in options]
    overrides = ";".join(f"/{path}->{json.dumps(value)}" for path, value in settings)
    *before, typed = words.split()
    environment = {
        "_DOCGRAPH_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["docgraph", *before, typed]),
        "COMP_CWORD": str(len(before) + 1),
        "DOCGRAPH_OVERRIDES": overrides,
    }

    done = run(cwd=tmp_path, environment=environment)

    assert {line.partition(",")[2] for line in done.stdout.split()} == expected, done.stderr


def test_a_shell_completes_nothing_without_a_database(tmp_path: Path) -> None:
    environment = {
        "_DOCGRAPH_COMPLETE": "bash_complete",
        "COMP_WORDS": "docgraph apps show ",
        "COMP_CWORD": "3",
    }

    done = run(cwd=tmp_path, environment=environment)

    assert (done.stdout.strip(), done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []
