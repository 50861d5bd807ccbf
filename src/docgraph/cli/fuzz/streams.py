"""Change streams: something hidden changes, and what the caller is told of it is looked through."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from urllib.parse import quote

from docgraph.cli.fuzz.barriers import list_uris
from docgraph.cli.fuzz.documents import Made
from docgraph.cli.fuzz.judge import Judge
from docgraph.cli.fuzz.leaks import Showing
from docgraph.cli.fuzz.material import Material
from docgraph.cli.fuzz.operation import STREAMS, Operation
from docgraph.cli.fuzz.rest import Collection
from docgraph.cli.fuzz.world import Reply, World
from docgraph.graphql.fuzz.values import Canary, make_canary
from docgraph.store.driver.scratch import Scratch

__all__ = ["Listener", "list_streams"]

_HEAD_SECONDS: Final = 15.0
_QUIET_SECONDS: Final = 1.0  # after which no event is expected any more
_OK: Final = 200


@dataclass(slots=True)
class Listener:
    """Follows the streams of collections while their documents change."""

    world: World
    scratch: Scratch
    judge: Judge
    random: Random

    async def follow(
        self, operation: Operation, collection: Collection, made: Made
    ) -> tuple[list[Showing], bool]:
        """What a stream has shown, and whether it was open to the caller."""
        reply = await self._follow(operation, collection, made)
        return self.judge.look(operation, [reply]), reply.status == _OK

    async def _follow(self, operation: Operation, collection: Collection, made: Made) -> Reply:
        async with self.world.connect() as (reader, writer):
            writer.write(operation.render())
            try:
                async with asyncio.timeout(_HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
            except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
                return Reply(0, (), b"")
            status = int(head.split()[1])
            data = [head]
            if status == _OK:
                await self._change(collection, made)
            while chunk := await self._read_on(reader):
                data.append(chunk)
        whole = b"".join(data)
        return Reply(status, (), whole, whole)

    async def _read_on(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(_QUIET_SECONDS):
                return await reader.read(1 << 16)
        except TimeoutError:
            return b""

    async def _change(self, collection: Collection, made: Made) -> None:
        """Change, add and remove what is hidden, and what is not."""
        db, _, name = self.world.renaming.namespace(collection.namespace).partition(".")
        for document in made.seen[:2]:
            await self.scratch.change(db, name, document["_id"], self._renew(collection, document))
        for document in made.excluded[:2]:
            secret = self._make(collection, "string", "fuzzed", made.excluded_reason, is_row=True)
            await self.scratch.change(db, name, document["_id"], {"fuzzed": secret})
            await self.scratch.remove(db, name, document["_id"])
            await self.scratch.insert(db, name, document)
        for document in made.seen[:1]:
            await self.scratch.remove(db, name, document["_id"])
            await self.scratch.insert(db, name, document)

    def _renew(self, collection: Collection, document: dict[str, Any]) -> dict[str, Any]:
        """New secrets for a document that the caller sees, and something that he may see."""
        values: dict[str, Any] = {"seen": 1}
        for path, node in collection.shape.leaves():
            plain = node.is_key or node.is_list or node.kind == "enum" or len(path) > 1
            if node.hidden_by and not plain and path[0] in document:
                reason = node.hidden_by[0]
                values[path[0]] = self._make(collection, node.kind, path[0], reason)
        return values

    def _make(
        self, collection: Collection, kind: str, path: str, reason: str, *, is_row: bool = False
    ) -> Any:
        value = make_canary(kind, self.random, 0)
        self.judge.finder.add(Canary(value, collection.namespace, path, reason, is_row))
        return value


def list_streams(material: Material, collection: Collection) -> Iterator[Operation]:
    """The requests that open the streams of a collection."""
    for uri in list_uris(material.metadata.get(collection.namespace), "streams"):
        path = f"{collection.path}/_streams/{quote(uri)}"
        headers = {"Accept": "text/event-stream"}
        yield Operation(STREAMS, "GET", path, headers=headers, namespace=collection.namespace)
