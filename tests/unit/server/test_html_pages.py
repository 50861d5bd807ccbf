"""Refusals as pages, for callers that are hard to be over HTTP."""

from __future__ import annotations

import pytest

from docgraph.exchange import Account, Body, DocgraphError, Exchange, Headers, Request
from docgraph.exchange.errors import Forbidden, InternalError, Overloaded, Unauthenticated
from docgraph.server.html_pages import VARY, is_navigation
from docgraph.server.serve import build_error_body, render_refusal

BASIC, BEARER = 'Basic realm="docgraph"', 'Bearer realm="docgraph"'


def reject(
    error: DocgraphError, method: str = "GET", account: Account | None = None
) -> tuple[Body, str]:
    request = Request(method, b"/x", headers=Headers([(b"Sec-Fetch-Mode", b"navigate")]))
    body = render_refusal(error, Exchange(request, "id", account=account))
    return body, body.content.decode().partition("</style>")[2]


@pytest.mark.parametrize(
    ("method", "challenge", "is_offered"),
    [("GET", BASIC, True), ("HEAD", BASIC, True), ("POST", BASIC, False), ("GET", BEARER, False)],
)
def test_a_login_is_offered_where_the_browser_would_ask_for_it(
    method: str, challenge: str, is_offered: bool
) -> None:
    error = Unauthenticated("who", headers=[("WWW-Authenticate", challenge)])
    body, text = reject(error, method)

    assert ("WWW-Authenticate", challenge) in body.headers
    assert (">Log in</a>" in text) is is_offered


def test_unknown_callers_who_are_vetoed_learn_nothing() -> None:
    _, text = reject(Forbidden("the origin is not allowed"))

    assert "origin" not in text
    assert "explain" not in text


def test_the_page_of_a_fault_has_its_id_and_what_waiting_needs() -> None:
    _, text = reject(InternalError("the request could not be handled", details={"id": "abc123"}))
    assert "abc123" in text
    body, text = reject(Overloaded("too many requests at a time"))
    assert ("Retry-After", "1") in body.headers
    assert "Try again in 1 s" in text


def test_names_that_steer_terminals_do_not_get_into_the_command() -> None:
    _, text = reject(Forbidden("no"), account=Account("a\x1b]0;b\u202e", (), {}))
    command = text.partition("<pre>")[2].partition("</pre>")[0]

    assert "--user=a" in command
    assert not {"\x1b", "\u202e"} & set(command)


def test_what_others_say_of_caching_and_framing_does_not_weaken_a_page() -> None:
    error = InternalError("x", headers=[("Cache-Control", "public"), ("Vary", "Origin")])
    body, _ = reject(error)

    assert [value for name, value in body.headers if name == "Cache-Control"] == ["no-store"]
    assert [value for name, value in body.headers if name == "Vary"] == ["Origin", VARY]
    assert build_error_body(error).headers == list(error.headers)


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
