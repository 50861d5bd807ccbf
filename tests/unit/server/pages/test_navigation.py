"""Decision 22: a page only for GET and HEAD that a browser navigates."""

from __future__ import annotations

import pytest

from docgraph.exchange import Headers, Request
from docgraph.server.pages.error_page import is_navigation

# What Chromium 156 sends when a person opens an address.
CHROMIUM = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/jxl,image/avif,image/webp,"
    "image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"
)
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
JAVA = "text/html, image/gif, image/jpeg, */*; q=0.2"  # HttpURLConnection of Java 17, by default
UPGRADE = {"upgrade-insecure-requests": "1"}
NAVIGATE = {"sec-fetch-mode": "navigate", "sec-fetch-site": "none", "sec-fetch-dest": "document"}
FETCH = {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin", "sec-fetch-dest": "empty"}


def request(method: str, fields: dict[str, str]) -> Request:
    raw = [(name.encode(), value.encode()) for name, value in fields.items()]
    return Request(method, b"/", headers=Headers(raw))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "fields",
    [
        {**NAVIGATE, **UPGRADE, "accept": CHROMIUM},
        {**NAVIGATE, "sec-fetch-dest": "iframe", "accept": CHROMIUM},
        {**NAVIGATE, "accept": "*/*"},
        {"sec-fetch-mode": "navigate"},
        {**UPGRADE, "accept": CHROMIUM},
        {**UPGRADE, "accept": FIREFOX},
        {**UPGRADE, "accept": "TEXT/HTML; charset=utf-8"},
    ],
)
def test_a_navigation_gets_a_page(method: str, fields: dict[str, str]) -> None:
    assert is_navigation(request(method, fields))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"accept": "*/*"},
        {"accept": JAVA},
        {"accept": CHROMIUM},
        {"accept": "text/html"},
        {**FETCH, "accept": "*/*"},
        {**FETCH, **UPGRADE, "accept": "text/html"},
        {"sec-fetch-site": "none", **UPGRADE, "accept": CHROMIUM},
        {"sec-fetch-dest": "document", **UPGRADE, "accept": CHROMIUM},
        {"sec-fetch-mode": "Navigate"},
        {"sec-fetch-mode": "navigate, cors"},
        {**UPGRADE},
        {**UPGRADE, "accept": "application/json, */*"},
        {**UPGRADE, "accept": "text/html;q=0"},
        {**UPGRADE, "accept": "text/htmlx"},
        {"upgrade-insecure-requests": "0", "accept": CHROMIUM},
        {"upgrade-insecure-requests": "", "accept": CHROMIUM},
    ],
)
def test_any_other_request_gets_the_format_of_its_service(fields: dict[str, str]) -> None:
    assert not is_navigation(request("GET", fields))


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW", ""])
def test_only_get_and_head_get_a_page(method: str) -> None:
    assert not is_navigation(request(method, {**NAVIGATE, **UPGRADE, "accept": CHROMIUM}))


def test_a_mode_that_is_given_twice_is_none() -> None:
    twice = Headers([(b"Sec-Fetch-Mode", b"navigate"), (b"Sec-Fetch-Mode", b"cors")])
    assert not is_navigation(Request("GET", b"/", headers=twice))


def test_several_accept_headers_count_as_one() -> None:
    raw = [
        (b"Accept", b"image/png"),
        (b"Accept", b"text/html"),
        (b"upgrade-insecure-requests", b"1"),
    ]
    assert is_navigation(Request("GET", b"/", headers=Headers(raw)))
