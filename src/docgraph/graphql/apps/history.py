"""App history (audit trail): versions of definitions with author and time, bounded in size.

The versions are documents of `_appHistory`, next to the definitions collection:

    {_id: {app: <key>, n: 1…}, app: <the app's _id>, at, by, change, digest, etag, size, text}

`text` is the definition in extended JSON, whatever keys it has. An instance or worker that sees a
definition differ from its latest version records it under the next number. Only one of them can
insert that number; the others read again and find it. The definition is read after the latest
version, so an outdated state is never recorded.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from docgraph.codec import JsonMode, as_written, decode, encode
from docgraph.exchange import (
    Deadline,
    Document,
    Exchange,
    Resource,
    ResourceType,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.errors import Conflict
from docgraph.graphql.apps.stored_definitions import build_key, spell_etag
from docgraph.graphql.sections import Graphql
from docgraph.store import Store
from docgraph.store.guard.shield import hide_marker
from docgraph.store.names import HISTORY_STORE

DATABASE: Final = "(database)"  # the author of a change that was first seen in the database itself
_ANONYMOUS: Final = "(anonymous)"
_LIMIT_MS: Final = 5_000
_MAX_VERSIONS: Final = 200_000  # of all apps
_LARGEST: Final = 14 * 1024 * 1024  # bytes of a definition that fits into a document with the rest
_LEAST_SIZE: Final = 512  # bytes that each version counts at least
_ATTEMPTS: Final = 8
_MANY: Final = 8  # apps for which the latest versions of all are read
_PORTION: Final = 20  # definitions that are in memory at the same time
_LAST: Final = 1 << 53
_OURS: Final = frozenset({"_etag", "_uris"})
_ALL_BUT_TEXT: Final = {"text": 0}

# The author of writes outside requests, such as those of the command line.
AUTHOR: ContextVar[str] = ContextVar("author", default="(docgraph)")


class VersionChange(StrEnum):
    """The kind of change that a version records."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Version:
    """One version; `text` is None where it was not requested or is no longer stored."""

    key: str
    number: int
    app: Any
    at: datetime
    by: str
    change: str
    digest: str
    etag: str | None
    size: int
    text: str | None = None

    @property
    def is_deletion(self) -> bool:
        """Whether the version records the deletion of the app."""
        return self.change == VersionChange.DELETED

    @property
    def definition(self) -> Document | None:
        """The definition as authors write it; None for a deletion and when it is not stored."""
        if self.text is None:
            return None
        document: Document = decode(self.text)
        return as_written(document)


def find_author(exchange: Exchange | None) -> str:
    """Return the author of the current write."""
    if exchange is None:
        return AUTHOR.get()
    return _ANONYMOUS if exchange.account is None else exchange.account.name


def digest_definition(document: Document) -> str:
    """Return a digest that ignores the properties docgraph adds; "" for no definition.

    A newer release may add more properties. Then instances of both releases would take turns
    recording versions, because each ignores different properties.
    """
    return _render(document)[1] if document else ""


def _render(document: Document) -> tuple[bytes, str]:
    """Return the text of a definition, and the digest of what its author means by it."""
    meant: Document = {}
    others: Document = {}
    for name, value in document.items():
        if name == "_id" or name[:1] != "_":
            meant[name] = value
        elif name not in _OURS:
            others[name] = value
    text = encode(meant, JsonMode.EXTENDED)
    digest = hashlib.blake2b(text, digest_size=16).hexdigest()
    if others:  # such as the marker of escaped keys
        text = text[:-1] + b"," + encode(others, JsonMode.EXTENDED)[1:]
    return text, digest


