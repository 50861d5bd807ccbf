"""`docgraph ready` is the truth, and `docgraph doctor` says what to do (25, 45)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.databases import drop
from tests.guarded_mongo import GuardedMongo
from tests.http.realms import hashed, render_basic
from tests.process.commands import run
from tests.process.harness import run_server

Checks = dict[str, dict[str, Any]]

NOBODY = "mongodb://127.0.0.1:9/"
ANN = {"_id": "ann", "password": hashed("secret"), "roles": ["admin"]}


def sections(uri: str, db: str) -> dict[str, Any]:
    """Users, rules and apps in one database, with a first user; events from information up."""
    return {
        "mclient": {"connection-string": uri},
        "graphql": {"db": db},
        "dbAclAuthorizer": {"acl-db": db},
        "dbRealmAuthenticator": {
            "users-db": db,
            "bcrypt-hashed-password": True,
            "create-user-document": json.dumps(ANN),
        },
        "logging": {"level": "info", "format": "json"},
    }


CONFIG_CHECK = """
import sys
from docgraph.cli import main
sys.argv[1:] = ["config", "check", "docgraph.yml"]
main()
"""


def examine(*settings: str, cwd: Path) -> tuple[int, Checks]:
    """The exit code of the doctor, and its findings by their check."""
    options = [f"--set={one}" for one in settings]
    done = run("doctor", "--json", *options, cwd=cwd)
    return done.returncode, {one["check"]: one for one in json.loads(done.stdout)}


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_request_after_ready_finds_the_first_administrator(
    mongo_uri: str, database: str, workers: int
) -> None:
    with run_server(sections(mongo_uri, database), workers=workers) as server:
        header = {"authorization": render_basic("ann", "secret")}
        assert [server.get("/tokens/ann", **header).status for _ in range(4)] == 4 * [200]
        assert server.ready == f"docgraph ready {server.urls[0]}\n"


@pytest.mark.parametrize("workers", [1, 2])
def test_without_a_database_ready_says_so_and_the_log_says_it_once(workers: int) -> None:
    with run_server(sections(NOBODY, "nowhere"), workers=workers) as server:
        assert server.ready == f"docgraph ready {server.urls[0]} (the database cannot be reached)\n"
        assert server.get("/graphql/app").status == 500
        assert server.get("/health/db").status == 503
        assert server.stop() == 0
    # The sample plugin writes lines of its own, without a level; a busy machine has others.
    told = [one for one in server.events if one.get("level") in ("warning", "error")]
    busy = {"loop-lagged", "slow-operation"}
    assert {one["event"] for one in told} - busy == {"database-lost", "query-failed"}
    (lost,) = [one for one in told if one["event"] == "database-lost"]
    assert lost["address"] == "127.0.0.1:9"
    assert lost["reason"] == "no server listens there"


def test_a_wrong_password_names_the_line_of_the_file(
    guarded_mongo: GuardedMongo, tmp_path: Path
) -> None:
    uri = guarded_mongo.render_uri("nobody", "wrong")
    (tmp_path / "docgraph.yml").write_text(f"mclient:\n\n  connection-string: {uri}\n")

    code, checks = examine(cwd=tmp_path)
    listed = run("users", "list", cwd=tmp_path)

    assert code == 1
    assert checks["address"]["found"] == f"{guarded_mongo.host} answers, set at docgraph.yml:3:3"
    assert checks["login"]["state"] == "wrong"
    assert checks["rights"]["state"] == "skipped"
    assert listed.returncode == 1
    assert "refuses the login" in listed.stderr
    assert "docgraph.yml:3:3" in listed.stderr
    assert "wrong@" not in listed.stderr


def test_the_doctor_finds_the_rights_that_an_app_needs(
    guarded_mongo: GuardedMongo, tmp_path: Path
) -> None:
    apps = guarded_mongo.admin["docgraph"]["gql-apps"]
    mapping = {"db": "shop", "collection": "items", "find": {}}
    apps.insert_one({"_id": "app", "schema": "", "mappings": {"Query": {"items": mapping}}})
    try:
        with guarded_mongo.user([{"role": "readWrite", "db": "docgraph"}]) as user:
            uri = guarded_mongo.render_uri(user, "secret")
            code, checks = examine(f"/mclient/connection-string={uri}", cwd=tmp_path)
    finally:
        drop(guarded_mongo.admin, "docgraph")

    assert (code, checks["login"]["found"]) == (1, f"as '{user}' of admin")
    assert checks["rights"]["state"] == "wrong"
    assert checks["rights"]["found"] == "no collection of the app app can be read"
    assert checks["rights"]["details"] == ["shop.items: find (the app app)"]
    grant = f"grantRolesToUser('{user}', [{{role: 'read', db: 'shop'}}])"
    assert grant in checks["rights"]["advice"]
    assert checks["members"]["found"] == "the replica set docgraph with 1 member"
    assert checks["indexes"]["state"] == "skipped"
    checked = ("version", "clock", "configuration", "connections", "fast path", "JSON lane")
    assert {checks[one]["state"] for one in checked} == {"ok"}
    assert "serverStatus" in checks["connections"]["advice"]


def test_the_doctor_advises_where_an_app_can_read_some_of_its_collections(
    guarded_mongo: GuardedMongo, tmp_path: Path
) -> None:
    fields = {
        name: {"db": db, "collection": name, "find": {}}
        for name, db in (("items", "shop"), ("notes", "docgraph"))
    }
    schema = "type Query { items: [Item] notes: [Item] } type Item { n: Int }"
    app = {"_id": "app", "schema": schema, "mappings": {"Query": fields}}
    guarded_mongo.admin["docgraph"]["gql-apps"].insert_one(app)
    try:
        with guarded_mongo.user([{"role": "readWrite", "db": "docgraph"}]) as user:
            uri = guarded_mongo.render_uri(user, "secret")
            code, checks = examine(f"/mclient/connection-string={uri}", cwd=tmp_path)
    finally:
        drop(guarded_mongo.admin, "docgraph")

    assert (code, checks["rights"]["state"]) == (0, "advice")
    assert checks["indexes"]["details"] == ["docgraph.gql-apps: _uris"]


def test_storing_an_app_tells_which_right_it_lacks(
    guarded_mongo: GuardedMongo, database: str, tmp_path: Path
) -> None:
    mapping = {"db": "shop", "collection": "items", "find": {}}
    schema = "type Query { items: [Item] } type Item { n: Int }"
    file = tmp_path / "app.json"
    file.write_text(
        json.dumps({"_id": "app", "schema": schema, "mappings": {"Query": {"items": mapping}}})
    )
    places = ("graphql/db", "dbAclAuthorizer/acl-db", "dbRealmAuthenticator/users-db")
    try:
        with guarded_mongo.user([{"role": "readWrite", "db": database}]) as user:
            uri = guarded_mongo.render_uri(user, "secret")
            settings = (f"/mclient/connection-string={uri}", *(f"/{x}={database}" for x in places))
            options = [f"--set={one}" for one in settings]
            done = run("apps", "apply", str(file), *options, cwd=tmp_path)
    finally:
        drop(guarded_mongo.admin, database)

    assert done.returncode == 0, done.stderr
    told = "docgraph lacks a right at the database: shop.items: find (the app app)"
    assert told in done.stderr
    assert f"grantRolesToUser('{user}', [{{role: 'read', db: 'shop'}}])" in done.stderr


def test_the_doctor_tells_a_wrong_address_and_a_wrong_configuration(tmp_path: Path) -> None:
    code, checks = examine(f"/mclient/connection-string={NOBODY}", cwd=tmp_path)
    assert code == 1
    assert checks["address"]["found"] == "127.0.0.1:9, set at --set: no server listens there"
    assert checks["address"]["advice"]
    assert (checks["login"]["state"], checks["JSON lane"]["state"]) == ("skipped", "ok")

    code, checks = examine("/core/workerz=2", cwd=tmp_path)
    assert code == 1
    assert "did you mean 'workers'?" in checks["configuration"]["found"]
    assert checks["address"]["state"] == "skipped"


def test_the_doctor_names_a_certificate_that_has_expired(tmp_path: Path) -> None:
    end = datetime(2020, 1, 1, tzinfo=UTC)
    issued = trustme.CA().issue_cert(
        "localhost", not_before=end - timedelta(days=90), not_after=end
    )
    pem = tmp_path / "server.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(pem)
    settings = [f"/https-listener/{name}={pem}" for name in ("certificate", "key")]
    code, checks = examine("/https-listener/enabled=true", *settings, cwd=tmp_path)
    assert (code, checks["certificate"]["state"]) == (1, "wrong")
    assert checks["certificate"]["found"] == "expired 2020-01-01T00:00:00Z"
    assert f"renew {pem}" in checks["certificate"]["advice"]


def test_the_doctor_lists_users_whose_hash_is_too_expensive_and_apps_that_are_invalid(
    mongo_uri: str, mongo_client: Any, database: str, tmp_path: Path
) -> None:
    """Decision 53: they cannot log in with a password, and are not told why."""
    users = mongo_client[database]["users"]
    settings = (
        f"/mclient/connection-string={mongo_uri}",
        f"/dbRealmAuthenticator/users-db={database}",
        f"/graphql/db={database}",
    )
    users.insert_one({"_id": "ann", "password": "$2a$14$" + "." * 53})
    _, checks = examine(*settings, cwd=tmp_path)
    assert checks["passwords"]["state"] == "ok"

    for name, cost in (("bob", 15), ("cid", 31)):
        users.insert_one({"_id": name, "password": f"$2b${cost}$" + "." * 53})
    apps = mongo_client[database]["gql-apps"]
    schema = "type Query { things: [Thing] } type Thing { n: Int }"
    mapped = {"Query": {"things": {"db": database, "collection": "things", "find": {}}}}
    apps.insert_one({"_id": "fine", "schema": schema, "mappings": mapped})
    apps.insert_one({"_id": "broken", "schema": "type Query {", "mappings": {}})
    same = {"descriptor": {"uri": "fine"}, "schema": schema, "mappings": mapped}
    apps.insert_one({"_id": "same", **same})  # served nowhere: the app with the lower _id is
    code, checks = examine(*settings, cwd=tmp_path)
    assert checks["apps"]["state"] == "wrong"
    assert checks["apps"]["found"] == "2 of 3 stored apps are invalid"
    broken, same_uri = checks["apps"]["details"]
    assert broken.startswith("broken: ")
    assert same_uri.startswith("same: descriptor.uri: ")
    assert (code, checks["passwords"]["state"]) == (1, "wrong")
    assert checks["passwords"]["details"] == ["bob", "cid"]
    assert "docgraph users passwd" in checks["passwords"]["advice"]


@pytest.mark.parametrize("section", ["dbRealmAuthenticator", "graphql", "dbAclAuthorizer", "mongo"])
def test_the_doctor_examines_all_of_an_installation_without_a_part(
    mongo_uri: str, database: str, tmp_path: Path, section: str
) -> None:
    """Users may be in a file, and an installation may have only one of the services."""
    settings = (
        f"/mclient/connection-string={mongo_uri}",
        f"/graphql/db={database}",
        f"/{section}/enabled=false",
        "/fullAuthorizer/enabled=true",
        "/basicAuthMechanism/authenticator=fileRealmAuthenticator",
        "/fileRealmAuthenticator/enabled=true",
        '/fileRealmAuthenticator/users=[{"userid": "ann", "password": "a long secret"}]',
    )
    code, checks = examine(*settings, cwd=tmp_path)
    assert code == 0
    assert {"passwords", "apps", "indexes"} <= checks.keys()
    assert {"wrong", "skipped"}.isdisjoint(one["state"] for one in checks.values())


def test_the_doctor_tells_why_reads_do_not_take_the_fast_path(
    mongo_uri: str, database: str, tmp_path: Path
) -> None:
    uri = f"{mongo_uri}&socketTimeoutMS=60000"
    settings = (
        f"/mclient/connection-string={uri}",
        f"/dbRealmAuthenticator/users-db={database}",
    )
    code, checks = examine(*settings, cwd=tmp_path)

    assert (code, checks["fast path"]["state"]) == (0, "advice")
    assert checks["fast path"]["found"].endswith(": the connection uses socketTimeoutMS")
    assert checks["fast path"]["advice"]


def test_the_doctor_compares_the_connections_with_what_the_database_and_the_system_allow(
    mongo_uri: str, database: str, tmp_path: Path
) -> None:
    settings = (
        f"/mclient/connection-string={mongo_uri}",
        f"/dbRealmAuthenticator/users-db={database}",
    )
    _, checks = examine(*settings, "/events/max-cursors=1", cwd=tmp_path)
    assert checks["connections"]["state"] == "ok"
    assert "for change streams; the database allows" in checks["connections"]["found"]

    many = ("/core/workers=256", "/mclient/max-pool-size=10000")
    _, checks = examine(*settings, *many, cwd=tmp_path)
    assert checks["connections"]["state"] == "advice"
    assert "events.max-cursors" in checks["connections"]["advice"]


def test_cursors_that_use_up_the_open_files_are_a_warning_of_the_configuration(
    tmp_path: Path,
) -> None:
    """Two limits meet: that of the streams and that of the system."""
    (tmp_path / "docgraph.yml").write_text("core: {workers: 1}\n")
    for files, is_told in ((400, True), (4000, False)):
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))"
        done = run(code=f"{limit}\n{CONFIG_CHECK}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (f"more than half of the {files} files" in done.stdout + done.stderr) is is_told


def test_the_doctor_starts_no_database(tmp_path: Path) -> None:
    done = run("doctor", cwd=tmp_path)

    assert done.returncode == 0
    assert "does not run" in done.stdout
    assert list(tmp_path.iterdir()) == []
