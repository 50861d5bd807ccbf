"""World: the application on a scratch database, with a caller that needs no port."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from docgraph import (
    ABSENT,
    Accepted,
    Account,
    AuthMechanism,
    DataInterceptor,
    DocgraphError,
    Exchange,
    Outcome,
    Plugin,
    Resource,
    SecurityViolation,
    Write,
)
from docgraph.tools.apps import CURSOR_LENGTHS
from docgraph.tools.commands import ConfigSources
from docgraph.tools.data import JsonMode, decode, encode
from docgraph.tools.installation import (
    LoadedConfiguration,
    LocalServer,
    prepare_variant,
    serve_locally,
)
from docgraph_workbench.leak_check.operation import FuzzRequest

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

    def __init__(self, server: LocalServer, renaming: Renaming) -> None:
        self.app = server.app
        self.renaming = renaming
        self.connect = server.connect

    async def send(self, operation: FuzzRequest) -> Reply:
        """Return the response to one request; one without a status, if there is none in time."""
        try:
            async with asyncio.timeout(_SECONDS), self.connect() as (reader, writer):
                writer.write(operation.render())
                return _parse(await reader.read())
        except (TimeoutError, ConnectionError):
            return Reply(0, (), b"")

    def normalise(self, reply: Reply) -> tuple[int, str]:
        """Return the part of a response that must be equal in both worlds."""
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
    sections = prepared.config.sections
    options = tuple(option for option in _OPTIONS if option.split("/")[1] in sections)
    plugins = (_build_caller(account), _build_fence(renaming.prefix))
    return prepare_variant(sources, (*options, *renamed), plugins)


@asynccontextmanager
async def open_world(
    prepared: LoadedConfiguration, address: str, renaming: Renaming
) -> AsyncIterator[World]:
    """Start the application; it stops at the end of the block."""
    async with serve_locally(prepared, address) as server:
        yield World(server, renaming)


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
    fields = tuple((name, value) for name, _, value in (line.partition(": ") for line in lines))
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


_LONGEST: Final = 63  # bytes of the name of a database


@dataclass(frozen=True, slots=True)
class Renaming:
    """Adds the prefix to every database; names of both worlds have the same length."""

    prefix: str

    def db(self, name: str) -> str:
        """Return the scratch database that replaces a database."""
        renamed = f"{self.prefix}{name}"
        if len(renamed.encode()) <= _LONGEST:
            return renamed
        return f"{self.prefix}{hashlib.sha256(name.encode()).hexdigest()[:16]}"

    def namespace(self, name: str) -> str:
        """Return the scratch namespace of `db.collection`."""
        db, _, collection = name.partition(".")
        return f"{self.db(db)}.{collection}"

    def definition(self, value: Any) -> Any:
        """Rename databases in mappings and stages."""
        if isinstance(value, list):
            return [self.definition(element) for element in value]
        if not isinstance(value, dict):
            return value
        renamed = {key: self.definition(inner) for key, inner in value.items()}
        if isinstance(value.get("db"), str) and any(key in value for key in ("collection", "coll")):
            renamed["db"] = self.db(value["db"])
        return renamed

    def rule(self, rule: Mapping[str, Any]) -> dict[str, Any]:
        """Rename the collections of a rule's `readFilters`."""
        mongo = rule.get("mongo")
        if not isinstance(mongo, Mapping) or "readFilters" not in mongo:
            return dict(rule)
        return {**rule, "mongo": {**mongo, "readFilters": self._filters(mongo["readFilters"])}}

    def _filters(self, filters: Any) -> Any:
        """Rename in filters, also in a JSON text, which stays one; an invalid text is unchanged."""
        if isinstance(filters, str):
            try:
                read = decode(filters)
            except DocgraphError:
                return filters
            renamed = self._filters(read)
            return filters if renamed is read else encode(renamed, JsonMode.EXTENDED).decode()
        if not isinstance(filters, Mapping):
            return filters
        return {self.namespace(name): condition for name, condition in filters.items()}

    def settings(
        self,
        sections: Mapping[str, Any],
        databases: Iterable[str],
        file_rules: Iterable[Mapping[str, Any]],
    ) -> tuple[str, ...]:
        """Return the options that name databases, as arguments of `--set`."""
        given: dict[str, Any] = dict(self._databases(sections))
        mongo = sections.get("mongo")
        if mongo is not None:
            mounts = list(self._mounts(mongo, databases))
            given |= {"/mongo/mongo-mounts": mounts} if mounts else {"/mongo/enabled": False}
        rules = [self.rule(rule) for rule in file_rules]
        if rules:
            section = "/fileAclAuthorizer"
            given |= {f"{section}/conf-file": None, f"{section}/permissions": rules}
        return tuple(f"{path}={json.dumps(value)}" for path, value in given.items())

    def _databases(self, sections: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the options of all sections, those of plugins included."""
        for name, section in sections.items():
            for field, option in zip(
                section.__struct_fields__, section.__struct_encode_fields__, strict=True
            ):
                value = getattr(section, field)
                if isinstance(value, str) and (field == "db" or field.endswith("_db")):
                    yield f"/{name}/{option}", self.db(value)

    def _mounts(self, mongo: Any, databases: Iterable[str]) -> Iterator[dict[str, str]]:
        """Yield mounts; those with variables are left out: their targets are unknown."""
        for mount in mongo.mongo_mounts:
            if "{" in mount.what or "{" in mount.where:
                continue
            if mount.what == "*":
                base = mount.where.rstrip("/")
                for db in databases:
                    yield {"what": f"/{self.db(db)}", "where": f"{base}/{db}"}
                continue
            db, _, rest = mount.what[1:].partition("/")
            what = f"/{self.db(db)}/{rest}" if rest else f"/{self.db(db)}"
            yield {"what": what, "where": mount.where}
