"""A running application for tests: in this process, with an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import uvloop
from pymongo import MongoClient

from docgraph.access.service_comparison import find_namespaces
from docgraph.asgi import AsgiApplication, create_app
from docgraph.cli.apps.definitions import check_found
from docgraph.cli.apps.sources import SUFFIXES, find_definitions, require_content
from docgraph.codec import as_meant
from docgraph.embedded import EmbeddedMongo, MongodOptions
from docgraph.exchange import Document, StartupError
from docgraph.exchange.data import CollectionName
from docgraph.graphql.definition.check import Examination
from docgraph.graphql.definition.definition import decode_definition
from docgraph.server.prepare import prepare
from docgraph.tools.installation import find_own_places

_PATIENCE: Final = 60  # seconds for a response, which a stream exceeds
_OPEN: Final = {"/fullAuthorizer": {"enabled": True, "authentication-required": False}}
ISSUER: Final = "docgraph"  # of tokens


@contextmanager
def running_mongo() -> Iterator[str]:
    """Start an embedded MongoDB with empty data; yields its connection string."""
    options = MongodOptions(cache_gb=0.25, oplog_mb=64)
    with (
        tempfile.TemporaryDirectory(prefix="docgraph-testing-") as directory,
        EmbeddedMongo(directory, options=options) as uri,
    ):
        yield uri


class RunningApp:
    """An application with documents from files; `mongo` is a client of its database."""

    def __init__(self, application: AsgiApplication, mongo: MongoClient[Any], key: str) -> None:
        self._application = application
        self.mongo = mongo
        self.key = key  # of the tokens that it accepts

    def load(self, definitions: Path, documents: Path) -> None:
        """Read and store what the files have; raise `StartupError` with every mistake in them."""
        prepared = prepare(self._application.read_options())
        examined: dict[str, Examination] = {}
        checked = check_found(prepared, find_definitions([definitions]).definitions, examined)
        mistakes = [f"{app.name}: {finding}" for app in checked for finding in app.errors]
        if mistakes or not checked:
            what = "\n".join(mistakes) or f"there is no definition in {definitions}"
            raise StartupError(what, hint="`docgraph apps check` explains what a definition is")
        apps, places = [app.document for app in checked], find_own_places(prepared)
        self._documents: dict[CollectionName, list[Document]] = {}
        for path in sorted(path for path in documents.rglob("*") if path.suffix in SUFFIXES):
            content = require_content(path)
            content = content if isinstance(content, list) else [content]
            if not all(isinstance(document, dict) for document in content):
                raise StartupError(f"{path}: not every document is an object")
            db = "docgraph" if path.parent == documents else path.parent.name
            self._documents[db, path.stem] = content
        self._documents.setdefault(places.apps, []).extend(apps)
        spaces = (space.partition(".") for app in apps for space in find_namespaces(as_meant(app)))
        self.databases = {db for db, *_ in (*spaces, *self._documents, *places)}
        self.uris = [decode_definition(app).uri for app in apps]
        self.roles = set().union(*(parts.visibility.all_roles for parts in examined.values()))
        self._kept: tuple[CollectionName, ...] = ()
        self.reset()
        self._kept = places

    def reset(self) -> None:
        """Make documents those of the files again; indexes, apps, users and rules stay."""
        for db in map(self.mongo.get_database, self.databases):
            for name in db.list_collection_names(filter={"type": {"$ne": "view"}}):
                if not name.startswith(("system.", "_")) and (db.name, name) not in self._kept:
                    db[name].delete_many({})
            db.command({"profile": 2})  # MongoDB records each command
        for (name, collection), documents in self._documents.items():
            if documents and (name, collection) not in self._kept:
                self.mongo[name][collection].insert_many(documents)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the application in a thread."""
        self._loop = loop = uvloop.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        with ExitStack() as stack:
            stack.callback(loop.close)
            stack.callback(thread.join)
            stack.callback(loop.call_soon_threadsafe, loop.stop)
            lifespan = self._application.lifespan()
            self.values = self.wait(lifespan.__aenter__()).plugins.values
            stack.callback(lambda: self.wait(lifespan.__aexit__(None, None, None)))
            rules = self.wait(self.values["acl-rules"].find_all())
            self.roles.update(*(rule.roles for rule in rules), [self.values["root-role"] or ""])
            yield

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of work in the loop of the application."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    async def send(self, scope: dict[str, Any], body: bytes) -> list[Any]:
        """Return the messages of the response to one request."""
        received, sent = asyncio.Queue[Any](), asyncio.Queue[Any]()
        received.put_nowait({"type": "http.request", "body": body})
        await self._application(scope, received.get, sent.put)
        return [sent.get_nowait() for _ in range(sent.qsize())]


@contextmanager
def running_app(
    uri: str,
    directory: str | Path = "",
    *,
    documents: str | Path | None = None,
    config: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Iterator[RunningApp]:
    """Run the apps of a directory on the database at `uri`, which is for tests alone.

    By default, the documents are those in `documents`, and the configuration is `docgraph.yml`.
    Without a configuration, everyone may do everything.
    """
    apps, data, file = (Path(directory, name) for name in ("apps", "documents", "docgraph.yml"))
    config = config or (file if file.is_file() else os.devnull)
    if documents is not None and not Path(documents).is_dir():
        raise StartupError(f"{documents} is not a directory", hint="it has the documents of tests")
    key = secrets.token_hex(32)
    options = {
        "/mclient/connection-string": uri,
        "/jwtAuthenticationMechanism": {"enabled": True, "key": key, "issuer": ISSUER},
        "/jwtTokenManager/key": key,  # one for both, with the same issuer and audience
        "/jwtTokenManager/issuer": ISSUER,
        "/jwtTokenManager/audience": None,
        "/graphql/cache/max-bytes": 0,  # it would follow resets a bit later
        "/dbRealmAuthenticator/create-user": False,
        "/logging/level": "error",
        "/otel": {},
        **(_OPEN if config == os.devnull else {}),
        **(overrides or {}),
    }
    with MongoClient[Any](uri) as mongo:
        app = RunningApp(create_app(config, options), mongo, key)
        app.load(apps if apps.is_dir() else Path(directory), Path(documents or data))
        with app.running():
            yield app
