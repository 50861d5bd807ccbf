"""Which part of the database a path addresses, and which names nobody reaches."""

from __future__ import annotations

import pytest

from docgraph.exchange import Resource, ResourceType, StartupError
from docgraph.exchange.errors import RequestError
from docgraph.exchange.request import parse_path
from docgraph.store.mounts import Mounts
from docgraph.store.names import ReservedResource, check_names
from docgraph.store.sections import MongoMount

T = ResourceType
DEFAULT = (MongoMount(what="/docgraph", where="/"),)
EVERYTHING = (MongoMount(what="*", where="/"),)


def _resolve(
    path: str, mounts: tuple[MongoMount, ...] = EVERYTHING, prefix: str = "/", host: str = ""
) -> Resource | None:
    return Mounts(mounts, prefix).resolve(parse_path(path.encode()), host)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", Resource(T.ROOT)),
        ("/_size", Resource(T.SIZE)),
        ("/db", Resource(T.DATABASE, "db")),
        ("/db/_size", Resource(T.SIZE, "db")),
        ("/db/_meta", Resource(T.METADATA, "db")),
        ("/db/coll", Resource(T.COLLECTION, "db", "coll")),
        ("/db/coll/", Resource(T.COLLECTION, "db", "coll")),
        ("/db/coll/_size", Resource(T.SIZE, "db", "coll")),
        ("/db/coll/_meta", Resource(T.METADATA, "db", "coll")),
        ("/db/coll/id", Resource(T.DOCUMENT, "db", "coll", "id")),
        ("/db/coll/a%2Fb", Resource(T.DOCUMENT, "db", "coll", "a/b")),
        ("/db/coll/*", Resource(T.BULK, "db", "coll")),
        ("/db/coll/_indexes", Resource(T.INDEXES, "db", "coll")),
        ("/db/coll/_indexes/name", Resource(T.INDEX, "db", "coll", "name")),
        ("/db/coll/_aggrs/name", Resource(T.AGGREGATION, "db", "coll", "name")),
        ("/db/coll/_aggrs", Resource(T.AGGREGATION, "db", "coll")),
        ("/db/coll/_streams", Resource(T.STREAMS, "db", "coll")),
        ("/db/coll/_streams/name", Resource(T.STREAM, "db", "coll", "name")),
        ("/db/_schemas", Resource(T.SCHEMA_STORE, "db", "_schemas")),
        ("/db/_schemas/id", Resource(T.SCHEMA, "db", "_schemas", "id")),
        ("/db/_schemas/_size", Resource(T.SIZE, "db", "_schemas")),
        ("/db/_schemas/_meta", Resource(T.METADATA, "db", "_schemas")),
        ("/db/coll/id/more", None),
        ("/db/_schemas/_indexes/name", None),
        ("/db/coll/_indexes/name/more", None),
    ],
)
def test_paths_address_resources(path: str, expected: Resource | None) -> None:
    assert _resolve(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/_SIZE",
        "/_Sessions",
        "/db/_Size",
        "/db/_META",
        "/db/_Schemas",
        "/db/coll/_SIZE",
        "/db/coll/_Meta",
        "/db/coll/_Indexes",
        "/db/coll/_AGGRS",
        "/db/coll/_Streams",
        "/db/_schemas/_SIZE",
    ],
)
def test_reserved_names_are_exact_and_other_spellings_refused(path: str) -> None:
    """Decision 39: a rule sees a path as it stands, and so does the service."""
    resource = _resolve(path)

    assert resource is not None
    with pytest.raises(ReservedResource, match="is written in lower case"):
        check_names(resource)


@pytest.mark.parametrize("path", ["/db/coll/_AGGRS/x", "/db/coll/_INDEXES/x", "/db/_SCHEMAS/a/b"])
def test_nothing_is_below_a_reserved_name_in_another_spelling(path: str) -> None:
    assert _resolve(path) is None


def test_the_default_mount_serves_one_database_at_the_root() -> None:
    assert _resolve("/", DEFAULT) == Resource(T.DATABASE, "docgraph")
    assert _resolve("/_size", DEFAULT) == Resource(T.SIZE, "docgraph")
    assert _resolve("/gql-apps", DEFAULT) == Resource(T.COLLECTION, "docgraph", "gql-apps")
    assert _resolve("/c/d", DEFAULT) == Resource(T.DOCUMENT, "docgraph", "c", "d")


