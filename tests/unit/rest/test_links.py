"""Addresses in answers."""

from __future__ import annotations

import pytest

from docgraph.exchange import Connection, Headers, Request
from docgraph.exchange.path import encode_path
from docgraph.rest.links import build_location, document_path, next_page


def _request(path: bytes = b"/things", query: bytes = b"", host: str | None = "h:1") -> Request:
    headers = Headers.of(host=host) if host is not None else Headers()
    connection = Connection(server=("127.0.0.1", 80), scheme="https")
    return Request("GET", path, query_string=query, headers=headers, connection=connection)


def test_an_address_is_where_the_client_found_us() -> None:
    assert build_location(_request(), "/a", None) == "https://h:1/a"
    assert build_location(_request(host=None), "/a", None) == "https://127.0.0.1:80/a"


@pytest.mark.parametrize("base", ["https://api.example.org/x", "https://api.example.org/x/"])
def test_the_configured_address_wins(base: str) -> None:
    assert build_location(_request(), "/a", base) == "https://api.example.org/x/a"


def test_a_host_cannot_write_into_the_header() -> None:
    assert "\r" not in build_location(_request(host="h\r\nX: 1"), "/a", None)


def test_paths_are_encoded() -> None:
    assert encode_path(("a b", "c/d")) == "/a%20b/c%2Fd"
    assert document_path(("things",), 7) == "/things/7?id_type=NUMBER"
    assert document_path(("things",), {"a": 1}) is None


def test_the_next_page_changes_one_parameter() -> None:
    name, value = next_page(_request(query=b"page=2&pagesize=5&filter=%7Ba%3A1%7D"), after="T")

    assert name == "Link"
    assert value == '</things?filter=%7Ba%3A1%7D&pagesize=5&after=T>; rel="next"'