class History:
    """The versions of the definitions collection that the section `graphql` names."""

    def __init__(self, store: Store, settings: Graphql) -> None:
        self._store = store
        self._settings = settings
        self._marker = hide_marker(store.guard, settings.db, settings.collection)

    async def list_all(self) -> list[Version]:
        """Return every version of every app without its text, ordered by app and number."""
        return await self._find({}, _MAX_VERSIONS, _ALL_BUT_TEXT)

    async def list_of(self, key: str) -> list[Version]:
        """Return the versions of one app with their texts, by number."""
        return await self._find(_range(key), _MAX_VERSIONS, None)

    async def find_head(self, key: str) -> Version | None:
        """Return the latest version of an app, without its text."""
        versions = await self._find(_range(key), 1, _ALL_BUT_TEXT, order=-1)
        return versions[0] if versions else None

    async def _find(
        self, filter: Document, limit: int, projection: Document | None, order: int = 1
    ) -> list[Version]:
        documents = await self._store.reads.find(
            self._settings.db,
            HISTORY_STORE,
            filter,
            projection=projection,
            sort=[("_id", order)],
            limit=limit,
            deadline=Deadline.after_ms(_LIMIT_MS),
        )
        return [
            version for document in documents if (version := _read_version(document)) is not None
        ]

    async def record(
        self, id: Any, by: str = DATABASE, etags: Collection[str] | None = None
    ) -> Version | None:
        """Ensure that the current state of an app is its latest version, and return that version.

        `etags` are those of the definitions that the author has written: a concurrent write is
        recorded under its own author. None: the author deleted the app, or is unknown.
        """
        for _ in range(_ATTEMPTS):
            head = await self.find_head(build_key(id))
            found = await self._read_definitions([id])
            version = await self._build_next(id, head, found[0] if found else None, by, etags)
            if version is None:
                return head
            try:
                await self._write(Write(WriteKind.INSERT, (_spell(version),)))
            except Conflict:  # another one has taken the number
                continue
            return version
        return None

    async def record_all(
        self, ids: Sequence[Any], by: str = DATABASE, etags: Collection[str] | None = None
    ) -> None:
        """Record several apps, with few commands if they are many."""
        if len(ids) < _MANY:
            for id in ids:
                await self.record(id, by, etags)
            return
        heads = find_heads(await self.list_all())
        for start in range(0, len(ids), _PORTION):
            keys = {build_key(id): id for id in ids[start : start + _PORTION]}
            found = await self._read_definitions(list(keys.values()))
            stored = {build_key(one["_id"]): one for one in found}
            next_versions: list[Version] = []
            for key, id in keys.items():
                head = heads.get(key)
                version = await self._build_next(id, head, stored.get(key), by, etags)
                next_versions += [version] if version else []
            if not next_versions:
                continue
            documents = tuple(map(_spell, next_versions))
            result = await self._write(Write(WriteKind.INSERT, documents, ordered=False))
            inserted = {version_id["app"] for version_id in result.inserted}
            for version in next_versions:
                if version.key not in inserted:  # another one has taken the number
                    await self.record(version.app, by, etags)

    async def _build_next(
        self,
        id: Any,
        head: Version | None,
        stored: Document | None,
        by: str,
        etags: Collection[str] | None,
    ) -> Version | None:
        """Return the version to insert; None if the head is the current state, or stays."""
        etag = None if stored is None else spell_etag(stored.get("_etag"))
        is_known = by != DATABASE
        if is_known and (stored is not None if etags is None else etag not in etags):
            return None
        if head is None and stored is None:
            return None
        text, digest = (b"", "") if stored is None else _render(stored)
        if head is not None and head.digest == digest:
            if is_known and head.by == DATABASE and head.etag == etag:
                await self._sign(head, by)
            return None
        was_there = head is not None and not head.is_deletion
        change = VersionChange.CHANGED if was_there else VersionChange.CREATED
        is_kept = 0 < len(text) <= min(_LARGEST, self._settings.history_size)
        return Version(
            key=build_key(id),
            number=1 if head is None else head.number + 1,
            app=id,
            at=datetime.fromtimestamp(self._store.clock(), UTC),
            by=by,
            change=change if text else VersionChange.DELETED,
            digest=digest,
            etag=etag,
            size=max(len(text) if is_kept else 0, _LEAST_SIZE),
            text=text.decode() if is_kept else None,
        )

    async def find_deleted(self) -> list[Any]:
        """Return the ids of apps that are no longer stored and whose deletion is not recorded."""
        heads = find_heads(await self.list_all())
        living = {key: head.app for key, head in heads.items() if not head.is_deletion}
        stored = await self._store.reads.find(
            self._settings.db,
            self._settings.collection,
            {},
            projection={"_id": 1},
            limit=_MAX_VERSIONS,
            deadline=Deadline.after_ms(_LIMIT_MS),
        )
        present = {build_key(document["_id"]) for document in stored}
        return [app for key, app in living.items() if key not in present]

    async def _read_definitions(self, ids: Sequence[Any]) -> list[Document]:
        return await self._store.reads.find(
            self._settings.db,
            self._settings.collection,
            {"_id": {"$eq": ids[0]} if len(ids) == 1 else {"$in": ids}},
            limit=len(ids),
            deadline=Deadline.after_ms(_LIMIT_MS),
            reveal=(self._marker,),
        )

    async def _sign(self, head: Version, by: str) -> None:
        """Set the author of a version that an instance recorded before the author did."""
        filter = {"_id": {"app": head.key, "n": head.number}, "by": DATABASE}
        await self._write(Write(WriteKind.UPDATE, filter=filter, update={"$set": {"by": by}}))

    async def _write(self, write: Write) -> WriteResult:
        return await self._store.writes.write(
            Resource(ResourceType.COLLECTION, self._settings.db, HISTORY_STORE),
            write,
            deadline=Deadline.after_ms(_LIMIT_MS),
        )

    async def prune(self) -> None:
        """Enforce the bounds: `history-versions` per app, and `history-size` for all together."""
        versions = await self.list_all()
        gone = list(
            find_excess(versions, self._settings.history_versions, self._settings.history_size)
        )
        if gone:
            ids = [{"app": version.key, "n": version.number} for version in gone]
            filter = {"_id": {"$in": ids}}
            await self._write(Write(WriteKind.DELETE, filter=filter, many=True))


