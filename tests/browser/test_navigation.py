"""What a real browser sends decides who gets a page (decision 22)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.harness import Place, open_window
from tests.programs import OTHER_HOST

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
GRAPHQL = "application/graphql-response+json; charset=utf-8"
FETCH = """([path, method]) => fetch(path, {method, headers: {Accept: 'text/html'}})
    .then(reply => reply.headers.get('content-type'))"""
SUBMIT = """path => { const form = document.createElement('form'); form.method = 'post';
    form.action = path; document.body.append(form); form.submit(); }"""


@pytest.mark.parametrize("host", ["127.0.0.1", OTHER_HOST])
def test_a_browser_gets_a_page_for_what_it_navigates_and_for_nothing_else(
    browser: Browser, place: Place, host: str
) -> None:
    """`Sec-Fetch-Mode` is sent to loopback addresses, and not over plain http to another host."""
    url = place.url.replace("127.0.0.1", host)
    with open_window(browser, place) as window:
        page = window.page
        opened = page.goto(f"{url}/graphql/blog")
        assert opened is not None
        assert (opened.status, opened.headers["content-type"]) == (405, PAGE)
        assert ("sec-fetch-mode" in opened.request.all_headers()) == (host != OTHER_HOST)
        page.get_by_role("link", name="Ask this app in the console").wait_for()

        page.goto(f"{url}/ping")
        for method in ("GET", "HEAD", "POST"):
            assert page.evaluate(FETCH, ["/graphql/blog", method]) == GRAPHQL
        assert page.evaluate(FETCH, ["/%ff", "GET"]) == JSON

        with page.expect_response(lambda reply: reply.request.method == "POST") as posted:
            page.evaluate(SUBMIT, "/graphql/blog")
        assert (posted.value.status, posted.value.headers["content-type"]) == (400, GRAPHQL)
