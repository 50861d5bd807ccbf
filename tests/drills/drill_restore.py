"""A restore while docgraph serves: every collection is dropped, created and filled again.

    make drill-restore

It is done as mongorestore does it with `--drop`: collections in parallel, documents in batches, the
indexes at the end. The dump is older than what is stored: users, rules and apps go back. Meanwhile
nobody may do more than before or afterwards; then everything is as in the dump within seconds.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from pymongo import MongoClient
from pymongo.database import Database

from tests.drills.server import DrillServer, describe_load, serving, wait_until

pytestmark = pytest.mark.timeout(300)

DB, POSTS, ROUNDS = "restored", 5_000, 3
BATCH, PARALLEL = 1_000, 4  # as mongorestore has them
SETTLED = 8  # answers in a row, from both workers
SECONDS = 15.0
OLD, NEW = "old-password", "new-password"
FAULTS = {"401", "403", "404", "500", "503"}
OPTIONS = {
    "core__workers": "2",
    "graphql__db": DB,
    "mongo__mongo_mounts": f'[{{"what": "/{DB}", "where": "/data"}}]',
    "fullAuthorizer__enabled": "false",
    "basicAuthMechanism__enabled": "true",
    "dbRealmAuthenticator__enabled": "true",
    "dbRealmAuthenticator__users_db": DB,
    "dbRealmAuthenticator__bcrypt_complexity": "4",  # also for users that do not exist
    "bruteForceAttackGuard__enabled": "false",
    "dbAclAuthorizer__enabled": "true",
    "dbAclAuthorizer__acl_db": DB,
}

Mongo = MongoClient[dict[str, Any]]


def build_app(word: str) -> dict[str, Any]:
    posts = {"db": DB, "collection": "posts", "find": {}, "limit": 1}
    return {
        "_id": "app",
        "descriptor": {"uri": "app", "name": "app", "enabled": True},
        "schema": f"type Query {{ {word}: [Post] }} type Post {{ n: Int }}",
        "mappings": {"Query": {word: posts}},
    }


def build_user(name: str, password: str, *roles: str) -> dict[str, Any]:
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    return {"_id": name, "password": hashed, "roles": list(roles)}


def build_rule(name: str, role: str, path: str) -> dict[str, Any]:
    return {"_id": name, "roles": [role], "predicate": f"path-prefix('{path}')", "priority": 1}


def fill(db: Database[dict[str, Any]]) -> None:
    """The state of the dump: ada reads the posts and the app, bob nothing."""
    db.client.drop_database(DB)
    db["posts"].insert_many({"_id": n, "n": n} for n in range(POSTS))
    db["posts"].create_index("n")
    db["secrets"].insert_one({"_id": 1})
    db["users"].insert_many([build_user("ada", OLD, "reader"), build_user("bob", OLD, "guest")])
    rules = [("posts", "/data/posts"), ("app", "/graphql/app")]
    db["acl"].insert_many([build_rule(name, "reader", path) for name, path in rules])
    db["gql-apps"].insert_one(build_app("before"))


def change(db: Database[dict[str, Any]]) -> None:
    """What happens after the dump: another password, another app, bob reads the posts."""
    db["users"].replace_one({"_id": "ada"}, build_user("ada", NEW, "reader"))
    db["acl"].insert_one(build_rule("bob", "guest", "/data/posts"))
    db["gql-apps"].replace_one({"_id": "app"}, build_app("after"))


def dump(db: Database[dict[str, Any]]) -> dict[str, tuple[dict[str, Any], list[Any], list[Any]]]:
    """Options, documents and indexes of all collections."""
    return {
        one["name"]: (
            one["options"],
            list(db[one["name"]].find()),
            [index.to_dict() for index in map(IndexOf, db[one["name"]].list_indexes())],
        )
        for one in db.list_collections()
    }


class IndexOf:
    """The description of an index, as `createIndexes` takes it."""

    def __init__(self, found: Any) -> None:
        self._found = dict(found)

    def to_dict(self) -> dict[str, Any]:
        return {**self._found, "key": dict(self._found["key"])}


def restore(db: Database[dict[str, Any]], dumped: dict[str, Any]) -> None:
    def restore_one(name: str) -> None:
        options, documents, _ = dumped[name]
        db.drop_collection(name)
        db.create_collection(name, **options)
        for start in range(0, len(documents), BATCH):
            db[name].insert_many(documents[start : start + BATCH], ordered=False)

    with ThreadPoolExecutor(PARALLEL) as threads:
        for done in [threads.submit(restore_one, name) for name in sorted(dumped)]:
            done.result()
    for name, (_, _, indexes) in dumped.items():
        db.command({"createIndexes": name, "indexes": indexes})


def ask(server: DrillServer, user: tuple[str, str] | None, path: str, body: Any = None) -> str:
    """The status of a request; `errors` for a GraphQL response with errors."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Content-Type": "application/json"}
    if user is not None:
        headers["Authorization"] = "Basic " + b64encode(":".join(user).encode()).decode()
    try:
        method, content = ("GET", None) if body is None else ("POST", json.dumps(body))
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()
    return "errors" if b'"errors":[' in text else str(response.status)