def _spell(version: Version) -> Document:
    """Return the version as it is stored."""
    return {
        "_id": {"app": version.key, "n": version.number},
        "app": version.app,
        "at": version.at,
        "by": version.by,
        "change": str(version.change),
        "digest": version.digest,
        "etag": version.etag,
        "size": version.size,
        "text": version.text,
    }


def find_excess(versions: Sequence[Version], most: int, size: int) -> Iterator[Version]:
    """Yield the versions to delete: the oldest of an app, then the oldest of all.

    The latest version of a stored app stays: without it, the app would be recorded as new.
    """
    by_app: defaultdict[str, list[Version]] = defaultdict(list)
    for version in versions:
        by_app[version.key].append(version)
    kept: list[Version] = []
    for of_app in by_app.values():
        yield from of_app[: -most or None]
        kept += of_app[-most:]
    staying = {id(of_app[-1]) for of_app in by_app.values() if not of_app[-1].is_deletion}
    total = sum(version.size for version in kept)
    for version in sorted(kept, key=lambda version: (version.at, version.number)):
        if total <= size:
            return
        if id(version) not in staying:
            total -= version.size
            yield version


def find_heads(versions: Sequence[Version]) -> dict[str, Version]:
    """Return the latest version of each app."""
    return {
        version.key: version for version in versions
    }  # the last version of an app has the highest number


def _range(key: str) -> Document:
    """Return the filter for all versions of an app, which uses the index on `_id`."""
    return {"_id": {"$gte": {"app": key, "n": 0}, "$lte": {"app": key, "n": _LAST}}}


def _read_version(document: Document) -> Version | None:
    """Return a version; None for a document that docgraph did not write."""
    match document:
        case {
            "_id": {"app": str(key), "n": int(number)},
            "app": app,
            "at": datetime() as at,
            "by": str(by),
            "change": str(change),
            "digest": str(digest),
            "size": int(size),
        }:
            etag, text = document.get("etag"), document.get("text")
            text = text if isinstance(text, str) else None
            return Version(key, number, app, at, by, change, digest, spell_etag(etag), size, text)
    return None
