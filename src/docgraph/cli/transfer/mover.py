"""Mover: reads the parts of one database, compares them with an export, and writes them.

Writes pass the interceptors, as those of other commands do. An overwritten document is found by the
ETag that it was compared with: concurrent changes are left alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.cli.apps.definitions import find_collisions
from docgraph.cli.apps.stored import Definitions
from docgraph.cli.terminal import make_printable, notice
from docgraph.cli.transfer.parts import (
    ETAG,
    LIMIT_MS,
    AppsPart,
    Installation,
    Part,
    PropertiesPart,
    UsersPart,
    encode_exactly,
    identify,
)
from docgraph.codec import name_id
from docgraph.codec.equality import EqualityKey
from docgraph.exchange import Deadline, Document, Write, WriteKind
from docgraph.exchange.errors import Conflict, DefinitionError
from docgraph.graphql.sections import Graphql
from docgraph.store.names import API_KEYS, METADATA_STORE, SCHEMA_STORE

if TYPE_CHECKING:
    from docgraph.cli.transfer.files import Directory
    from docgraph.server.app import Docgraph
    from docgraph.server.prepare import LoadedConfiguration

PROPERTIES: Final = "properties"
SCHEMAS: Final = "schemas"


class ImportFlaw(NamedTuple):
    """Why a document cannot be stored, or would not work; without an id: all of its part."""

    part: Part
    id: EqualityKey | None
    text: str


@dataclass(slots=True)
class ImportChanges:
    """The changes of an import to a part; `changed` are pairs of stored and new documents."""

    part: Part
    new: list[Document] = field(default_factory=list)
    changed: list[tuple[Document, Document]] = field(default_factory=list)
    same: int = 0
    left_out: int = 0


class Mover:
    """Reads and writes the parts in one database."""

    def __init__(self, app: Docgraph, prepared: LoadedConfiguration) -> None:
        self.app = app
        self.prepared = prepared
        self._installation = Installation(app, prepared)
        config = prepared.config
        realm, rules = config.get(DbRealmAuthenticator), config.get(DbAclAuthorizer)
        graphql = config.get(Graphql)
        self.apps = AppsPart("apps", "apps", graphql.db, graphql.collection)
        self.users = UsersPart("users", "users.json", realm.users_db, realm.users_collection)
        self.rules = Part("rules", "rules.json", rules.acl_db, rules.acl_collection)
        name = "API keys (valid only where they were made)"  # by the key of the installation
        self.keys = Part(name, "keys.json", realm.users_db, API_KEYS)

    @property
    def definitions(self) -> Definitions:
        return self._installation.definitions

    def describe(self, kind: str, db: str) -> Part:
        """Return the part with the properties or JSON schemas of a database."""
        name, file = f"{kind} of {db}", f"{kind}/{quote(db, safe='')}.json"
        if kind == PROPERTIES:
            return PropertiesPart(name, file, db, METADATA_STORE)
        return Part(name, file, db, SCHEMA_STORE)

    async def list_parts(self, databases: Sequence[str] = ()) -> list[Part]:
        """Return everything to export besides the apps; of these databases, or of all."""
        existing = await self._installation.catalog.list_databases(Deadline.after_ms(LIMIT_MS))
        names = databases or existing
        for name in names:
            if name not in existing:
                notice(f"there is no database {make_printable(name)}")
        described = [self.describe(kind, db) for kind in (SCHEMAS, PROPERTIES) for db in names]
        return [self.users, self.rules, self.keys, *described]

    def list_exported(self, directory: Directory) -> Iterator[Part]:
        """Yield the parts of an export in the order of import: nothing refers to what follows."""
        for kind in (SCHEMAS, PROPERTIES):
            for db in directory.list_databases(kind):
                yield self.describe(kind, db)
        yield from (self.users, self.rules, self.keys)

    async def read(self, part: Part) -> list[Document]:
        """Return the documents of a part as stored, with secrets; apps as they are written."""
        return await part.read(self._installation)

    async def compare(self, part: Part, wanted: Sequence[Document]) -> ImportChanges:
        """Return what importing these documents would change."""
        stored = {identify(document): document for document in await self.read(part)}
        changes = ImportChanges(part)
        for document in wanted:
            stored_document = stored.get(identify(document))
            if stored_document is None:
                changes.new.append(document)
            elif part.is_same(stored_document, document):
                changes.same += 1
            else:
                changes.changed.append((stored_document, document))
        return changes

    async def find_collisions(self, definitions: Sequence[Document]) -> AsyncIterator[ImportFlaw]:
        """Yield definitions that conflict with stored ones."""
        changes = await self.definitions.compare(definitions, prune=False)
        for app, other in find_collisions(changes, prune=False):
            text = f"app {app}: URI collision: it would be served where {other} is"
            for definition in definitions:
                if str(definition["_id"]) == app:
                    yield ImportFlaw(self.apps, identify(definition), text)

    async def store(self, changes: ImportChanges, *, overwrite: bool) -> list[str]:
        """Write new and, if wanted, changed documents; return those that others wrote meanwhile."""
        part = changes.part
        await part.make_ready(self._installation, changes.new)
        writes = [
            Write(WriteKind.INSERT, (part.prepare(self._installation, document),))
            for document in changes.new
        ]
        late: list[str] = []
        changed = await self._find_untouched(changes, late) if overwrite else []
        for before, document in changed:
            filter_ = {"_id": before["_id"], ETAG: before.get(ETAG)}
            prepared = part.prepare(self._installation, document)
            writes.append(Write(WriteKind.REPLACE, (prepared,), filter=filter_))
        while writes:
            # The rest waits: a JSON schema may refer to a later one.
            waiting, refusal = [], None
            for write in writes:
                try:
                    late += await self._attempt(part, write)
                except DefinitionError as error:
                    waiting.append(write)
                    refusal = error
            if refusal is not None and len(waiting) == len(writes):
                raise refusal
            writes = waiting
        return late

    async def _find_untouched(
        self, changes: ImportChanges, late: list[str]
    ) -> list[tuple[Document, Document]]:
        """Return documents that are as they were compared: not every writer updates the ETag."""
        if not changes.changed:
            return []
        stored = {identify(document): document for document in await self.read(changes.part)}
        untouched = []
        for before, document in changes.changed:
            now = stored.get(identify(before))
            if now is not None and encode_exactly(now) == encode_exactly(before):
                untouched.append((before, document))
            else:
                late.append(_name(changes.part, before))
        return untouched

    async def _attempt(self, part: Part, write: Write) -> list[str]:
        (document,) = write.documents
        try:
            result = await part.write(self._installation, write)
        except Conflict as error:
            return [f"{_name(part, document)} ({error.message})"]
        if (result.inserted or result.matched) and not result.failures:
            part.report_stored(document)
            return []
        return [_name(part, document)]


def _name(part: Part, document: Document) -> str:
    return f"{part.name}: {name_id(document['_id'])}"
