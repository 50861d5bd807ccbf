"""Everything that docgraph stores for itself: written, taken down, and put back as it was.

`tests/http/stored/<version>.json` is what that version has written, in extended JSON by
collection. A release that stores anything in another form adds a file and keeps the one before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from bson import json_util
from pymongo.database import Database as _Database

from docgraph.exchange import Write, WriteKind
from tests.databases import drop
from tests.http.access_harness import guarded
from tests.http.harness import Document, Mongo, Service, eventually
from tests.http.realms import render_basic
from tests.http.tokens import SIGNED

Database = _Database[Document]
DB = "stored_formats"
FILES = Path(__file__).parent / "stored"
OWN = (
    *("gql-apps", "_appHistory", "users", "acl", "_properties", "_schemas"),
    *("_revocations", "_versions"),
)
PASSWORD = "correct horse battery staple"
ADMIN = {"authorization": render_basic("root", PASSWORD)}
EDITOR = {"authorization": render_basic("ada", PASSWORD)}
_FAR = datetime(2999, 1, 1)
_SETTINGS: Document = {
    **SIGNED,
    "basicAuthMechanism": {"enabled": True},
    "tokenBasicAuthMechanism": {"enabled": True},
    "bruteForceAttackGuard": {"enabled": False},
}
APP: Document = {
    "descriptor": {"uri": "notes", "name": "notes", "enabled": True, "description": "all of them"},
    "schema": "type Query { notes(team: String): [Note] } type Note { text: String by: User } "
    "type User { name: String }",
    "mappings": {
        "Query": {
            "notes": {
                "db": DB,
                "collection": "notes",
                "find": {"$ifarg": ["team", {"team": {"$arg": "team"}}]},
                "sort": {"_id": 1},
            }
        },
        "Note": {"by": {"db": DB, "collection": "people", "find": {"_id": {"$fk": "byId"}}}},
    },
}
PROPERTIES: Document = {
    "aggrs": [{"uri": "teams", "type": "pipeline", "stages": [{"$group": {"_id": "$team"}}]}],
    "streams": [{"uri": "all", "stages": [{"$match": {"operationType": "insert"}}]}],
    "jsonSchema": {"schemaId": "note"},
    "etagDocPolicy": "OPTIONAL",
    "mine": {"a.b": 1},
}
SCHEMA: Document = {"type": "object", "properties": {"team": {"type": "string"}}}
RULE: Document = {
    "roles": ["editor"],
    "predicate": "path-prefix('/notes') or path-prefix('/graphql/notes')",
    "priority": 1,
    "description": "of the own team",
    "mongo": {"readFilter": {"team": "@user.team"}, "allowWriteMode": False},
}


@asynccontextmanager
async def serving(mongo: Mongo, uri: str, db: str = DB) -> AsyncIterator[Service]:
    """A server on the database as it is."""
    async with guarded(mongo, uri, _SETTINGS, db=db, drop=False) as service:
        yield service


async def write_everything(mongo: Mongo, uri: str, db: str) -> dict[str, list[Document]]:
    """Let this version store one of everything in a database that nobody else has."""
    stored = mongo[db]
    async with serving(mongo, uri, db) as service:
        await _write(service, stored)
        await eventually(lambda: stored["_appHistory"].count_documents({}) >= 2)
        await eventually(lambda: _is_noted(stored))
        return {name: list(stored[name].find()) for name in OWN}


def _is_noted(stored: Database) -> bool:
    """Whether the instance has said which version of the apps it serves."""
    return bool((stored["_versions"].find_one({"_id": "gql-apps"}) or {}).get("instances"))


async def _write(service: Service, stored: Database) -> None:
    """Through the front door, wherever there is one."""
    hashed_by_us: Document = {"_id": "root", "password": PASSWORD, "roles": ["admin"]}
    await service.write("users", Write(WriteKind.INSERT, (hashed_by_us,)))
    requests = [
        *(("PUT", path, {}) for path in ("/notes", "/people", "/acl", "/gql-apps", "/_schemas")),
        ("PUT", "/_schemas/note?wm=upsert", SCHEMA),
        ("PUT", "/notes", PROPERTIES),
        ("PUT", "/acl/editors?wm=upsert", RULE),
        ("PUT", "/gql-apps/notes?wm=upsert", {**APP, "descriptor": {"uri": "notes"}}),
        ("PUT", "/gql-apps/notes", APP),
        ("POST", "/users", {"_id": "ada", "password": "x", "roles": ["editor"], "team": "blue"}),
        ("PATCH", "/users/ada", {"password": PASSWORD}),  # ends older tokens
        ("DELETE", "/tokens/root", None),
    ]
    for method, path, body in requests:
        reply = await service.request(method, path, json=body, headers=ADMIN)
        assert reply.status in (200, 201, 204), (method, path, reply.text)
    stored["_revocations"].update_many({}, {"$set": {"until": _FAR}})  # else it goes by itself


def put_back(mongo: Mongo, stored: Mapping[str, Sequence[Document]]) -> None:
    """The database as that version has left it, with data."""
    drop(mongo, DB)
    for name, documents in stored.items():
        mongo[DB][name].insert_many(documents)
    mongo[DB]["people"].insert_one({"_id": 1, "name": "Ada"})
    mongo[DB]["notes"].insert_many(
        [
            {"_id": 1, "text": "blue", "team": "blue", "byId": 1},
            {"_id": 2, "text": "red", "team": "red", "byId": 1},
        ]
    )


def read_stored(version: str) -> dict[str, list[Document]]:
    """What a version has written."""
    stored: dict[str, list[Document]] = json_util.loads((FILES / f"{version}.json").read_text())
    return stored


def render(stored: Mapping[str, Sequence[Document]]) -> str:
    """The content of a file."""
    return json_util.dumps(stored, indent=1, json_options=json_util.CANONICAL_JSON_OPTIONS) + "\n"


def find_shapes(stored: Mapping[str, Sequence[Document]]) -> dict[str, set[str]]:
    """The names and types of what is stored, without its values, and without the number of it."""
    return {name: {str(_shape(one)) for one in documents} for name, documents in stored.items()}


def _shape(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _shape(one) for name, one in sorted(value.items())}
    if isinstance(value, list):
        return sorted({str(_shape(one)) for one in value})
    return type(value).__name__
