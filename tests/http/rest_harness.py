"""The REST API in this process, on a real MongoDB: a test is *request, expected answer*.

`serving` starts the whole application with a database of its own at `/`; the collection `things`
exists. `Api` talks to it in HTTP and looks at the database behind its back. Where any application
will do, the fixture `api` (`conftest.py`) is that of the module, with a database of the test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from docgraph.codec import JsonMode, decode, encode
from tests.databases import drop, new_name
from tests.http.harness import Document, Mongo, Reply, running

__all__ = ["BY_HOST", "COLLECTION", "Api", "own_database", "serving"]

COLLECTION = "things"


@dataclass
class Api:
    """A running application, its database, and the collection that most tests are about."""

    service: Any
    mongo: Mongo
    db: str
    host: str = "test"

    @property
    def things(self) -> Any:
        """The collection behind the back of the server."""
        return self.mongo[self.db][COLLECTION]

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> Reply:
        """Send a request; a body that is not bytes or text goes out as extended JSON."""
        query = "&".join(f"{name}={quote(_as_text(one))}" for name, one in _pairs(parameters))
        content = body if body is None or isinstance(body, bytes | str) else to_json(body)
        own = {"content-type": "application/json"} if content is not None else {}
        reply: Reply = await self.service.request(
            method,
            f"{path}?{query}" if query else path,
            content=content,
            headers={"host": self.host, **own, **(headers or {})},
        )
        return reply

    async def get(self, path: str, **parameters: Any) -> Reply:
        return await self.send("GET", path, **parameters)

    async def post(self, path: str, body: Any = None, **others: Any) -> Reply:
        return await self.send("POST", path, body, **others)

    async def put(self, path: str, body: Any = None, **others: Any) -> Reply:
        return await self.send("PUT", path, body, **others)

    async def patch(self, path: str, body: Any = None, **others: Any) -> Reply:
        return await self.send("PATCH", path, body, **others)

    async def delete(self, path: str, **others: Any) -> Reply:
        return await self.send("DELETE", path, **others)

    async def follow(self, path: str) -> AsyncIterator[Any]:
        """The pages of a list, as `Link: rel="next"` leads through them; never to one again."""
        seen: set[str] = set()
        while True:
            assert path not in seen, f"the pages lead back to {path}"
            seen.add(path)
            reply = await self.send("GET", path)
            assert reply.status == 200, reply.text
            yield decode(reply.text)
            if (link := reply.headers.get("link")) is None:
                return
            target, relation = link.split(";")
            assert relation.strip() == 'rel="next"'
            path = target.strip("<>")


def to_json(value: Any) -> bytes:
    """Extended JSON, which loses nothing."""
    return encode(value, JsonMode.EXTENDED)


def relative(location: str) -> str:
    """The path and query of an address."""
    parts = urlsplit(location)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _pairs(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        several = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        for one in several:
            yield name, one


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


@asynccontextmanager
async def serving(
    mongo: Mongo,
    uri: str,
    *settings: Mapping[str, Any],
    mounts: Sequence[Document] | None = None,
    db: str | None = None,
) -> AsyncIterator[Api]:
    """A started application with its own database mounted at the root."""
    db = db or new_name()
    mounted = mounts or [{"what": f"/{db}", "where": "/"}]
    mongo[db].create_collection(COLLECTION)
    own = {"mongo": {"mongo-mounts": mounted}}
    async with running(mongo, uri, own, *settings, db=db) as service:
        yield Api(service, mongo, db)


# Every host has a database of its own.
BY_HOST = [{"what": "/{host[0]}", "where": "/"}]


@contextmanager
def own_database(server: Api) -> Iterator[Api]:
    """An application that is mounted `BY_HOST`, as the host that has a new database."""
    db = new_name()
    server.mongo[db].create_collection(COLLECTION)
    try:
        yield Api(server.service, server.mongo, db, f"{db}.test")
    finally:
        drop(server.mongo, db)
