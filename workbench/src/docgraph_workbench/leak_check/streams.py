"""Fuzzing change streams: change hidden data, and search the events for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from urllib.parse import quote

from docgraph_workbench.fuzz.fuzz_values import Canary, make_canary
from docgraph_workbench.leak_check.documents import Made
from docgraph_workbench.leak_check.leaks import LeakOracle, Showing
from docgraph_workbench.leak_check.material import Material, list_entries
from docgraph_workbench.leak_check.operation import STREAMS, FuzzRequest
from docgraph_workbench.leak_check.request_makers import ServedCollection
from docgraph_workbench.leak_check.scratch import Scratch
from docgraph_workbench.leak_check.world import Reply, World

_HEAD_SECONDS: Final = 15.0
# After so many turns without one, no more events are expected. A pause of the whole process, in
# which its server delivers nothing, counts as one turn.
_QUIET_TURNS: Final = 20
_TURN_SECONDS: Final = 0.05
_OK: Final = 200


@dataclass(slots=True)
class StreamListener:
    """Follows the streams of collections while their documents change."""

    world: World
    scratch: Scratch
    oracle: LeakOracle
    random: Random

    async def follow(
        self, operation: FuzzRequest, collection: ServedCollection, made: Made
    ) -> tuple[list[Showing], bool]:
        """Return what a stream has shown, and whether it was open to the caller."""
        reply = await self._follow(operation, collection, made)
        return self.oracle.find_canaries(operation, [reply]), reply.status == _OK

    async def _follow(
        self, operation: FuzzRequest, collection: ServedCollection, made: Made
    ) -> Reply:
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
        for _ in range(_QUIET_TURNS):
            with suppress(TimeoutError):
                async with asyncio.timeout(_TURN_SECONDS):
                    return await reader.read(1 << 16)
        return b""

    async def _change(self, collection: ServedCollection, made: Made) -> None:
        """Change, add and remove hidden and visible documents."""
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

    def _renew(self, collection: ServedCollection, document: dict[str, Any]) -> dict[str, Any]:
        """Return an update with new secrets and a visible change for a document the caller sees."""
        values: dict[str, Any] = {"seen": 1}
        for path, node in collection.shape.leaves():
            plain = node.is_key or node.is_list or node.kind == "enum" or len(path) > 1
            if node.hidden_by and not plain and path[0] in document:
                reason = node.hidden_by[0]
                values[path[0]] = self._make(collection, node.kind, path[0], reason)
        return values

    def _make(
        self,
        collection: ServedCollection,
        kind: str,
        path: str,
        reason: str,
        *,
        is_row: bool = False,
    ) -> Any:
        value = make_canary(kind, self.random, 0)
        self.oracle.finder.add(Canary(value, collection.namespace, path, reason, is_row))
        return value


def list_streams(material: Material, collection: ServedCollection) -> Iterator[FuzzRequest]:
    """Yield the requests that open the streams of a collection, in every form that they allow."""
    namespace, headers = collection.namespace, {"Accept": "text/event-stream"}
    for entry in list_entries(material.metadata.get(namespace), "streams"):
        path = f"{collection.path}/_streams/{quote(entry['uri'])}"
        for given in ({}, {"before": "true"}) if entry.get("before") is True else ({},):
            yield FuzzRequest(STREAMS, "GET", path, given, headers, namespace=namespace)
