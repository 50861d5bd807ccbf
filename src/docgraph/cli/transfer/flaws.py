"""Flaws of an export: what could not be stored, or would not work, one line each.

An import with a flaw stores nothing, or leaves such documents out. An export includes and reports
them: a backup does not lose what cannot be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING

from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.db_users import REALM, DatabaseRealm, find_value
from docgraph.auth.authenticators.sections import BCRYPT_HASH, DbRealmAuthenticator
from docgraph.auth.passwords import check_password
from docgraph.cli.acl.rules import RuleCollection, build_knowledge
from docgraph.cli.apps.definitions import Checked, check_found, resolve_all_questions
from docgraph.cli.apps.sources import FoundDefinition
from docgraph.cli.transfer.mover import ImportFlaw
from docgraph.cli.transfer.parts import Part, PropertiesPart, identify
from docgraph.codec import JsonMode, as_meant, as_written, decode, encode, name_id, to_stored
from docgraph.exchange import DocgraphError, Document
from docgraph.graphql.sections import Graphql
from docgraph.rest.properties import check_properties
from docgraph.rest.schema_checks import open_lane
from docgraph.rest.schema_store import Schemas, address_of
from docgraph.rest.schema_store import identify as identify_schema
from docgraph.store import Policy
from docgraph.store.driver.lenient_decode import is_readable
from docgraph.store.names import METADATA_STORE, SCHEMA_STORE
from docgraph.store.sections import AggregationSecurity

if TYPE_CHECKING:
    from docgraph.cli.transfer.mover import Mover

ReadParts = Sequence[tuple[Part, Sequence[Document]]]


class Flaws:
    """Checks exported documents as a server with this configuration would."""

    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self._app, self._prepared = mover.app, mover.prepared
        self._realm = self._prepared.config.get(DbRealmAuthenticator)

    async def find(self, parts: ReadParts) -> list[ImportFlaw]:
        """Return the flaws in everything besides apps."""
        flaws: list[ImportFlaw] = []
        for part, documents in parts:
            if part == self._mover.users:
                flaws += [flaw async for flaw in self._find_in_users(documents)]
            elif part == self._mover.rules:
                flaws += [flaw async for flaw in self._find_in_rules(documents)]
            elif isinstance(part, PropertiesPart):
                flaws += self._find_in_properties(part, documents)
        return [*flaws, *[flaw async for flaw in self._find_in_schemas(parts)]]

    async def find_in_apps(self, documents: Sequence[Document]) -> list[str]:
        definitions = [
            FoundDefinition(f"app {name_id(document['_id'])}", document) for document in documents
        ]
        checked = await self.check_apps(definitions)
        return [f"{app.name}: {error}" for app in checked for error in app.errors]

    async def check_apps(self, definitions: Sequence[FoundDefinition]) -> list[Checked]:
        """Return the definitions, each with what is wrong with it here."""
        # In a thread: the driver has work to do meanwhile.
        checked = await asyncio.to_thread(check_found, self._prepared, definitions)
        return await resolve_all_questions(
            checked, self._app.store, self._prepared.config.get(Graphql)
        )

    def find_repeated(self, parts: ReadParts) -> Iterator[ImportFlaw]:
        """Yield documents with the same id, of which one would replace the other."""
        for part, documents in parts:
            seen = set()
            for document in documents:
                if identify(document) in seen:
                    yield _blame(part, document, "is there more than once")
                seen.add(identify(document))

    def find_inexact(self, parts: ReadParts) -> Iterator[str]:
        """Yield documents that are not the same when read back from their file."""
        for part, documents in parts:
            for document in documents:
                if not is_readable(document):
                    what = "has values that cannot be read, and are written as bytes"
                elif not _comes_back(document):
                    what = "holds what extended JSON takes for something else"
                else:
                    continue
                yield f"{part.name}, {name_id(document['_id'])}: {what}: mongodump moves it exactly"

    async def _find_in_users(self, documents: Sequence[Document]) -> AsyncIterator[ImportFlaw]:
        users = self._mover.users
        if documents and not self._realm.enabled:
            text = f"there are users, and {REALM} is off: set /{REALM}/enabled to true"
            yield ImportFlaw(users, None, text)
        for document in documents:
            password = document.get(self._realm.prop_password)
            if not isinstance(password, str | None):
                flaw: str | None = "the password must be text"
            else:
                flaw = (
                    None if password is None else await self._find_in_password(document, password)
                )
            if flaw is not None:
                yield ImportFlaw(
                    users, identify(document), f"user {name_id(document['_id'])}: {flaw}"
                )

    async def _find_in_password(self, user: Document, password: str) -> str | None:
        """Return why the server would reject the password, which it hashes."""
        is_hash = BCRYPT_HASH.fullmatch(password) is not None
        if not self._realm.bcrypt_hashed_password:
            return _HASH_AS_PASSWORD if is_hash else None
        if is_hash or not self._realm.enabled:
            return None
        realm: DatabaseRealm = self._app.plugins.find(REALM)
        try:
            check_password(password)
            if realm.strength is not None:
                name = find_value(user, self._realm.prop_id)
                await realm.strength.check(password, words=[name] if isinstance(name, str) else [])
        except DocgraphError as error:
            return f"{error.message}: {error.hint}" if error.hint else error.message
        return None

    async def _find_in_rules(self, documents: Sequence[Document]) -> AsyncIterator[ImportFlaw]:
        knowledge = build_knowledge(self._prepared)
        rules = RuleCollection(self._app, self._prepared.config.get(DbAclAuthorizer))
        for document in documents:
            for flaw in await rules.find_flaws(document, knowledge):
                text = f"rule {name_id(document['_id'])}: {flaw.where} {flaw.what}"
                yield ImportFlaw(self._mover.rules, identify(document), text)

    def _find_in_properties(
        self, part: Part, documents: Sequence[Document]
    ) -> Iterator[ImportFlaw]:
        policy = Policy.from_section(self._prepared.config.get(AggregationSecurity))
        for document in documents:
            of_collection = document["_id"] != METADATA_STORE
            try:
                check_properties(
                    as_written(document), db=part.db, policy=policy, of_collection=of_collection
                )
            except DocgraphError as error:
                yield _blame(part, document, error.message)

    async def _find_in_schemas(self, parts: ReadParts) -> AsyncIterator[ImportFlaw]:
        """Yield JSON schemas that could not be stored, not even together with the others."""
        imported = [
            (part, as_meant(to_stored(as_written(document))))
            for part, documents in parts
            for document in (documents if part.collection == SCHEMA_STORE else ())
        ]
        coming = {address_of(part.db, document["_id"]): document for part, document in imported}
        values = self._app.plugins.values
        lane = open_lane(values["blocking"])
        schemas = Schemas(self._app.store, values["generations"], lane, ttl=0)
        for part, document in imported:
            try:
                await schemas.compile(identify_schema(document, part.db), coming)
            except DocgraphError as error:
                yield _blame(part, document, error.message)


def leave_out(parts: ReadParts, flaws: Sequence[ImportFlaw]) -> ReadParts:
    """Return the parts without the documents that have a flaw."""
    blamed = {(flaw.part, flaw.id) for flaw in flaws}
    return [
        (
            part,
            [
                document
                for document in documents
                if not blamed & {(part, None), (part, identify(document))}
            ],
        )
        for part, documents in parts
    ]


def _blame(part: Part, document: Document, what: str) -> ImportFlaw:
    text = f"{part.name}, {name_id(document['_id'])}: {what}"
    return ImportFlaw(part, identify(document), text)


_HASH_AS_PASSWORD = (
    "the password is a hash, and would be taken for the password itself: "
    f"set /{REALM}/bcrypt-hashed-password to true"
)


def _comes_back(document: Document) -> bool:
    written = encode(document, JsonMode.EXTENDED)
    try:
        read = decode(written)
        return isinstance(read, dict) and encode(read, JsonMode.EXTENDED) == written
    except DocgraphError:
        return False
