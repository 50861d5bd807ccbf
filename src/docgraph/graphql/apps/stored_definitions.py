"""Stored definitions by the URI that serves them; pure, no database access.

Nothing is compiled here. An invalid definition still occupies its URI, so that requests get its own
error and no other app is affected. The same holds for a definition that claims the URI of another:
among definitions written past the unique index, the lowest `_id` wins (decision 5).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from docgraph.codec import JsonMode, encode
from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Document
from docgraph.graphql.definition.definition import normalise_uri, read_uri


@dataclass(frozen=True)
class StoredDefinition:
    """A stored definition with what is needed to find it and to detect changes."""

    key: str  # the `_id` as text with its type: unique
    id: Any
    uri: str
    enabled: bool
    etag: str | None
    document: Document

    @cached_property
    def version(self) -> str:
        """A digest of the whole document: two equal versions compile to the same app."""
        return hashlib.blake2b(encode(self.document, JsonMode.EXTENDED), digest_size=16).hexdigest()


def build_entry(document: Document) -> StoredDefinition:
    """Read what is needed to find a definition, whatever else is wrong with it."""
    descriptor = document.get("descriptor")
    descriptor = descriptor if isinstance(descriptor, dict) else {}
    uri, id = descriptor.get("uri"), document.get("_id")
    etag = document.get("_etag")
    return StoredDefinition(
        key=build_key(id),
        id=id,
        uri=read_uri(uri) if isinstance(uri, str) else normalise_uri(str(id)),
        enabled=descriptor.get("enabled") is not False,
        etag=None if etag is None else str(etag),
        document=document,
    )


def build_key(id: Any) -> str:
    """Return an id as text; ids of different types never collide."""
    return f"{type(id).__name__}:{id}"


def find_claims(id: Any, uri: str) -> list[str]:
    """Return what an app claims: its `_id` if that is a string, and its URI, which is last."""
    name = normalise_uri(id) if isinstance(id, str) else uri
    return [uri] if name == uri else [name, uri]


class StoredDefinitions:
    """The definitions of one process; replaced entry by entry as they change."""

    def __init__(self, *, by_id: bool = False) -> None:
        self._serves_ids = by_id  # `graphql.serve-by-id`
        self._by_id: dict[str, StoredDefinition] = {}  # only if ids are served
        self._by_key: dict[str, StoredDefinition] = {}
        self._by_uri: dict[str, StoredDefinition] = {}
        self._refused: dict[str, StoredDefinition] = {}  # by URI, where no other app is served
        self.collisions: dict[str, str] = {}  # by key: the URI or id that another app claims

    def find(self, uri: str) -> StoredDefinition | None:
        """Return the enabled definition at this URI; see `collisions` before serving it."""
        return self._by_uri.get(uri) or self._by_id.get(uri) or self._refused.get(uri)

    def entry(self, key: str) -> StoredDefinition | None:
        """Return the definition with this key, enabled or not."""
        return self._by_key.get(key)

    def entries(self) -> list[StoredDefinition]:
        """Return all definitions, enabled or not."""
        return list(self._by_key.values())

    def served(self) -> list[StoredDefinition]:
        """Return the definitions that own their URI, in the order of the URIs."""
        return [entry for _, entry in sorted(self._by_uri.items())]

    def put(self, entries: Iterable[StoredDefinition]) -> None:
        """Add or replace definitions."""
        self._by_key.update((entry.key, entry) for entry in entries)
        self._index()

    def drop(self, keys: Iterable[str]) -> None:
        """Remove definitions."""
        for key in keys:
            self._by_key.pop(key, None)
        self._index()

    def replace(self, entries: Iterable[StoredDefinition]) -> None:
        """Replace all definitions with these."""
        self._by_key = {entry.key: entry for entry in entries}
        self._index()

    def etags(self) -> dict[str, str | None]:
        """Return the ETags of the loaded definitions, to compare with those in the database."""
        return {key: entry.etag for key, entry in self._by_key.items()}

    def counts(self) -> tuple[int, int]:
        """Return the numbers of served and not served definitions."""
        return len(self._by_uri), len(self._by_key) - len(self._by_uri)

    def _index(self) -> None:
        enabled = [entry for entry in self._by_key.values() if entry.enabled]
        enabled.sort(key=lambda entry: _order(entry.id))
        claimed: set[str] = set()
        self._by_uri, self._refused, self.collisions, self._by_id = {}, {}, {}, {}
        for entry in enabled:
            claims = find_claims(entry.id, entry.uri)
            taken = claimed.intersection(claims)
            if taken:
                self.collisions[entry.key] = min(taken)
                self._refused.setdefault(entry.uri, entry)
            else:
                claimed.update(claims)
                self._by_uri[entry.uri] = entry
                if self._serves_ids:
                    self._by_id[claims[0]] = entry


def _order(id: Any) -> tuple[int, Any]:
    """Return a sort key in the order of the database: numbers, strings, object ids, the rest."""
    match id:
        case bool():
            return 3, str(id)
        case int() | float():
            return 0, id
        case str():
            return 1, id.encode()
        case ObjectId():
            return 2, id.binary
        case _:
            return 3, build_key(id)
