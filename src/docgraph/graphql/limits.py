"""What a query may cost, measured on its text and its parsed form before it is validated.

Decision 26. Everything here is linear in the size of the text: fragments are counted once each
and their counts added up, never expanded.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphql import DocumentNode

__all__ = ["Limits", "check_limits", "parse_query"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one app: those of the configuration, with its own in their place."""

    depth: int = 15
    aliases: int = 50
    root_fields: int = 20
    tokens: int = 2500
    directives: int = 50
    fragments: int = 50
    estimated_documents: int = 2_000_000
    fetched_documents: int = 100_000
    response_bytes: int = 16 * 1024 * 1024


def parse_query(text: str, limits: Limits) -> DocumentNode:
    """Parse; raises `QueryError` with classification and locations."""
    raise NotImplementedError


def check_limits(document: DocumentNode, limits: Limits) -> None:
    """Raises `QueryError` for the first limit that the document exceeds."""
    raise NotImplementedError