def test_the_longest_mount_wins() -> None:
    mounts = (
        MongoMount(what="*", where="/"),
        MongoMount(what="/one", where="/a"),
        MongoMount(what="/two/coll", where="/a/b"),
        MongoMount(what="/two/coll/doc", where="/a/b/c"),
    )

    assert _resolve("/x/y", mounts) == Resource(T.COLLECTION, "x", "y")
    assert _resolve("/a/x", mounts) == Resource(T.COLLECTION, "one", "x")
    assert _resolve("/a/b", mounts) == Resource(T.COLLECTION, "two", "coll")
    assert _resolve("/a/b/x", mounts) == Resource(T.DOCUMENT, "two", "coll", "x")
    assert _resolve("/a/b/c", mounts) == Resource(T.DOCUMENT, "two", "coll", "doc")
    assert _resolve("/a/b/c/d", mounts) is None


def test_a_path_without_a_mount_is_nothing() -> None:
    mounts = (MongoMount(what="/db", where="/data"),)

    assert _resolve("/", mounts) is None
    assert _resolve("/database", mounts) is None
    assert _resolve("/data", mounts) == Resource(T.DATABASE, "db")


def test_mounts_stand_below_the_uri_of_the_service() -> None:
    assert _resolve("/api/v1/coll", DEFAULT, "/api/v1") == Resource(
        T.COLLECTION, "docgraph", "coll"
    )
    assert _resolve("/coll", DEFAULT, "/api/v1") is None


def test_a_template_gives_its_variables_to_what_it_mounts() -> None:
    mounts = (
        MongoMount(what="/tenant-{tenant}", where="/{tenant}/*"),
        MongoMount(what="/shared/{name}", where="/shared/{name}"),
    )

    assert _resolve("/acme/coll", mounts) == Resource(T.COLLECTION, "tenant-acme", "coll")
    assert _resolve("/shared/news", mounts) == Resource(T.COLLECTION, "shared", "news")
    assert _resolve("/", mounts) is None


def test_a_template_can_use_the_host() -> None:
    mounts = (MongoMount(what="/{host[0]}-{x}", where="/{x}"),)

    assert _resolve("/a/c", mounts, host="acme.example.org:8080") == Resource(
        T.COLLECTION, "acme-a", "c"
    )
    assert _resolve("/a/c", mounts, host="") is None


def test_the_host_alone_can_choose_the_database() -> None:
    mounts = (MongoMount(what="/{host[0]}", where="/"),)

    assert _resolve("/c", mounts, host="acme.example.org") == Resource(T.COLLECTION, "acme", "c")
    assert _resolve("/", mounts, host="acme.example.org") == Resource(T.DATABASE, "acme")


@pytest.mark.parametrize(
    "mounts",
    [
        (MongoMount(what="/a", where="/{x}"), MongoMount(what="/b", where="/b")),
        (MongoMount(what="/{y}", where="/{x}"),),
        (MongoMount(what="/a", where="/x"), MongoMount(what="/b", where="/x/")),
    ],
)
def test_mounts_that_cannot_work_stop_the_start(mounts: tuple[MongoMount, ...]) -> None:
    with pytest.raises(StartupError):
        Mounts(mounts)


@pytest.mark.parametrize(
    "resource",
    [
        Resource(T.DATABASE, "admin"),
        Resource(T.COLLECTION, "Config", "x"),
        Resource(T.DATABASE, "LOCAL"),
        Resource(T.DATABASE, "system.x"),
        Resource(T.COLLECTION, "db", "system.users"),
        Resource(T.COLLECTION, "db", "fs.chunks"),
        Resource(T.COLLECTION, "db", "_properties"),
        Resource(T.COLLECTION, "db", "_revocations"),
        Resource(T.COLLECTION, "db", "_digestNonces"),
        Resource(T.DOCUMENT, "db", "c", "_properties"),
        Resource(T.DOCUMENT, "db", "c", "_properties.c"),
    ],
)
def test_reserved_names_are_403(resource: Resource) -> None:
    with pytest.raises(ReservedResource) as caught:
        check_names(resource)

    assert (caught.value.status, caught.value.message) == (403, "reserved resource")


@pytest.mark.parametrize("name", ["a b", "a/b", "a\\b", "a.b", 'a"b', "a$b", "x" * 64])
def test_a_database_name_that_cannot_be_is_400(name: str) -> None:
    with pytest.raises(RequestError, match=r"^illegal database name"):
        check_names(Resource(T.DATABASE, name))


def test_a_collection_name_that_cannot_be_is_400() -> None:
    with pytest.raises(RequestError, match=r"^illegal collection name"):
        check_names(Resource(T.COLLECTION, "db", "a$b"))


def test_ordinary_names_pass() -> None:
    check_names(Resource(T.DOCUMENT, "db", "my.coll", "_propertiesx"))
    check_names(Resource(T.METADATA, "db", "c"))
