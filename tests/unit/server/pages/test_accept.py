"""Who gets a page: browsers, and nobody who would be content with JSON."""

from __future__ import annotations

import pytest

from docgraph.exchange import Headers
from docgraph.server.pages.accept import wants_page

FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CHROME = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;"
    "q=0.8,application/signed-exchange;v=b3;q=0.7"
)
OLD_SAFARI = (
    "application/xml,application/xhtml+xml,text/html;q=0.9,text/plain;q=0.8,image/png,*/*;q=0.5"
)


@pytest.mark.parametrize(
    "accept",
    [
        FIREFOX,
        CHROME,
        "text/html",
        "TEXT/HTML; charset=utf-8",
        "text/html, */*",
        "application/json;q=0.5, text/html",
        "text/html;q=0.5, */*;q=0.1",
        "text/html, text/event-stream",
        OLD_SAFARI,
    ],
)
def test_whoever_names_html_and_likes_nothing_better_gets_a_page(accept: str) -> None:
    assert wants_page(Headers.of(accept=accept))


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/*",
        "application/json",
        "application/json, text/plain, */*",
        "application/json, text/html",
        "text/html, application/graphql-response+json",
        "text/html;q=0.5, application/json",
        "text/html;q=0.5, */*",
        "text/html;q=0.5, application/*",
        "text/html;q=0",
        "text/html;q=nan",
        "text/html;q=much",
        "text/htmlx, xtext/html",
        "text/event-stream",
        "text/html;q=0.1, text/event-stream;q=0.9",
        "text/html;q=0.5, text/plain",
        "text/html;q=0.5, application/json;q=0.1, text/plain",
    ],
)
def test_everybody_else_gets_json(accept: str) -> None:
    assert not wants_page(Headers.of(accept=accept))


def test_without_the_header_it_is_json_and_several_count_as_one() -> None:
    assert not wants_page(Headers())
    assert not wants_page(Headers([(b"Accept", b"text/html"), (b"Accept", b"application/json")]))
    assert wants_page(Headers([(b"Accept", b"image/png"), (b"Accept", b"text/html")]))
