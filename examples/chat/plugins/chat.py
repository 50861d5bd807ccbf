"""What the chat needs besides its configuration: its page, its collection, a check of messages.

Page and collection are files of the example. The page is served as it is. `messages.json` holds the
properties of the collection as docgraph stores them (operators with `_` in front); an administrator
could send the same with `PUT /messages`.
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
    Interceptor,
    PluginConfig,
    RequestError,
    Resource,
    ResourceType,
    Service,
    Write,
    WriteKind,
)

HERE = Path(__file__).parents[1]
DB, NAME = "docgraph", "messages"
LONGEST = 1000  # characters of a message


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


class ChatMessages(Interceptor):
    """Checks a message before it is stored. A rule could, too, but a 403 does not say why."""

    name: ClassVar[str] = "chatMessages"
    description: ClassVar[str] = "checks the messages of the chat"

    def resolve(self, exchange: Exchange) -> bool:
        request = exchange.request
        return request.method == "POST" and request.segments == (NAME,)

    async def handle(self, exchange: Exchange) -> None:
        message = await exchange.request.get_content()
        if not isinstance(message, dict) or not message.keys() <= {"message", "from"}:
            raise RequestError(
                "send one object with the properties 'message' and 'from', as JSON, not as a form",
                hint="set Content-Type: application/json",
            )
        text = message.get("message")
        if not isinstance(text, str) or not 0 < len(text) <= LONGEST:
            raise RequestError(f"'message' must be a text of 1 to {LONGEST} characters")
        user = exchange.account.name if exchange.account else None
        if message.get("from", user) != user:
            raise RequestError(
                "'from' is not your user id", hint="leave it out: the server puts it in"
            )


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
        # Last, so that the collection never exists without its stream.
        await self._write(Resource(ResourceType.COLLECTION, DB, NAME), Write(WriteKind.CREATE))

    async def _write(self, resource: Resource, write: Write) -> None:
        await self._store.write(resource, write, deadline=Deadline.after_ms(60_000))
