"""`docgraph access`: the command asks the same authorizers as a server does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.process import commands

RULES = [
    {
        "_id": "own",
        "predicate": "path-prefix('/books') and method(GET)",
        "roles": ["reader"],
        "priority": 2,
        "mongo": {"readFilter": {"owner": "@user._id"}},
    },
    {"_id": "app", "predicate": "path-prefix('/graphql/library')", "roles": ["reader"]},
    {
        "_id": "members",
        "predicate": "path-prefix('/graphql') and method(POST)",
        "roles": ["member"],
    },
    {"_id": "rest", "predicate": "path-prefix('/other')", "roles": ["stranger"]},
]
SCHEMA = """
type Query {
  books(below: Int, above: Int @visible(roles: ["seller"]), by: [SortOrder]): [Book]
}
type Book { title: String price: Int @visible(roles: ["seller"]) }
enum SortOrder { ASC DESC }
"""
FIND = {
    "$and": [
        {"$ifarg": ["below", {"price": {"$lt": {"$arg": "below"}}}]},
        {"$ifarg": ["above", {"price": {"$gt": {"$arg": "above"}}}]},
    ]
}


@pytest.fixture
def options(mongo_client: Any, mongo_uri: str, database: str, tmp_path: Path) -> list[str]:
    """The options of a configuration whose database has a user, rules and an app."""
    db = mongo_client[database]
    db["users"].insert_one({"_id": "ada", "password": "x", "roles": ["reader"]})
    db["acl"].insert_many(RULES)
    books = {"db": database, "collection": "books", "find": FIND}
    mappings = {"Query": {"books": books}}
    db["gql-apps"].insert_one({"_id": "library", "schema": SCHEMA, "mappings": mappings})
    settings = {
        "/mclient/connection-string": mongo_uri,
        "/dbAclAuthorizer/acl-db": database,
        "/dbRealmAuthenticator/users-db": database,
        "/graphql/db": database,
        "/mongo/mongo-mounts": [{"what": f"/{database}", "where": "/"}],
    }
    file = tmp_path / "docgraph.yml"
    file.write_text("{}\n")
    sets = [f"{path}={json.dumps(value)}" for path, value in settings.items()]
    return ["--config", str(file), *(part for one in sets for part in ("--set", one))]


def run(*arguments: str) -> str:
    """What the command prints."""
    done = commands.run("access", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


STEERING = "red\x1b[31m\x1b]0;title\x07\nDENIED\u202e\x9b1m"


def test_names_that_somebody_has_stored_do_not_steer_the_terminal(
    options: list[str], mongo_client: Any, database: str
) -> None:
    db = mongo_client[database]
    db["users"].insert_one({"_id": STEERING, "password": "x", "roles": [STEERING]})
    db["acl"].insert_one({"_id": STEERING, "predicate": "path('/x')", "roles": [STEERING]})

    printed = [
        run("explain", "--user", STEERING, "--path", "/x", *options),
        commands.run("users", "remove", STEERING, *options).stderr,
        commands.run("acl", "remove", STEERING, *options).stderr,
    ]

    for text in printed:
        assert "red" in text
        assert all(char.isprintable() or char == "\n" for char in text), text
        assert not any(line.startswith("DENIED") for line in text.splitlines())


def test_explain_prints_every_answer_and_the_rule(options: list[str], database: str) -> None:
    output = run("explain", "--user", "ada", "--path", "/books", *options)
    assert "ALLOWED: GET /books by ada (roles: reader)" in output
    assert "  the rule own (database) matches" in output
    assert "  dbAclAuthorizer: APPROVES: the rule own (database) matches" in output
    assert "  filterOperatorsBlacklist: passes: no objection" in output
    assert "own (database), priority 2, roles reader: decides" in output
    assert f'readFilters: {{"{database}.books":{{"owner":"ada"}}}}' in output
    assert f"note: the rows of {database}.books are filtered in REST by the rule own" in output
    assert "bound names of @user, by login method\n  database: _id" in output


def test_explain_tells_denials(options: list[str]) -> None:
    nobody = run("explain", "--path", "/books", *options)
    assert "DENIED (401): GET /books by an unauthenticated caller" in nobody
    writer = run("explain", "--role", "reader", "--method", "put", "--path", "/books", *options)
    assert "DENIED (403): PUT /books" in writer
    assert "does not match: the request needs mongo.allowManagementRequests" in writer
    stranger = run("explain", "--role", "stranger", "--path", "/books", *options)
    assert "rules that match, and are for other roles\n  own (database), roles reader" in stranger
    elsewhere = run("explain", "--role", "reader", "--method", "patch", "--path", "/x/1", *options)
    assert "    does not hold: path-prefix('/books')\n" in elsewhere
    assert "    does not hold: method(GET)\n" in elsewhere


def test_explain_as_json(options: list[str]) -> None:
    told = json.loads(run("explain", "--user", "ada", "--path", "/x", "--json", *options))
    assert (told["user"], told["status"], told["allowed"]) == ("ada", 403, False)
    assert {one["account"] for one in told["bindings"]} >= {"database", "random token"}


def test_matrix_prints_roles_by_fields(options: list[str]) -> None:
    rows = json.loads(run("matrix", "--json", *options))
    roles = ("(nobody)", "admin", "member", "reader", "seller")
    seen = {row["field"]: tuple(row[role] for role in roles) for row in rows}
    assert list(rows[0]) == ["app", "field", *roles]
    assert seen == {
        "POST /graphql/library": (False, True, True, True, False),
        "Book.price": (False, False, False, False, True),
        "Book.title": (True, True, True, True, True),
        "Query.books": (True, True, True, True, True),
        "Query.books(above:)": (False, False, False, False, True),
        "Book.price by Query.books.find with the argument below": (True, True, True, True, True),
    }
    header, *lines = run("matrix", *options).splitlines()
    assert header.split("\t") == ["app", "field", "(everybody)", *roles[1:]]
    assert "library\tBook.price\tno\tno\tno\tno\tyes" in lines
