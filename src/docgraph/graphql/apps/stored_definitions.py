"""Stored definitions by the uri they are served at; pure, no database.

Nothing is compiled here, and a definition that cannot work still has its place, so that it
answers its own error and no other app suffers. That holds for one that claims what another has,
too: of definitions which were written past the unique index, the lowest `_id` wins (decision 5).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from docgraph.codec import JsonMode, encode
from docgraph.codec.types import ObjectId
from docgraph.exchange import Document
from docgraph.graphql.definition.definition import normalise_uri, read_uri

__all__ = ["Entry", "StoredDefinitions", "build_entry", "build_key", "find_claims"]


@dataclass(frozen=True)
class Entry:
    """A stored definition as it is, with what is needed to find it and to notice its change."""

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


def build_entry(document: Document) -> Entry:
    """Read what is needed to find it, whatever else is wrong with the definition."""
    descriptor = document.get("descriptor")
    descriptor = descriptor if isinstance(descriptor, dict) else {}
    uri, id = descriptor.get("uri"), document.get("_id")
    etag = document.get("_etag")
    return Entry(
        key=build_key(id),
        id=id,
        uri=read_uri(uri) if isinstance(uri, str) else normalise_uri(str(id)),
        enabled=descriptor.get("enabled") is not False,
        etag=None if etag is None else str(etag),
        document=document,
    )


def build_key(id: Any) -> str:
    """An id as text; ids of different types never collide."""
    return f"{type(id).__name__}:{id}"


def find_claims(id: Any, uri: str) -> list[str]:
    """What an app keeps others from: its `_id`, where that is text, and its uri, which is last."""
    name = normalise_uri(id) if isinstance(id, str) else uri
    return [uri] if name == uri else [name, uri]


class StoredDefinitions:
    """The definitions of one process; replaced entry by entry as they change."""

    def __init__(self) -> None:
        self._by_key: dict[str, Entry] = {}
        self._by_uri: dict[str, Entry] = {}
        self._refused: dict[str, Entry] = {}  # by uri, where no other app is served
        self.collisions: dict[str, str] = {}  # by key: what is claimed by another app already

    def find(self, uri: str) -> Entry | None:
        """The enabled definition at this uri; ask `collisions` whether it may be served."""
        return self._by_uri.get(uri) or self._refused.get(uri)

    def entry(self, key: str) -> Entry | None:
        """The definition with this key, enabled or not."""
        return self._by_key.get(key)

    def entries(self) -> list[Entry]:
        """All definitions, enabled or not."""
        return list(self._by_key.values())

    def served(self) -> list[Entry]:
        """Those that have a uri of their own, in the order of their uris."""
        return [entry for _, entry in sorted(self._by_uri.items())]

    def put(self, entries: Iterable[Entry]) -> None:
        """Add or replace."""
        self._by_key.update((entry.key, entry) for entry in entries)
        self._index()

    def drop(self, keys: Iterable[str]) -> None:
        """Forget."""
        for key in keys:
            self._by_key.pop(key, None)
        self._index()

    def replace(self, entries: Iterable[Entry]) -> None:
        """Hold these and no others."""
        self._by_key = {entry.key: entry for entry in entries}
        self._index()

    def etags(self) -> dict[str, str | None]:
        """What is held, for comparison with what is stored."""
        return {key: entry.etag for key, entry in self._by_key.items()}

    def counts(self) -> tuple[int, int]:
        """Served and not served definitions."""
        return len(self._by_uri), len(self._by_key) - len(self._by_uri)

    def _index(self) -> None:
        enabled = [entry for entry in self._by_key.values() if entry.enabled]
        enabled.sort(key=lambda entry: _order(entry.id))
        claimed: set[str] = set()
        self._by_uri, self._refused, self.collisions = {}, {}, {}
        for entry in enabled:
            claims = find_claims(entry.id, entry.uri)
            taken = claimed.intersection(claims)
            if taken:
                self.collisions[entry.key] = min(taken)
                self._refused.setdefault(entry.uri, entry)
            else:
                claimed.update(claims)
                self._by_uri[entry.uri] = entry


def _order(id: Any) -> tuple[int, Any]:
    """The order of the database for the ids that occur: numbers, texts, object ids, the rest."""
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