CALLS: dict[str, tuple[tuple[str, str] | None, str, Any]] = {
    "ada, old": (("ada", OLD), "/data/posts?pagesize=1", None),
    "ada, new": (("ada", NEW), "/data/posts?pagesize=1", None),
    "bob": (("bob", OLD), "/data/posts?pagesize=1", None),
    "before": (("ada", OLD), "/graphql/app", {"query": "{before {n}}"}),
    "after": (("ada", OLD), "/graphql/app", {"query": "{after {n}}"}),
}
NEVER: dict[str, tuple[tuple[str, str] | None, str, Any]] = {
    "nobody": (None, "/data/posts?pagesize=1", None),
    "nobody, app": (None, "/graphql/app", {"query": "{before {n}}"}),
    "admin": (("admin", "secret"), "/data/secrets", None),
    "ada, secrets": (("ada", OLD), "/data/secrets", None),
    "bob, users": (("bob", OLD), "/data/users", None),
}


@contextmanager
def calling(server: DrillServer) -> Iterator[dict[str, Counter[str]]]:
    """The answers to all calls, again and again."""
    seen = {name: Counter[str]() for name in (*CALLS, *NEVER)}
    is_over = threading.Event()

    def run(name: str) -> None:
        while not is_over.wait(0.1):
            seen[name][ask(server, *{**CALLS, **NEVER}[name])] += 1

    threads = [threading.Thread(target=run, args=(name,)) for name in seen]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def settle(server: DrillServer, expected: dict[str, str]) -> float:
    """How long it took until all answers were those, and stayed so."""
    begun = in_a_row = time.monotonic()
    count = 0
    while count < SETTLED:
        found = {name: ask(server, *CALLS[name]) for name in expected}
        count = count + 1 if found == expected else 0
        in_a_row = in_a_row if count > 1 else time.monotonic()
        assert time.monotonic() - begun < 90, found
    return in_a_row - begun


STATE_BEFORE = {
    "ada, old": "200",
    "ada, new": "401",
    "bob": "403",
    "before": "200",
    "after": "errors",
}
STATE_AFTER = {"ada, old": "401", "ada, new": "200", "bob": "200"}


def test_a_restore_while_serving(mongo_uri: str, tmp_path: Path) -> None:
    options = {"mclient__connection_string": mongo_uri, **OPTIONS}
    with Mongo(mongo_uri) as mongo:
        fill(mongo[DB])
        with serving(tmp_path, **options) as server:
            wait_until(lambda: ask(server, *CALLS["before"]) == "200")
            settle(server, STATE_BEFORE)
            dumped, took = dump(mongo[DB]), []
            with calling(server) as seen:
                for _ in range(ROUNDS):
                    change(mongo[DB])
                    settle(server, STATE_AFTER)
                    restore(mongo[DB], dumped)
                    took.append(settle(server, STATE_BEFORE))
            log = server.log.read_text()
            stored = mongo[DB]["posts"].count_documents({})
    print(
        f"\n{ROUNDS} restores: as in the dump after {', '.join(f'{one:.1f} s' for one in took)}",
        end="",
    )
    print(f" ({describe_load()})")
    for name, answers in seen.items():
        print(f"{name}: {dict(answers)}")
    assert stored == POSTS
    assert all(set(seen[name]) <= FAULTS - {"500"} | {"errors"} for name in NEVER), seen
    assert all(set(seen[name]) <= FAULTS | {"200", "errors"} for name in CALLS), seen
    assert max(took) < SECONDS
    assert "request-failed" not in log
