"""`docgraph acl` as people and machines call it, and `docgraph apps apply --open-to`."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.process.commands import run
from tests.process.harness import eventually, request, run_server

Mongo = MongoClient[dict[str, Any]]
PREDICATE = "path-prefix('/notes')"


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
            f"--set=/dbAclAuthorizer/acl-db={self.db}",
            f"--set=/dbRealmAuthenticator/users-db={self.db}",
        ]

    def run(
        self, *arguments: str, typed: str = "", code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        done = run(*arguments, *self.options, input=typed)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def acl(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run("acl", *arguments, **options)

    @property
    def stored(self) -> dict[str, Any]:
        found = self.mongo[self.db]["acl"].find()
        return {str(one.pop("_id")): one for one in found}


@pytest.fixture
def commands(mongo_uri: str, mongo_client: Mongo, database: str) -> Commands:
    return Commands(mongo_uri, database, mongo_client)


def save(directory: Path, name: str, content: Any) -> str:
    path = directory / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


# --- the commands ---------------------------------------------------------------------------------


def test_a_rule_is_added_shown_listed_replaced_and_removed(commands: Commands) -> None:
    mongo = '{"readFilter": {"owner": "@user._id"}}'
    options = ["--role", "user", "--priority", "3", "--mongo", mongo]
    done = commands.acl("add", "own", PREDICATE, *options)
    assert done.stderr == "stored the rule own for user\n"
    rule = {
        "roles": ["user"],
        "predicate": PREDICATE,
        "priority": 3,
        "mongo": {"readFilter": {"owner": "@user._id"}},
    }
    assert commands.stored == {"own": rule}
    assert json.loads(commands.acl("show", "own").stdout) == {"_id": "own", **rule}
    (row,) = json.loads(commands.acl("list", "--json").stdout)
    assert row == {
        "rule": "own",
        "from": "database",
        "priority": 3.0,
        "roles": ["user"],
        "predicate": PREDICATE,
        "conditions": ["readFilter"],
        "valid": True,
    }

    done = commands.acl("add", "own", "true", "--everybody", code=1)
    assert "there is a rule own already" in done.stderr
    done = commands.acl("add", "own", "method(GET)", "--everybody", "--replace")
    assert done.stderr == "stored the rule own for everybody\n"
    assert commands.stored == {"own": {"roles": ["$unauthenticated"], "predicate": "method(GET)"}}

    done = commands.acl("remove", "own", typed="y\n")
    assert "everybody: method(GET)" in done.stderr
    assert "removed the rule own" in done.stderr
    assert commands.stored == {}
    assert "there are no rules" in commands.acl("list").stderr


def test_what_does_not_exist_is_told_before_anything_is_asked(commands: Commands) -> None:
    for arguments in (("show", "x"), ("remove", "x"), ("remove", "x", "--yes")):
        done = commands.acl(*arguments, typed="y\n", code=1)
        assert done.stderr.startswith("docgraph: there is no rule 'x'\n")


def test_rules_of_a_file_are_stored_all_or_none(commands: Commands, tmp_path: Path) -> None:
    rules = f"""
    permissions:
      - _id: a
        role: user
        predicate: {PREDICATE}
      - _id: b
        roles: [editor]
        predicate: {PREDICATE}
    """
    good = save(tmp_path, "rules.yml", rules)
    bad = save(tmp_path, "bad.yml", rules.replace("roles:", "rols:"))

    done = commands.acl("add", "--file", bad, code=1)
    assert "Wrong permission: permissions[1].rols is not a key of a permission" in done.stderr
    assert commands.stored == {}
    commands.acl("add", "--file", good)
    assert sorted(commands.stored) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "a"], "give an id and a predicate"),
        (["add", "a", "true"], "say whom it is for"),
        (["add", "a", "true", "--role", ""], "single quotes"),
        (["add", "a", "true", "--role", "x", "--mongo", "{"], "--mongo"),
        (["add", "a", "true", "--role", "x", "--file", __file__], "--file"),
        (["check", "true", "--file", __file__], "not both"),
    ],
)
def test_a_wrong_call_is_exit_code_2(
    commands: Commands, arguments: list[str], message: str
) -> None:
    assert message in commands.acl(*arguments, code=2).stderr


def test_a_mistake_in_a_predicate_is_told_with_its_column(commands: Commands) -> None:
    done = commands.acl("add", "a", "path-prefix('/x') an true", "--everybody", code=1)
    assert "predicate cannot be read: column 19: " in done.stderr
    assert commands.stored == {}


def test_without_the_authorizer_there_are_no_rules(commands: Commands) -> None:
    off = "--set=/dbAclAuthorizer/enabled=false"
    assert "dbAclAuthorizer is off" in commands.acl("list", off, code=1).stderr


def test_rules_of_the_configuration_are_in_the_same_list(commands: Commands) -> None:
    """In the order of evaluation: by priority, then those of the database, then the last one."""
    written = [{"role": "x", "predicate": PREDICATE, "priority": n} for n in (2, 4, 2)]
    permissions = json.dumps([*written, {"role": "x", "predicate": PREDICATE}])
    commands.mongo[commands.db]["acl"].insert_many(
        [
            {"_id": "second", "roles": ["x"], "predicate": PREDICATE, "priority": 3},
            {"_id": "third", "roles": ["x"], "predicate": PREDICATE, "priority": 2},
            {"_id": "last", "roles": ["x"], "predicate": PREDICATE},
        ]
    )
    done = commands.acl(
        "list",
        "--json",
        "--set=/fileAclAuthorizer/enabled=true",
        f"--set=/fileAclAuthorizer/permissions={permissions}",
    )
    rows = json.loads(done.stdout)
    assert [(row["rule"], row["from"]) for row in rows] == [
        ("permissions[1]", "file"),
        ("second", "database"),
        ("third", "database"),
        ("permissions[2]", "file"),
        ("permissions[0]", "file"),
        ("last", "database"),
        ("permissions[3]", "file"),
    ]
    assert rows[0]["roles"] == ["x"]


# --- check ----------------------------------------------------------------------------------------


def test_a_predicate_and_a_file_are_checked_without_a_database(tmp_path: Path) -> None:
    done = run("acl", "check", PREDICATE, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, f"{PREDICATE}: fine\n")
    done = run("acl", "check", "equals(@usr, 1)", cwd=tmp_path)
    assert done.returncode == 1
    assert "column 1: equals: unknown variable @usr" in done.stderr

    rules: list[dict[str, Any]] = [
        {"_id": "a", "roles": ["x"], "predicate": "true"},
        {"roles": [], "predicate": "tru("},
    ]
    rules.append({**rules[0], "_id": "typo", "mongo": {"readFilter": {"n": {"$gtt": 1}}}})
    file = save(tmp_path, "rules.json", rules)
    done = run("acl", "check", "--file", file, "--json", cwd=tmp_path)
    assert done.returncode == 1
    first, second, third = json.loads(done.stdout)
    assert first == {"rule": "a", "valid": True, "errors": [], "warnings": []}
    assert second["rule"] == "permissions[1]"
    assert len(second["errors"]) == 2
    assert [one["hint"] for one in third["errors"]] == ["did you mean $gt?"]
    assert "is that of a (database), which can match" in third["warnings"][0]["what"]
    assert not (tmp_path / "data").exists()


def test_rules_of_different_roles_are_not_tied_where_the_first_role_decides(
    tmp_path: Path,
) -> None:
    rule: dict[str, Any] = {"roles": ["x"], "predicate": "true"}
    mine = {"readFilter": {"n": 1}}
    rules = [
        {**rule, "_id": "a"},
        {**rule, "_id": "b", "roles": ["y"], "mongo": mine},
        {**rule, "_id": "c", "roles": ["y", "z"]},
    ]
    file = save(tmp_path, "rules.json", rules)
    found = {}
    for option in ("false", "true"):
        wins = f"--set=/acl/first-role-wins={option}"
        done = run("acl", "check", "--file", file, "--json", wins, cwd=tmp_path)
        found[option] = {one["rule"]: len(one["warnings"]) for one in json.loads(done.stdout)}
    assert found == {"false": {"a": 0, "b": 1, "c": 1}, "true": {"a": 0, "b": 0, "c": 1}}


def test_stored_rules_that_cannot_work_are_found(commands: Commands) -> None:
    commands.mongo[commands.db]["acl"].insert_many(
        [
            {"_id": "good", "roles": ["x"], "predicate": "true"},
            {"_id": "bad", "roles": ["x"], "predicate": "tru"},
            {"_id": "key", "roles": ["x"], "predicate": "true", "mongo": {"readfiltr": {}}},
            {"_id": "hidden", "roles": ["y"], "predicate": "true", "mongo": {"readFilter": {}}},
            {
                "_id": "x",
                "roles": ["x"],
                "predicate": "true",
                "mongo": {"readFilter": {"_$gtt": 1}},
            },
        ]
    )
    done = commands.acl("check", code=1)
    assert "good: fine" in done.stderr
    assert "bad: Wrong permission: predicate cannot be read: column 1: " in done.stderr
    assert (
        "key: Wrong permission: mongo.readfiltr is not a key of a permission "
        "(did you mean mongo.readFilter?)"
    ) in done.stderr
    assert (
        "hidden: priority is that of good (database), which can match the same requests with "
        "another effect (this rule is evaluated first; give them different priorities)"
    ) in done.stderr
    assert "x: Wrong permission: mongo.readFilter.$gtt is not known: " in done.stderr


def test_indexes_that_row_filters_want_are_recommended(commands: Commands) -> None:
    database = commands.mongo[commands.db]
    database["notes"].insert_many({"_id": n, "owner": n % 50, "team": n % 7} for n in range(1200))
    database["few"].insert_many({"_id": n, "owner": n} for n in range(10))
    filters = {
        "own": {"readFilter": {"owner": "@user._id"}, "writeFilter": {"owner": "@user._id"}},
        "app": {"readFilters": {f"{commands.db}.notes": {"$or": [{"_id": 1}, {"team": "red"}]}}},
        "late": {"readFilter": {"owner": {"$gt": 5}}},
    }
    database["acl"].insert_many(
        {"_id": id, "roles": ["x"], "predicate": "true", "priority": number, "mongo": mongo}
        for number, (id, mongo) in enumerate(filters.items())
    )
    mounts = json.dumps([{"what": f"/{commands.db}", "where": "/"}])

    done = commands.acl("check", f"--set=/mongo/mongo-mounts={mounts}")
    rows = json.loads(commands.acl("check", "--json").stdout)

    place = f"{commands.db}.notes"
    command = f'db.getSiblingDB("{commands.db}").getCollection("notes").createIndex'
    lines = done.stderr.splitlines()
    (own,) = [one for one in lines if one.startswith("own: mongo.")]
    assert own.startswith(f"own: mongo.readFilter: no index of {place} begins with owner: ")
    assert f'    → {command}({{"owner": 1}})' in lines
    (app,) = [one for one in lines if one.startswith("app: mongo.")]
    assert f"app: mongo.readFilters.{place}: no index of {place} begins with team: " in app
    assert f'    → {command}({{"team": 1}})' in lines
    assert not any(one.startswith("late: mongo.") or "few" in one for one in lines)
    assert {"own: fine", "app: fine", "late: fine"} <= {*lines}
    by_rule = {row["rule"]: row["advice"] for row in rows}  # nothing else is mounted here
    assert [one["where"] for one in by_rule["app"]] == [f"mongo.readFilters.{place}"]
    assert by_rule["own"] == by_rule["late"] == []


# --- apps apply --open-to -------------------------------------------------------------------------


def definition(id: str, **others: Any) -> dict[str, Any]:
    mapping = {"db": "d", "collection": "c", "find": {}}
    schema = "type Query { items: [Item] } type Item { name: String }"
    return {"_id": id, "schema": schema, "mappings": {"Query": {"items": mapping}}, **others}


def test_applied_apps_are_opened_at_their_address_and_nowhere_else(
    commands: Commands, tmp_path: Path
) -> None:
    blog = save(tmp_path, "blog.json", definition("blog", descriptor={"uri": "/v1/blog"}))
    done = commands.run("apps", "apply", blog, "--open-to", "everybody", "--dry-run")
    assert "would open blog to everybody by the rule app-blog" in done.stderr
    assert commands.stored == {}

    done = commands.run("apps", "apply", blog, "--open-to", "everybody", "--open-to", "editor")
    assert "opened blog to everybody, editor by the rule app-blog" in done.stderr
    rule = {"roles": ["$unauthenticated", "editor"], "predicate": "path('/graphql/v1/blog')"}
    assert commands.stored == {"app-blog": rule}
    save(tmp_path, "blog.json", definition("blog", descriptor={"uri": "it's"}))
    commands.run("apps", "apply", blog, "--open-to", "editor")
    moved = {"roles": ["editor"], "predicate": 'path("/graphql/it\'s")'}
    assert commands.stored == {"app-blog": moved}


@pytest.mark.parametrize("name", ["everbody", "everybdy", "Everybody"])
def test_a_misspelt_everybody_is_rejected(commands: Commands, tmp_path: Path, name: str) -> None:
    blog = save(tmp_path, "blog.json", definition("blog"))

    done = commands.run("apps", "apply", blog, "--open-to", name, code=2)

    assert "did you mean 'everybody'?" in done.stderr
    assert commands.stored == {}


@pytest.mark.parametrize("way", ["delete", "remove", "prune"])
def test_the_rule_that_opened_an_app_goes_with_it(
    commands: Commands, tmp_path: Path, way: str
) -> None:
    blog = save(tmp_path, "blog.json", definition("blog"))
    shop = save(tmp_path, "shop.json", definition("shop"))
    commands.run("apps", "apply", blog, shop, "--open-to", "everybody")

    if way == "delete":
        done = commands.run("apps", "delete", "blog")
    elif way == "remove":
        done = commands.run("apps", "remove", "blog", "--yes")
    else:
        done = commands.run("apps", "apply", shop, "--prune", "--dry-run")
        assert "would remove the rule app-blog (everybody)" in done.stderr
        assert set(commands.stored) == {"app-blog", "app-shop"}
        done = commands.run("apps", "apply", shop, "--prune")

    assert "removed the rule app-blog, which opened it to everybody" in done.stderr
    assert set(commands.stored) == {"app-shop"}


def test_a_rule_that_outlives_its_app_is_told(commands: Commands, tmp_path: Path) -> None:
    """It has conditions of its own; so the next app of that name is open by it."""
    own = {"roles": ["x"], "predicate": "path('/graphql/blog') and method(POST)"}
    commands.mongo[commands.db]["acl"].insert_one({"_id": "app-blog", **own})
    blog = save(tmp_path, "blog.json", definition("blog"))

    done = commands.run("apps", "apply", blog)
    assert "the rule app-blog was there before, and may open it to x" in done.stderr
    assert "app-blog" not in commands.run("apps", "apply", blog).stderr

    done = commands.run("apps", "delete", "blog")
    assert "the rule app-blog stays, as it has conditions of its own" in done.stderr
    assert commands.stored == {"app-blog": own}


def test_opening_never_replaces_a_rule_with_conditions(commands: Commands, tmp_path: Path) -> None:
    own = {"roles": ["x"], "predicate": "path('/graphql/blog')", "mongo": {"readFilters": {}}}
    commands.mongo[commands.db]["acl"].insert_one({"_id": "app-blog", **own})
    blog = save(tmp_path, "blog.json", definition("blog"))

    done = commands.run("apps", "apply", blog, "--open-to", "everybody", code=1)

    assert "there is a rule app-blog with conditions of its own" in done.stderr
    assert commands.stored == {"app-blog": own}
    assert commands.mongo[commands.db]["gql-apps"].count_documents({}) == 0


def test_a_running_server_has_what_was_applied_when_the_command_is_over(
    commands: Commands, tmp_path: Path
) -> None:
    blog = save(tmp_path, "blog.json", definition("blog"))
    settings = {
        "mclient": {"connection-string": commands.uri},
        "graphql": {"db": commands.db},
        "dbAclAuthorizer": {"acl-db": commands.db},
        "dbRealmAuthenticator": {"users-db": commands.db},
    }

    def ask() -> int:
        body = b'{"query": "{ a: __typename }"}'
        kind = {"content_type": "application/json"}
        with server.connect() as wire:
            wire.send(request("POST", "/graphql/blog", body, **kind))
            return wire.read().status

    with run_server(settings, workers=2) as server:
        versions = commands.mongo[commands.db]["_versions"]
        eventually(lambda: versions.count_documents({"instances": {"$size": 1}}) == 2)
        assert ask() == 401

        done = commands.run("apps", "apply", blog, "--open-to", "everybody")

        assert done.stderr.splitlines()[-2:] == [
            "rules: live on 1 instance",
            "apps: live on 1 instance",
        ]
        assert {ask() for _ in range(8)} == {200}


def test_views_on_filtered_rows_are_reported(commands: Commands) -> None:
    """Decision 58, by `acl check` and `apps check`."""
    db = commands.mongo[commands.db]
    db.notes.insert_one({"_id": 1})
    db.create_collection("every", viewOn="notes", pipeline=[])
    mapping = {"db": commands.db, "collection": "every"}
    schema = "type Query { all: [Note] } type Note { _id: Int }"
    db["gql-apps"].insert_one(
        {"_id": "v", "schema": schema, "mappings": {"Query": {"all": mapping}}}
    )
    own = {f"{commands.db}.notes": {"owner": "ada"}}
    rule = {
        "roles": ["user"],
        "predicate": "path-prefix('/graphql')",
        "mongo": {"readFilters": own},
    }
    db.acl.insert_one({"_id": "app", **rule})
    (row,) = json.loads(commands.acl("check", "--json").stdout)
    assert row["valid"]
    assert f"does not name {commands.db}.every" in row["warnings"][0]["what"]
    done = commands.run("apps", "check")
    assert f"the rule app (database) does not name {commands.db}.every" in done.stderr
    db.acl.update_one({}, {"$set": {f"mongo.readFilters.{commands.db}::every": {}}})
    (row,) = json.loads(commands.acl("check", "--json").stdout)
    assert row["warnings"] == []
