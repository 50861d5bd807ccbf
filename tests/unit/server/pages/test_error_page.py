"""Refusals as pages, for callers that are hard to be over HTTP."""

from __future__ import annotations

import pytest

from docgraph.exchange import Account, Body, DocgraphError, Exchange, Headers, Request
from docgraph.exchange.errors import Forbidden, InternalError, Overloaded, Unauthenticated
from docgraph.server.pages.error_page import VARY
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
