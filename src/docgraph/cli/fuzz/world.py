"""World: the application on a scratch database, with a caller that needs no port."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

from docgraph.cli.fuzz.operation import FuzzRequest
from docgraph.cli.fuzz.renaming import Renaming
from docgraph.config import ConfigSources
from docgraph.exchange import Account, Exchange, Resource, Write
from docgraph.exchange.errors import SecurityViolation
from docgraph.graphql.execute.cursors import CURSOR_LENGTHS
from docgraph.plugins.kinds import ABSENT, Accepted, AuthMechanism, DataInterceptor, Outcome, Plugin
from docgraph.runtime import create_instance
from docgraph.server.app import Docgraph
from docgraph.server.builtin import BUILTIN
from docgraph.server.http.protocol import HttpProtocol
from docgraph.server.http.state import ProcessState, build_state
from docgraph.server.prepare import LoadedConfiguration, load_tree, prepare
from docgraph.server.settings import ServerSettings

_SECONDS: Final = 30.0  # for a response
# Headers that differ in every response.
_CHANGING: Final = frozenset(
    {"date", "content-length", "x-request-id", "auth-token", "auth-token-valid-until"}
)
# Ids of documents, requests and logged errors, also in a JSON string.
_IDS: Final = re.compile(
    r"""[0-9a-f]{24,32}|(?<="id":")[0-9a-f]{12}(?=")|(?<="id\\":\\")[0-9a-f]{12}"""
)
_TIMES: Final = re.compile(r"\d{13}|20\d\d-\d\d-\d\dt[\d:.]+z?")
# Cursors of connections: encrypted ids.
_LENGTHS: Final = "|".join(f"[a-z0-9_-]{{{length}}}" for length in CURSOR_LENGTHS)
_CURSORS: Final = re.compile(rf"(?<![\w-])(?:{_LENGTHS})(?![\w-])")
# Rate limits are for other callers; this one sends as fast as it can.
_OPTIONS: Final = (
    "/mcp/calls-per-second=1000000",
    "/dbRealmAuthenticator/create-user=false",
    "/graphql/history-versions=0",
    "/mclient/min-pool-size=0",
)


@dataclass(frozen=True, slots=True)
class Reply:
    """A response as it was received."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    raw: bytes = b""

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return next((value for key, value in self.headers if key.lower() == name), None)


class World:
    """An application with its database."""

    def __init__(self, app: Docgraph, state: ProcessState, renaming: Renaming) -> None:
        self.app = app
        self.renaming = renaming
        self._state = state

    async def send(self, operation: FuzzRequest) -> Reply:
        """Return the response to one request; one without a status, if there is none in time."""
        try:
            async with asyncio.timeout(_SECONDS), self.connect() as (reader, writer):
                writer.write(operation.render())
                return _parse(await reader.read())
        except (TimeoutError, ConnectionError):
            return Reply(0, (), b"")

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a private connection: it has no address."""
        loop = asyncio.get_running_loop()
        theirs, ours = socket.socketpair()
        await loop.connect_accepted_socket(partial(HttpProtocol, self._state, loop), sock=theirs)
        reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 26)
        try:
            yield reader, writer
        finally:
            writer.close()

    def normalise(self, reply: Reply) -> tuple[int, str]:
        """Return what must be equal in both worlds."""
        headers = sorted(
            f"{name.lower()}: {value}"
            for name, value in reply.headers
            if name.lower() not in _CHANGING
        )
        text = "\n".join([*headers, reply.body.decode("utf-8", "replace")])
        text = text.replace(self.renaming.prefix, "").lower()
        return reply.status, _TIMES.sub("time", _IDS.sub("id", _CURSORS.sub("cursor", text)))


def prepare_world(
    sources: ConfigSources,
    prepared: LoadedConfiguration,
    renaming: Renaming,
    account: Account | None,
    **parts: Any,
) -> LoadedConfiguration:
    """Return the configuration with the databases of that world and a fixed caller."""
    renamed = renaming.settings(prepared.config.sections, **parts)
    known = prepared.config.sections
    options = tuple(one for one in _OPTIONS if one.split("/")[1] in known)
    settings = (*sources.settings, *options, *renamed)
    tree = load_tree(replace(sources, settings=settings))
    own = (_build_caller(account), _build_fence(renaming.prefix))
    return prepare(tree, (*BUILTIN, *own))


@asynccontextmanager
async def open_world(
    prepared: LoadedConfiguration, address: str, renaming: Renaming
) -> AsyncIterator[World]:
    """Start the application; it stops at the end of the block."""
    with create_instance() as instance:
        app = Docgraph(prepared, instance, address)
        try:
            await app.startup()
            await app.contact_database()
            settings = ServerSettings.from_sections(prepared.config.sections)
            yield World(app, build_state(app, settings), renaming)
        finally:
            await app.shutdown()


def _build_caller(account: Account | None) -> type[Plugin]:
    class FuzzCaller(AuthMechanism):
        """Authenticates every request as the named caller."""

        name: ClassVar[str] = "fuzzCaller"
        description: ClassVar[str] = "everybody is the caller of `docgraph access fuzz`"
        priority: ClassVar[int] = -1_000_000

        async def authenticate(self, exchange: Exchange) -> Outcome:
            """Return the account."""
            return ABSENT if account is None else Accepted(account)

        def challenge(self, exchange: Exchange) -> Sequence[str]:
            """Return no challenge: there is no other login."""
            return ()

    return FuzzCaller


def _build_fence(prefix: str) -> type[Plugin]:
    class FuzzFence(DataInterceptor):
        """Rejects every write except to scratch databases."""

        name: ClassVar[str] = "fuzzFence"
        description: ClassVar[str] = "keeps writes in the databases of `docgraph access fuzz`"
        priority: ClassVar[int] = -1_000_000
        security: ClassVar[bool] = True

        def resolve(self, resource: Resource) -> bool:
            """Return whether this is another database."""
            return resource.db is None or not resource.db.startswith(prefix)

        async def before_write(
            self, exchange: Exchange | None, resource: Resource, write: Write
        ) -> Write:
            """Reject the write."""
            raise SecurityViolation("a leak check writes to its scratch databases only")

    return FuzzFence


def _parse(data: bytes) -> Reply:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = tuple((name, value) for name, _, value in (one.partition(": ") for one in lines))
    words = first.split()
    status = int(words[1]) if len(words) > 1 else 0
    coding = {name.lower(): value for name, value in fields}.get("transfer-encoding", "")
    return Reply(status, fields, b"".join(_cut(body)) if "chunked" in coding else body, data)


def _cut(data: bytes) -> Iterable[bytes]:
    """Yield the chunks of a body."""
    while data:
        size, _, rest = data.partition(b"\r\n")
        length = int(size or b"0", 16)
        if not length:
            return
        yield rest[:length]
        data = rest[length + 2 :]
