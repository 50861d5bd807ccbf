"""`docgraph migrate restheart` on a database: what is stored is compared and nothing is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pymongo import MongoClient
from tests.process.commands import run

Mongo = MongoClient[dict[str, Any]]
WRITES = {
    *("insert", "update", "delete", "findAndModify", "bulkWrite", "mapReduce"),
    *("create", "drop", "dropDatabase", "createIndexes", "dropIndexes", "collMod"),
    *("renameCollection", "createUser", "setParameter"),
}
# Runs a command and prints the name of every command that the database receives.
RECORDED = """
import sys
from pymongo import monitoring
from docgraph.cli import main

class Recorder(monitoring.CommandListener):
    def started(self, event):
        print("command", event.command_name, file=sys.stderr)
    succeeded = failed = lambda self, event: None

monitoring.register(Recorder())
main()
"""


class Installation:
    """A configuration file and a database."""

    def __init__(self, directory: Path, uri: str, db: str, client: Mongo) -> None:
        self.directory = directory
        self.db = client[db]
        self.file = directory / "restheart.yml"
        config = {"mclient": {"connection-string": uri}, "graphql": {"collection": "gql-apps"}}
        self.file.write_text(yaml.safe_dump(config))

    def migrate(self, code: int, *options: str) -> dict[str, dict[str, Any]]:
        """Return the report by location."""
        output = self.directory / "docgraph.yml"
        output.unlink(missing_ok=True)
        done = run(
            *("migrate", "restheart", str(self.file), "--db", self.db.name, "--json"),
            *("--output", str(output), "--from-version", "9"),
            *options,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return {row["where"]: row for row in json.loads(done.stdout)}

    def read_all(self) -> dict[str, list[dict[str, Any]]]:
        return {
            name: list(self.db[name].find(sort=[("_id", 1)]))
            for name in sorted(self.db.list_collection_names())
        }


def find_less(report: dict[str, dict[str, Any]]) -> set[str]:
    """The locations of the first list."""
    return {
        where for where, row in report.items() if row["list"] == "less is protected than before"
    }


@pytest.fixture
def installation(
    tmp_path: Path, mongo_uri: str, mongo_client: Mongo, database: str
) -> Installation:
    return Installation(tmp_path, mongo_uri, database, mongo_client)


def test_nothing_shows_more_where_rules_have_one_role_each(installation: Installation) -> None:
    installation.db["acl"].insert_one(
        {"_id": "read", "roles": ["user"], "predicate": "path-prefix('/notes')", "priority": 1}
    )
    installation.db["users"].insert_one({"_id": "ann", "roles": ["user"], "password": "x"})
    before = installation.read_all()
    report = installation.migrate(0)
    assert not find_less(report)
    written = yaml.safe_load((installation.directory / "docgraph.yml").read_text())
    assert "authentication" not in written  # nothing is public
    assert "serve-by-id" not in written["graphql"]  # no app has two paths
    assert written["acl"] == {"first-role-wins": True}
    assert installation.read_all() == before  # no collection and no document more


def test_what_would_show_more_is_reported_and_is_the_exit_code(installation: Installation) -> None:
    db = installation.db
    db["acl"].insert_many(
        [
            {"_id": "public", "roles": ["$unauthenticated"], "predicate": "path('/open')"},
            {"_id": "a", "roles": ["editor"], "predicate": "path('/a')"},
            {"_id": "b", "roles": ["user"], "predicate": "path('/a')"},
            {
                "_id": "misspelt",
                "roles": ["user"],
                "predicate": "path('/a')",
                "foo": 1,
                "mongo": {"readFilter": {"own": True}},
            },
        ]
    )
    db["users"].insert_many(
        [
            {"_id": "both", "roles": ["user", "editor"]},
            {"_id": "one", "roles": ["user"]},
            {"_id": "new", "roles": ["user"], "password": f"$2b$12${'a' * 53}"},
        ]
    )
    report = installation.migrate(3)
    written = yaml.safe_load((installation.directory / "docgraph.yml").read_text())
    assert written["authentication"] == {"anonymous-fallback": True}
    assert (installation.directory / "docgraph.yml").stat().st_mode & 0o777 == 0o600
    assert find_less(report) == {"permission public", "permission misspelt", "users new"}
    assert "foo" in report["permission misspelt"]["what"]
    ids = [report[where]["id"] for where in find_less(report)]
    again = installation.migrate(0, *(part for id in ids for part in ("--accept", id)))
    assert find_less(again) == find_less(report)  # accepted, and still in the list


def test_apps_aggregations_and_properties_that_do_not_work_are_reported(
    installation: Installation,
) -> None:
    db = installation.db
    schema = "type Query { posts: [Post] } type Post { title: String }"
    partly = "type Query { posts: [Post] no: [Post] } type Post { title: String }"
    posts = {"db": db.name, "collection": "posts", "find": {}}
    good = {
        "descriptor": {"uri": "blog/api"},
        "schema": schema,
        "mappings": {"Query": {"posts": posts}},
    }
    db["gql-apps"].insert_many(
        [
            {"_id": "blog", **good},
            {"_id": "broken", "schema": "type Query {", "mappings": {}},
            {"_id": "partly", "schema": partly, "mappings": {"Query": {"posts": posts, "no": 5}}},
        ]
    )
    db["_properties"].insert_many(
        [
            {
                "_id": "_properties.posts",
                "aggrs": [{"uri": "x", "type": "pipeline", "stages": 1}],
                "etagPolicy": "SOMETIMES",
            },
            {"_id": "_properties.people", "jsonSchema": {"schemaId": "missing"}},
            {"_id": "_properties.good", "jsonSchema": {"schemaId": "fine"}},
            {"_id": "_properties.files", "rels": []},
        ]
    )
    db["_schemas"].insert_many(
        [
            {"_id": "fine", "_$schema": "http://json-schema.org/draft-04/schema#"},
            {"_id": "bad", "type": "no type"},
        ]
    )
    before = installation.read_all()
    report = installation.migrate(0)
    assert "app blog" not in report  # it is served at both paths, as before
    assert "400" in report["app broken"]["what"]
    assert "mappings.Query.no" in report["app partly"]["what"]
    written = yaml.safe_load((installation.directory / "docgraph.yml").read_text())
    assert written["graphql"]["serve-by-id"] is True
    assert report[f"{db.name}/posts"]["list"] == "more is refused than before"
    assert "aggrs" in report[f"{db.name}/posts"]["what"]
    assert "etagPolicy" in report[f"{db.name}/posts"]["what"]  # every fault, not the first only
    assert "HAL" in report[f"{db.name}/files"]["what"]
    schemas = {where for where, row in report.items() if row["id"].startswith("schema:")}
    assert schemas == {f"schema {db.name}/bad", f"{db.name}/people/jsonSchema"}
    assert installation.read_all() == before


def test_a_mount_of_all_databases_is_checked_in_all_of_them(installation: Installation) -> None:
    db = installation.db
    db["_properties"].insert_one({"_id": "_properties.files", "rels": []})
    config = yaml.safe_load(installation.file.read_text())
    config["mongo"] = {"mongo-mounts": [{"what": "*", "where": "/"}]}
    config["mongoRealmAuthenticator"] = {"users-db": db.name}
    config["mongoAclAuthorizer"] = {"acl-db": db.name}
    config["graphql"] |= {"db": db.name}
    installation.file.write_text(yaml.safe_dump(config))
    before = installation.read_all()
    output = installation.directory / "docgraph.yml"
    command = ["migrate", "restheart", str(installation.file), "--json", "--output", str(output)]
    command += ["--from-version", "9"]
    done = subprocess.run(
        [sys.executable, "-c", RECORDED, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    sent = {line.split()[1] for line in done.stderr.splitlines() if line.startswith("command ")}
    assert sent > {"find", "listDatabases"}
    assert sent.isdisjoint(WRITES), sent
    report = {row["where"]: row for row in json.loads(done.stdout)}
    assert "HAL" in report[f"{db.name}/files"]["what"]
    assert installation.read_all() == before  # no first user either


def test_an_unreachable_database_leaves_a_file_that_opens_nothing(
    installation: Installation,
) -> None:
    config = {"mclient": {"connection-string": "mongodb://ann:hidden@127.0.0.1:1"}}
    installation.file.write_text(yaml.safe_dump(config))
    output = installation.directory / "docgraph.yml"
    command = ["migrate", "restheart", str(installation.file), "--json", "--output", str(output)]
    command += ["--from-version", "9"]
    done = run(*command)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "hidden" not in done.stdout + done.stderr
    assert json.loads(done.stdout)  # the report of the file
    written = yaml.safe_load(output.read_text())
    assert "authentication" not in written
    assert "serve-by-id" not in written["graphql"]


def test_documents_of_plugins_that_are_off_have_no_line(installation: Installation) -> None:
    db = installation.db
    db["acl"].insert_one({"_id": "a", "roles": ["$unauthenticated"], "predicate": "path('/a')"})
    db["users"].insert_one({"_id": "new", "password": f"$2b$12${'a' * 53}"})
    db["gql-apps"].insert_one({"_id": "broken", "schema": "type Query {", "mappings": {}})
    config = yaml.safe_load(installation.file.read_text())
    config |= {
        "mongoAclAuthorizer": {"enabled": False},
        "mongoRealmAuthenticator": {"enabled": False},
        "fullAuthorizer": {"enabled": True, "authentication-required": True},
        "graphql": {"collection": "gql-apps", "enabled": False},
    }
    installation.file.write_text(yaml.safe_dump(config))
    report = installation.migrate(0)
    assert report.keys().isdisjoint({"permission a", "users new", "app broken"})
