"""A database with one of everything that docgraph keeps, and the commands that move it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
from bson import Int64, ObjectId
from pymongo import MongoClient

from docgraph.codec import to_stored
from tests.process.commands import Process, run, start

Mongo = MongoClient[dict[str, Any]]
Stored = dict[str, list[dict[str, Any]]]

COLLECTIONS = ("users", "acl", "_properties", "_schemas", "gql-apps")
STREAM = {"uri": "all", "stages": [{"$match": {"fullDocument.n": Int64(1)}}]}
DRAFT = "http://json-schema.org/draft-07/schema#"


@dataclass
class Commands:
    """The command line, on a database of this test."""

    uri: str
    db: str
    mongo: Mongo
    directory: Path

    def run(
        self, *arguments: str, typed: str = "", code: int = 0, more: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        done = run(*arguments, str(self.directory), *self.options, *more, input=typed)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    @property
    def options(self) -> list[str]:
        """Where everything is in the database of this test."""
        places = ("graphql/db", "dbAclAuthorizer/acl-db", "dbRealmAuthenticator/users-db")
        options = [f"--set=/mclient/connection-string={self.uri}"]
        return [*options, *(f"--set=/{place}={self.db}" for place in places)]

    def start_import(self) -> Process:
        """An import that has shown what it would do, and waits for an answer."""
        process = start("import", str(self.directory), *self.options)
        shown = ""
        while "differ?" not in shown:
            read = process.stderr.read(1)
            assert read, shown
            shown += read
        return process

    def export(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run("export", "--db", self.db, *arguments, code=code)

    def fill(self) -> None:
        """One of everything, as docgraph stores it."""
        database = self.mongo[self.db]
        hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
        database["users"].insert_one({"_id": "ann", "password": hashed, "roles": ["reader"]})
        rule = {"_id": ObjectId(), "roles": ["reader"], "predicate": "path('/notes')"}
        database["acl"].insert_one(rule)
        database["notes"].insert_one({"n": 1})
        properties = {"_id": "_properties.notes", "streams": [STREAM], "_etag": ObjectId()}
        database["_properties"].insert_one(to_stored(properties))
        places = {id: f"http://schema-store/{self.db}/{id}" for id in ("item", "part")}
        for id, more in (("item", {"$ref": places["part"]}), ("part", {"type": "object"})):
            schema = {"_id": id, "$schema": DRAFT, "$id": places[id], **more, "_etag": ObjectId()}
            database["_schemas"].insert_one(to_stored(schema))
        mapping = {"db": self.db, "collection": "notes", "find": {"n": {"$gt": 0}}}
        types = "type Query { notes: [Note] } type Note { n: Int }"
        app = {"_id": "notes", "schema": types, "mappings": {"Query": {"notes": mapping}}}
        stored = {**to_stored(app), "_etag": ObjectId(), "_uris": ["notes"]}
        database["gql-apps"].insert_one(stored)

    @property
    def stored(self) -> Stored:
        """Everything, without the etags of apps, which every write renews."""
        found = {name: list(self.mongo[self.db][name].find().sort("_id")) for name in COLLECTIONS}
        for app in found["gql-apps"]:
            app.pop("_etag", None)
        return found
