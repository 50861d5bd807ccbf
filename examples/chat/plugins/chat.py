"""The two things the chat needs beside its configuration: its page, and its collection.

Both are files of the example. The page is served as it is. `messages.json` holds the properties of
the collection as docgraph stores them (operators with `_` in front); an administrator could send
the same with `PUT /messages`.
"""

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from docgraph import (
    Answer,
    Body,
    Deadline,
    Exchange,
    Initializer,
    PluginConfig,
    Resource,
    ResourceType,
    Service,
    Write,
    WriteKind,
)

HERE = Path(__file__).parents[1]
DB, NAME = "docgraph", "messages"


class ChatPage(Service):
    """`GET /chat` is the page; it logs people in, so it needs no login itself."""

    name: ClassVar[str] = "chatPage"
    description: ClassVar[str] = "the page of the chat"
    uri: ClassVar[str] = "/chat"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False

    def __init__(self, config: PluginConfig) -> None:
        self._page = (HERE / "page.html").read_bytes()
        script = self._page.partition(b"<script>")[2].partition(b"</script>")[0]
        allowed = b64encode(sha256(script).digest()).decode()
        # What people write is shown as text; should that ever fail, nothing of it is run.
        self._policy = (
            f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )

    async def handle(self, exchange: Exchange) -> Answer:
        headers = [("Content-Security-Policy", self._policy), ("Cache-Control", "no-cache")]
        return Body(content=self._page, media_type="text/html", headers=headers)


class ChatCollection(Initializer):
    """Sees to the collection and its stream, each time the server starts."""

    name: ClassVar[str] = "chatCollection"
    description: ClassVar[str] = "makes the collection of the chat"

    def __init__(self, config: PluginConfig, store: Any) -> None:
        self._store = store
        self._properties = json.loads((HERE / "messages.json").read_text())

    async def initialize(self) -> None:
        document = {"_id": f"_properties.{NAME}", **self._properties}
        replacement = Write(WriteKind.REPLACE, (document,), upsert=True)
        await self._write(
            Resource(ResourceType.METADATA, DB, "_properties", document["_id"]), replacement
        )
        # Last, so that nobody finds the collection without its stream.
        await self._write(Resource(ResourceType.COLLECTION, DB, NAME), Write(WriteKind.CREATE))

    async def _write(self, resource: Resource, write: Write) -> None:
        await self._store.write(resource, write, deadline=Deadline.after_ms(60_000))
