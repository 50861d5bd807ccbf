"""Parts of an export: docgraph's own collections, and what is particular to each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from docgraph.auth.authenticators.db_users import REALM
from docgraph.auth.authenticators.sections import BCRYPT_HASH, DbRealmAuthenticator
from docgraph.auth.passwords import Hashed
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
from docgraph.graphql.apps.app_index import ensure_index
from docgraph.graphql.definition.definition_diff import is_same
from docgraph.graphql.sections import Graphql
from docgraph.store import RevealKey
from docgraph.store.catalog import Catalog

if TYPE_CHECKING:
    from docgraph.server.app import Docgraph
    from docgraph.server.prepare import LoadedConfiguration

ETAG: Final = "_etag"
LIMIT_MS: Final = 60_000
_MAX_READ: Final = 100_000  # documents of a collection


@dataclass(frozen=True, slots=True)
class Installation:
    """The database and the configuration that parts are read from and written to."""

    app: Docgraph
    prepared: LoadedConfiguration

    @property
    def definitions(self) -> Definitions:
        return Definitions(self.app, self.prepared.config.get(Graphql))

    @property
    def catalog(self) -> Catalog:
        """The databases and collections as they are now."""
        return Catalog(self.app.store, self.app.plugins.values["generations"], ttl=0.0)


@dataclass(frozen=True, slots=True)
class Part:
    """A collection whose documents are moved as they are; `file` is where an export has them."""

    name: str
    file: str
    db: str
    collection: str
    resource_type: ClassVar[ResourceType] = ResourceType.COLLECTION

    async def read(self, installation: Installation) -> list[Document]:
        """Return the documents as stored, with secrets."""
        documents = await installation.app.store.reads.find(
            self.db,
            self.collection,
            {},
            limit=_MAX_READ + 1,
            sort=[("_id", 1)],
            deadline=Deadline.after_ms(LIMIT_MS),
            reveal=self.find_reveal_keys(installation),
        )
        if len(documents) > _MAX_READ:
            raise StartupError(
                f"there are more than {_MAX_READ} {self.name}: move them by mongodump"
            )
        return documents

    def find_reveal_keys(self, installation: Installation) -> tuple[RevealKey, ...]:
        """Return the keys that reveal properties which the store hides otherwise."""
        return ()

    def is_same(self, stored: Document, document: Document) -> bool:
        """Return whether an import of the document would change nothing."""
        return _encode_without_etag(stored) == _encode_without_etag(document)

    async def make_ready(self, installation: Installation, new: Sequence[Document]) -> None:
        """Prepare the collection for new documents."""

    def prepare(self, installation: Installation, document: Document) -> Document:
        return document

    async def write(self, installation: Installation, write: Write) -> WriteResult:
        """Write through the interceptors."""
        resource = Resource(self.resource_type, self.db, self.collection, write.documents[0]["_id"])
        return await installation.app.store.writes.write(
            resource, write, deadline=Deadline.after_ms(LIMIT_MS), majority=True
        )

    def report_stored(self, document: Document) -> None:
        """Print that a document was stored, where each one is worth a line."""


@dataclass(frozen=True, slots=True)
class AppsPart(Part):
    """The definitions, in the form in which authors write them."""

    async def read(self, installation: Installation) -> list[Document]:
        return await installation.definitions.read_all()

    def is_same(self, stored: Document, document: Document) -> bool:
        """Compare the meaning: files have the parts of an app in an order of their own."""
        return is_same(without_etag(stored), document)

    async def make_ready(self, installation: Installation, new: Sequence[Document]) -> None:
        """Create the unique index on URIs."""
        await ensure_index(installation.app.store, installation.prepared.config.get(Graphql))

    async def write(self, installation: Installation, write: Write) -> WriteResult:
        """Write as `docgraph apps apply` does."""
        return await installation.definitions.write(write)

    def report_stored(self, document: Document) -> None:
        notice(f"stored {make_printable(name_id(document['_id']))}")


@dataclass(frozen=True, slots=True)
class UsersPart(Part):
    """The users, with the hashes of their passwords."""

    def find_reveal_keys(self, installation: Installation) -> tuple[RevealKey, ...]:
        """Return the keys of the realm, which hides passwords."""
        if not installation.prepared.config.get(DbRealmAuthenticator).enabled:
            return ()
        keys: tuple[RevealKey, ...] = installation.app.plugins.find(REALM).keys
        return keys

    def prepare(self, installation: Installation, document: Document) -> Document:
        """Keep a hash as it is; a plain password will be hashed."""
        realm = installation.prepared.config.get(DbRealmAuthenticator)
        password = document.get(realm.prop_password)
        if not isinstance(password, str):
            return document
        if realm.bcrypt_hashed_password and not BCRYPT_HASH.fullmatch(password):
            return {key: value for key, value in document.items() if key != realm.prop_ha1}
        return {**document, realm.prop_password: Hashed(password)}


@dataclass(frozen=True, slots=True)
class PropertiesPart(Part):
    """The properties of a database and of its collections."""

    resource_type: ClassVar[ResourceType] = ResourceType.METADATA

    async def make_ready(self, installation: Installation, new: Sequence[Document]) -> None:
        """Create missing collections, which stay empty: properties belong to a collection."""
        existing = await installation.catalog.list_collections(self.db, Deadline.after_ms(LIMIT_MS))
        for document in new:
            _, _, collection = str(document["_id"]).partition(".")
            if collection and collection not in existing:
                await installation.app.store.writes.write(
                    Resource(ResourceType.COLLECTION, self.db, collection),
                    Write(WriteKind.CREATE),
                    deadline=Deadline.after_ms(LIMIT_MS),
                )


def identify(document: Document) -> EqualityKey:
    """Return the id of a document, as the database compares it."""
    return equality_key(document["_id"])


def encode_exactly(document: Document) -> bytes:
    """Return the document as extended JSON, which tells all types apart."""
    return encode(document, JsonMode.EXTENDED)


def _encode_without_etag(document: Document) -> bytes:
    """Return a document without its ETag, which depends on when it was written."""
    return encode_exactly({key: value for key, value in document.items() if key != ETAG})
