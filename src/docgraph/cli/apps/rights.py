"""Whether docgraph may read at the database what apps are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from docgraph.cli.terminal import notice
from docgraph.exchange import Document
from docgraph.graphql.definition.definition import decode_definition
from docgraph.store import Store
from docgraph.store.checkup import State, look_at_rights
from docgraph.store.driver.rights import Right

__all__ = ["list_rights", "tell_missing_rights"]


async def tell_missing_rights(store: Store, documents: Iterable[Document]) -> None:
    """Say what the apps cannot be answered from, and what to do about it."""
    found = await look_at_rights(store, list_rights(documents), besides_own=False)
    if found.state is not State.OK:
        for place in found.details:
            notice(f"docgraph lacks a right at the database: {place}")
        notice(f"  {found.advice}")


def list_rights(documents: Iterable[Document]) -> list[Right]:
    """To read what these apps are about."""
    return [
        Right(db, collection, ("find",), f"the app {document['_id']}")
        for document in documents
        for db, collection in sorted(set(_find_sources(document)))
    ]


def _find_sources(document: Document) -> Iterator[tuple[str, str]]:
    """The database and the collection of each mapped field."""
    for fields in decode_definition(document).mappings.values():
        for mapping in fields.values() if isinstance(fields, dict) else ():
            if isinstance(mapping, dict) and "collection" in mapping and "db" in mapping:
                yield str(mapping["db"]), str(mapping["collection"])
