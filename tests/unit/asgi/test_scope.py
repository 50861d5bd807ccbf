"""Paths below `root_path`, and the addresses of peers, as ASGI servers and hosts write them."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.asgi.scope import AsgiHead, find_path
from docgraph.exchange import Headers
from docgraph.server.proxies import TrustedProxies
from docgraph.server.settings import ServerSettings
from tests.unit.asgi.harness import make_scope

LIMITS = ServerSettings().limits


@pytest.mark.parametrize(
    ("root", "path", "raw", "expected"),
    [
        ("", "/a b/c", b"/a%20b/c", b"/a%20b/c"),
        ("", "/a/b", b"/a%2Fb", b"/a%2Fb"),  # an encoded slash stays one
        ("", "/ä", None, b"/%C3%A4"),
        ("/data", "/data/graphql/x", b"/data/graphql/x", b"/graphql/x"),
        ("/data", "/data", b"/data", b"/"),
        ("/data", "/data/a/b", b"/d%61ta/a%2Fb", b"/a%2Fb"),
        ("/data", "/data/data/x", b"/data/data/x", b"/data/x"),
        ("/data", "/database/x", b"/database/x", b"/database/x"),  # another path
        ("/data", "/graphql/x", b"/data/graphql/x", b"/graphql/x"),  # a host that cuts the path
        ("/data", "/graphql/x", b"/graphql/x", b"/graphql/x"),
        ("/a/b", "/a/b/c", b"/a/b/c", b"/c"),
        # The rules of a host have seen `path`: a `raw_path` that differs is not believed.
        ("", "/public", b"/secret", b"/public"),
        ("/data", "/data/public", b"/data/secret", b"/public"),
        ("", "/a", b"/a?x=1", b"/a"),
        ("/data", "/data/../x", b"/data/../x", b"/../x"),  # resolved below the root
    ],
)
def test_the_path_is_the_one_below_the_root(
    root: str, path: str, raw: bytes | None, expected: bytes
) -> None:
    """Routing, rules and `@request` see this path (decision 74)."""
    assert find_path(make_scope(path, raw_path=raw), root) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", ""), ("/", ""), ("/data", "/data"), ("/data/", "/data"), ("data", "/data")],
)
def test_links_begin_with_the_root(given: str, expected: str) -> None:
    assert AsgiHead(make_scope(root_path=given)).connection.root_path == expected


def test_a_root_that_looks_like_a_host_is_a_path() -> None:
    assert AsgiHead(make_scope(root_path="//evil.test")).connection.root_path == "/evil.test"
    root = AsgiHead(make_scope(root_path='/a"\r\nb')).connection.root_path
    assert root == "/a%22%0D%0Ab"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 0),
        ({"headers": [(b"host", b"x"), (b"content-length", b"3")]}, 3),
        ({"headers": [(b"host", b"x"), (b"transfer-encoding", b"chunked")]}, None),
        ({"http_version": "2"}, None),
        ({"http_version": "2", "headers": [(b"host", b"x"), (b"content-length", b"0")]}, 0),
    ],
)
def test_a_body_is_expected_where_the_protocol_may_have_one(
    values: dict[str, Any], expected: int | None
) -> None:
    assert AsgiHead(make_scope(**values)).check(LIMITS).length == expected


def test_blanks_around_a_value_are_no_part_of_it() -> None:
    """RFC 9110 5.5; uvicorn with `httptools` leaves those behind the value."""
    fields = [(b"host", b"x \t"), (b"content-length", b"3 "), (b"x-name", b" a b\t ")]
    head = AsgiHead(make_scope(headers=fields))
    assert head.check(LIMITS).length == 3
    assert head.headers[-1] == (b"x-name", b"a b")


def test_forwarded_headers_that_the_server_has_resolved_are_not_read_again() -> None:
    """A server that handles proxies sets port 0; `core.trusted-proxies` then has no effect (74)."""
    proxies = TrustedProxies(["10.0.0.0/8", "unix"])
    headers = Headers([(b"x-forwarded-for", b"6.6.6.6"), (b"x-forwarded-host", b"evil.test")])
    for client, expected in (
        (("10.0.0.1", 4000), "6.6.6.6"),
        (("10.0.0.1", 0), "10.0.0.1"),
        (None, "6.6.6.6"),  # a Unix socket, which is trusted here
    ):
        peer = AsgiHead(make_scope(client=client)).connection.client
        caller, _ = proxies.resolve(peer, "http", headers)
        assert caller is not None
        assert caller[0] == expected
        is_believed = expected == "6.6.6.6"
        assert proxies.find_host(peer, headers) == ("evil.test" if is_believed else None)
