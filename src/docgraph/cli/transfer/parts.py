"""Parts of an export: docgraph's own collections, and how to read, check and write each.

Writes pass the interceptors, as those of other commands do. An overwritten document is found by the
ETag that it was compared with: concurrent changes are left alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.db_users import REALM
from docgraph.auth.authenticators.sections import BCRYPT_HASH, DbRealmAuthenticator
from docgraph.auth.passwords import Hashed
from docgraph.cli.apps.definitions import find_collisions
from docgraph.cli.apps.stored import Definitions, without_etag
from docgraph.cli.terminal import make_printable, notice
from docgraph.codec import JsonMode, encode, name_id
from docgraph.codec.equality import EqualityKey, equality_key
from docgraph.exchange import (
    Deadline,
    Document,
    Resource,
    ResourceType,
    StartupError,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.errors import Conflict, DefinitionError
from docgraph.graphql.apps.app_plugins import ensure_index
from docgraph.graphql.definition.definition_diff import is_same
from docgraph.graphql.sections import Graphql
from docgraph.store.catalog import Catalog
from docgraph.store.names import METADATA_STORE, SCHEMA_STORE

if TYPE_CHECKING:
    from docgraph.cli.transfer.files import Directory
    from docgraph.server.app import Docgraph
    from docgraph.server.prepare import LoadedConfiguration

PROPERTIES: Final = "properties"
SCHEMAS: Final = "schemas"
_ETAG: Final = "_etag"
_LIMIT_MS: Final = 60_000
_MAX_READ: Final = 100_000  # documents of a collection


@dataclass(frozen=True, slots=True)
class Part:
    """A collection whose documents are moved; `file` is where an export has them."""

    name: str
    file: str
    db: str
    collection: str


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
        config = prepared.config
        self._realm = config.get(DbRealmAuthenticator)
        rules, graphql = config.get(DbAclAuthorizer), config.get(Graphql)
        self.apps = Part("apps", "apps", graphql.db, graphql.collection)
        self.users = Part("users", "users.json", self._realm.users_db, self._realm.users_collection)
        self.rules = Part("rules", "rules.json", rules.acl_db, rules.acl_collection)
        self._catalog = Catalog(app.store, app.plugins.values["generations"], ttl=0.0)

    @property
    def definitions(self) -> Definitions:
        """The stored definitions of apps."""
        return Definitions(self.app, self.prepared.config.get(Graphql))

    def describe(self, kind: str, db: str) -> Part:
        """Return the part with the properties or JSON schemas of a database."""
        collection = METADATA_STORE if kind == PROPERTIES else SCHEMA_STORE
        return Part(f"{kind} of {db}", f"{kind}/{quote(db, safe='')}.json", db, collection)

    async def list_parts(self, databases: Sequence[str] = ()) -> list[Part]:
        """Return everything to export besides the apps; of these databases, or of all."""
        there = await self._catalog.list_databases(Deadline.after_ms(_LIMIT_MS))
        names = databases or there
        for name in names:
            if name not in there:
                notice(f"there is no database {make_printable(name)}")
        described = [self.describe(kind, db) for kind in (SCHEMAS, PROPERTIES) for db in names]
        return [self.users, self.rules, *described]

    def list_exported(self, directory: Directory) -> Iterator[Part]:
        """Yield the parts of an export in the order of import: nothing refers to what follows."""
        for kind in (SCHEMAS, PROPERTIES):
            for db in directory.list_databases(kind):
                yield self.describe(kind, db)
        yield from (self.users, self.rules)

    async def read(self, part: Part) -> list[Document]:
        """Return the documents of a part as stored, with secrets; apps as they are written."""
        if part == self.apps:
            return await self.definitions.read_all()
        realm = self.app.plugins.find(REALM) if self._realm.enabled else None
        found = await self.app.store.reads.find(
            part.db,
            part.collection,
            {},
            limit=_MAX_READ + 1,
            sort=[("_id", 1)],
            deadline=Deadline.after_ms(_LIMIT_MS),
            reveal=realm.keys if part == self.users and realm is not None else (),
        )
        if len(found) > _MAX_READ:
            raise StartupError(
                f"there are more than {_MAX_READ} {part.name}: move them by mongodump"
            )
        return found

    async def compare(self, part: Part, wanted: Sequence[Document]) -> ImportChanges:
        """Return what importing these documents would change."""
        stored = {identify(one): one for one in await self.read(part)}
        changes = ImportChanges(part)
        for document in wanted:
            there = stored.get(identify(document))
            if there is None:
                changes.new.append(document)
            elif self._is_same(part, there, document):
                changes.same += 1
            else:
                changes.changed.append((there, document))
        return changes

    def _is_same(self, part: Part, there: Document, document: Document) -> bool:
        if part == self.apps:  # files have the parts of an app in an order of their own
            return is_same(without_etag(there), document)
        return _without_etag(there) == _without_etag(document)

    async def find_collisions(self, definitions: Sequence[Document]) -> AsyncIterator[ImportFlaw]:
        """Yield definitions that conflict with stored ones."""
        changes = await self.definitions.compare(definitions, prune=False)
        for app, other in find_collisions(changes, prune=False):
            text = f"app {app}: URI collision: it would be served where {other} is"
            for one in definitions:
                if str(one["_id"]) == app:
                    yield ImportFlaw(self.apps, identify(one), text)

    async def store(self, changes: ImportChanges, *, overwrite: bool) -> list[str]:
        """Write new and, if wanted, changed documents; return those that others wrote meanwhile."""
        part = changes.part
        if part.collection == METADATA_STORE:
            await self._make_collections(part.db, changes.new)
        elif part == self.apps:
            await ensure_index(self.app.store, self.prepared.config.get(Graphql))
        writes = [
            Write(WriteKind.INSERT, (self._prepare(part, document),)) for document in changes.new
        ]
        late: list[str] = []
        changed = await self._find_untouched(changes, late) if overwrite else []
        for there, document in changed:
            filter_ = {"_id": there["_id"], _ETAG: there.get(_ETAG)}
            prepared = self._prepare(part, document)
            writes.append(Write(WriteKind.REPLACE, (prepared,), filter=filter_))
        while writes:
            writes = await self._write_some(part, writes, late)
        return late

    async def _find_untouched(
        self, changes: ImportChanges, late: list[str]
    ) -> list[tuple[Document, Document]]:
        """Return documents that are as they were compared: not every writer updates the ETag."""
        if not changes.changed:
            return []
        stored = {identify(one): one for one in await self.read(changes.part)}
        untouched = []
        for there, document in changes.changed:
            now = stored.get(identify(there))
            if now is not None and _exactly(now) == _exactly(there):
                untouched.append((there, document))
            else:
                late.append(_name(changes.part, there))
        return untouched

    async def _write_some(self, part: Part, writes: list[Write], late: list[str]) -> list[Write]:
        """Write documents; return the rest: a JSON schema may refer to a later one."""
        waiting, refusal = [], None
        for write in writes:
            try:
                late += await self._attempt(part, write)
            except DefinitionError as error:
                waiting.append(write)
                refusal = error
        if refusal is not None and len(waiting) == len(writes):
            raise refusal
        return waiting

    async def _attempt(self, part: Part, write: Write) -> list[str]:
        (document,) = write.documents
        try:
            result = await self._write(part, write)
        except Conflict as error:
            return [f"{_name(part, document)} ({error.message})"]
        if (result.inserted or result.matched) and not result.failures:
            if part == self.apps:
                notice(f"stored {make_printable(name_id(document['_id']))}")
            return []
        return [_name(part, document)]

    async def _write(self, part: Part, write: Write) -> WriteResult:
        if part == self.apps:
            return await self.definitions.write(write)
        type_ = ResourceType.COLLECTION
        if part.collection == METADATA_STORE:
            type_ = ResourceType.METADATA
        resource = Resource(type_, part.db, part.collection, write.documents[0]["_id"])
        return await self.app.store.writes.write(
            resource, write, deadline=Deadline.after_ms(_LIMIT_MS), majority=True
        )

    async def _make_collections(self, db: str, documents: Sequence[Document]) -> None:
        """Create missing collections, which stay empty: properties belong to a collection."""
        there = await self._catalog.list_collections(db, Deadline.after_ms(_LIMIT_MS))
        for one in documents:
            _, _, collection = str(one["_id"]).partition(".")
            if collection and collection not in there:
                await self.app.store.writes.write(
                    Resource(ResourceType.COLLECTION, db, collection),
                    Write(WriteKind.CREATE),
                    deadline=Deadline.after_ms(_LIMIT_MS),
                )

    def _prepare(self, part: Part, document: Document) -> Document:
        """Prepare a user: keep a hash, let a plain password be hashed."""
        password = document.get(self._realm.prop_password)
        if part != self.users or not isinstance(password, str):
            return document
        if self._realm.bcrypt_hashed_password and not BCRYPT_HASH.fullmatch(password):
            return {key: one for key, one in document.items() if key != self._realm.prop_ha1}
        return {**document, self._realm.prop_password: Hashed(password)}


def identify(document: Document) -> EqualityKey:
    """Return the id of a document, as the database compares it."""
    return equality_key(document["_id"])


def _name(part: Part, document: Document) -> str:
    return f"{part.name}: {name_id(document['_id'])}"


def _exactly(document: Document) -> bytes:
    return encode(document, JsonMode.EXTENDED)


def _without_etag(document: Document) -> bytes:
    """Return a document without its ETag, which depends on when it was written."""
    return _exactly({key: one for key, one in document.items() if key != _ETAG})
