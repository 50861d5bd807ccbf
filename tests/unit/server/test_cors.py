"""The table of CORS: who may read our answers, and with whose credentials (H06)."""

from __future__ import annotations

import pytest

from docgraph.exchange import Headers
from docgraph.server.respond import CorsPolicy, preflight_headers

ORIGIN = "https://app.example"


def _names(policy: CorsPolicy, origin: bytes | None) -> dict[str, str]:
    headers = Headers([(b"origin", origin)] if origin is not None else [])
    lines = (line.decode().rstrip("\r\n") for line in policy.find_lines(headers))
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


@pytest.mark.parametrize("origin", [None, b"https://anywhere.example", b"null"])
def test_without_a_list_everybody_may_call_without_credentials(origin: bytes | None) -> None:
    """Decision 21, and the option cors.allow-origins."""
    headers = _names(CorsPolicy(), origin)

    assert headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in headers
    assert "vary" not in headers


def test_a_listed_origin_is_echoed_with_credentials() -> None:
    headers = _names(CorsPolicy([ORIGIN]), ORIGIN.encode())

    assert headers["access-control-allow-origin"] == ORIGIN
    assert headers["access-control-allow-credentials"] == "true"
    assert headers["vary"] == "Origin"


@pytest.mark.parametrize(
    ("listed", "sent"),
    [
        ("https://App.Example", "https://app.example"),
        ("https://app.example:443", "https://app.example"),
        ("http://app.example:80", "http://app.example"),
        ("http://app.example:8080", "http://app.example:8080"),
        ("http://[2001:DB8::1]:80", "http://[2001:db8::1]"),
        ("chrome-extension://abc", "chrome-extension://abc"),
    ],
)
def test_an_origin_counts_as_browsers_spell_it_however_it_is_listed(listed: str, sent: str) -> None:
    headers = _names(CorsPolicy([listed]), sent.encode())

    assert headers["access-control-allow-origin"] == sent
    assert headers["access-control-allow-credentials"] == "true"


@pytest.mark.parametrize(
    "origin",
    [
        None,
        b"null",
        b"http://app.example",
        b"https://app.example.evil.example",
        b"https://evil-app.example",
        b"https://app.example:8443",
        b"https://app.example/",
        b"https://APP.example.",
        b"https://sub.app.example",
        b"",
    ],
)
def test_an_origin_that_only_resembles_a_listed_one_gets_nothing(origin: bytes | None) -> None:
    assert _names(CorsPolicy([ORIGIN]), origin) == {"vary": "Origin"}


@pytest.mark.parametrize(
    "name", ["Location", "ETag", "X-Total-Count", "X-Request-Id", "Auth-Token"]
)
def test_headers_that_clients_need_are_exposed(name: str) -> None:
    exposed = _names(CorsPolicy(), None)["access-control-expose-headers"]

    assert name in exposed.split(", ")


def test_a_preflight_names_methods_and_headers() -> None:
    headers = dict(preflight_headers(["GET", "POST"], ["X-Custom"]))

    assert headers["Access-Control-Allow-Methods"] == "GET, POST"
    allowed = headers["Access-Control-Allow-Headers"].split(", ")
    assert {"Authorization", "Content-Type", "No-Auth-Challenge", "X-Custom"} <= set(allowed)
