"""Names of databases and collections (decision 20a)."""

from __future__ import annotations

import pytest

from docgraph.exchange.errors import QueryError, SecurityViolation
from docgraph.store.names import check_namespace


@pytest.mark.parametrize("db", ["admin", "config", "local", "Admin", "LOCAL"])
def test_databases_of_the_server_are_refused(db: str) -> None:
    """Decision 20a."""
    with pytest.raises(SecurityViolation, match="belongs to the server"):
        check_namespace(db, "users")


@pytest.mark.parametrize("collection", ["system.users", "system.js", "System.views", "system.x.y"])
def test_collections_of_the_server_are_refused(collection: str) -> None:
    """Decision 20a."""
    with pytest.raises(SecurityViolation, match=r"system\."):
        check_namespace("blog", collection)


@pytest.mark.parametrize(
    "db", ["", "a.b", "a b", "a$b", "a\0", "a/b", "a\\b", 'a"b', "x" * 64, "\ud800", "ü" * 32]
)
def test_impossible_database_names_are_refused(db: str) -> None:
    with pytest.raises(QueryError, match="invalid database name"):
        check_namespace(db, "users")


@pytest.mark.parametrize("collection", ["", "a$b", "a\0b", ".a", "a.", "$cmd", "\udfff"])
def test_impossible_collection_names_are_refused(collection: str) -> None:
    with pytest.raises(QueryError, match="invalid collection name"):
        check_namespace("blog", collection)


def test_namespace_that_is_too_long_is_refused() -> None:
    with pytest.raises(QueryError, match="255 bytes"):
        check_namespace("blog", "x" * 251)


def test_ordinary_names_pass() -> None:
    assert check_namespace("blog", "posts") == "blog.posts"
    assert check_namespace("blog-2", "fs.files") == "blog-2.fs.files"
    assert check_namespace("blog", "systematic") == "blog.systematic"
