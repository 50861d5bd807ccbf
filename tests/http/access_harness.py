"""docgraph with rules and callers: a test is *rules, request, status, rows*.

Callers log in with a header that says who they are, so that one test can be many people. Only the
authentication is made simple: vetoers, allowers, rules, filters and the store are the real ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar
from uuid import uuid4

from bson import encode

from docgraph.exchange import Account, Exchange, Write, WriteKind
from docgraph.plugins.kinds import ABSENT, Accepted, AuthMechanism, Outcome, Plugin
from docgraph.server.builtin import BUILTIN
from tests.databases import new_name
from tests.http.harness import Document, Mongo, Service, merge, running


class TestCaller(AuthMechanism):
    """Believes the header `X-Caller`: a name, roles and properties as JSON."""

    __test__ = False
    name: ClassVar[str] = "testCaller"

    async def authenticate(self, exchange: Exchange) -> Outcome:
        text = exchange.request.headers.get("x-caller")
        if text is None:
            return ABSENT
        said = json.loads(text)
        return Accepted(Account(said["name"], tuple(said["roles"]), said["properties"]))

    def challenge(self, exchange: Exchange) -> Sequence[str]:
        return ("Test",)


def caller(name: str, *roles: str, **properties: Any) -> dict[str, str]:
    """The headers of a request that this caller makes."""
    said = {"name": name, "roles": roles, "properties": {"_id": name, **properties}}
    return {"X-Caller": json.dumps(said)}


NOBODY: dict[str, str] = {}
ADMIN = caller("root", "admin")
ADA = caller("ada", "user", team="blue")
BOB = caller("bob", "user", team="red")

_CLOSED = {
    "fullAuthorizer": {"enabled": False},
    "basicAuthMechanism": {"enabled": False},
    "tokenBasicAuthMechanism": {"enabled": False},
}


@asynccontextmanager
async def guarded(
    mongo: Mongo,
    uri: str,
    *settings: Mapping[str, Any],
    file_rules: Sequence[Document] = (),
    db: str | None = None,
    drop: bool = True,
    plugins: Sequence[type[Plugin]] = (),
) -> AsyncIterator[Service]:
    """A server that lets nobody in but the root role, and whom the rules admit."""
    db = db or new_name()
    own: Document = {
        "dbAclAuthorizer": {"acl-db": db},
        "dbRealmAuthenticator": {"users-db": db, "create-user": False},
        "mongo": {"mongo-mounts": [{"what": f"/{db}", "where": "/"}]},
    }
    if file_rules:
        own["fileAclAuthorizer"] = {"enabled": True, "permissions": list(file_rules)}
    layers = merge(_CLOSED, own, *settings)
    known: tuple[type[Plugin], ...] = (*BUILTIN, TestCaller, *plugins)
    async with running(mongo, uri, layers, db=db, drop=drop, plugins=known) as service:
        await service.app.store.available()
        yield service


def build_rule(predicate: str, *roles: str, **others: Any) -> Document:
    """A rule that has an id."""
    return {"_id": uuid4().hex, "predicate": predicate, "roles": list(roles), **others}


async def allow(service: Service, predicate: str, *roles: str, **others: Any) -> None:
    """Write a rule as the REST API does."""
    await write_rules(service, build_rule(predicate, *roles, **others))


async def ensure_rules(service: Service, *rules: Document) -> None:
    """Make these the rules, where a test before has left others; those that stand are not written.

    A rule that is written makes the server read and compile all of them again.
    """
    wanted = {rule["_id"]: rule for rule in rules}
    stored = {rule["_id"]: rule for rule in service.mongo[service.db]["acl"].find({}, {"_etag": 0})}
    if stored.keys() - wanted.keys():
        await remove_rules(service, _id={"$nin": list(wanted)})
    if missing := [rule for id, rule in wanted.items() if stored.get(id) != rule]:
        await write_rules(service, *missing)


async def write_rules(service: Service, *rules: Document) -> None:
    """Write whole rules."""
    await service.write("acl", Write(WriteKind.REPLACE, rules, upsert=True))


def forget_rules(service: Service) -> None:
    """Begin without rules: they are deleted behind the back of the server, and it is told so.

    A write by the server, which remembers it for other instances, takes several times as long.
    It is for fixtures that are not asynchronous, of an application in a loop of its own; that loop
    tells, for nobody but its thread may hold the lock of what is told.
    """
    if service.mongo[service.db]["acl"].delete_many({}).deleted_count:
        asyncio.run_coroutine_threadsafe(_renew_rules(service), service.loop).result()


async def _renew_rules(service: Service) -> None:
    service.app.plugins.values["generations"].bump("rules")


def restore(service: Service, collection: str, *documents: Document) -> None:
    """Make these the documents of a collection, where a test before has left others."""
    stored = service.mongo[service.db][collection]
    if [encode(one) for one in stored.find()] != [encode(one) for one in documents]:
        stored.delete_many({})
        if documents:
            stored.insert_many(documents)


async def remove_rules(service: Service, **filter: Any) -> None:
    """Delete the rules that match."""
    if service.mongo[service.db]["acl"].find_one(filter, {"_id": 1}) is None:
        return
    await service.write("acl", Write(WriteKind.DELETE, filter=filter, many=True))
