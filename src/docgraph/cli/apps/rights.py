"""Database privileges: whether docgraph may read the collections of apps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from docgraph.cli.terminal import notice
from docgraph.exchange import Document
from docgraph.graphql.definition.definition import decode_definition
from docgraph.store import Store
from docgraph.store.diagnostics import CheckState, diagnose_rights
from docgraph.store.driver.rights import Right


async def print_missing_rights(store: Store, documents: Iterable[Document]) -> None:
    """Print which collections docgraph may not read, and what to do about it."""
    found = await diagnose_rights(store, list_rights(documents), besides_own=False)
    if found.state is not CheckState.OK:
        for place in found.details:
            notice(f"docgraph lacks a right at the database: {place}")
        notice(f"  {found.advice}")


def list_rights(documents: Iterable[Document]) -> list[Right]:
    """Return the rights to read the collections of these apps."""
    return [
        Right(db, collection, ("find",), f"the app {document['_id']}")
        for document in documents
        for db, collection in sorted(set(_find_sources(document)))
    ]


def _find_sources(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the database and the collection of each mapped field."""
    for fields in decode_definition(document).mappings.values():
        for mapping in fields.values() if isinstance(fields, dict) else ():
            if isinstance(mapping, dict) and "collection" in mapping and "db" in mapping:
                yield str(mapping["db"]), str(mapping["collection"])
