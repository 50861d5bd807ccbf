"""The address is the place: reload, Back and a link show the same, and a link runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tests.browser.harness import ADMIN, Window, open_window
from tests.browser.test_data import at, fill, open_data
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

QUERY = "query Named($n: Int) { posts(limit: $n) { title likes } }"
VARIABLES = '{"n": 3}'


def watch_queries(page: Page) -> list[Request]:
    """The queries that are sent from now on, except those for the schema."""
    sent: list[Request] = []

    def record(request: Request) -> None:
        body = request.post_data or ""
        if "/graphql/" in request.url and "__schema" not in body:
            sent.append(request)

    page.on("request", record)
    return sent


def test_the_page_of_a_collection_is_found_again(window: Window, browser: Browser) -> None:
    fill(window.place, "paged", *({"_id": n, "even": n % 2 == 0} for n in range(600)))
    open_data(window, at("paged"))
    page = window.page
    previous = page.get_by_role("button", name="Previous")
    window.write("Filter", "{even: true}")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("Documents 1 to 100", exact=True).wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("Documents 101 to 200", exact=True).wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("Documents 201 to 300", exact=True).wait_for()
    page.get_by_role("table").get_by_role("link", name="100", exact=True).click()
    page.get_by_role("heading", name="100").wait_for()

    def is_there() -> None:
        page.get_by_text("Documents 201 to 300", exact=True).wait_for()
        page.get_by_role("heading", name="100").wait_for()
        expect(page.get_by_role("textbox", name="Filter")).to_have_text("{even: true}")

    page.reload()
    is_there()
    page.get_by_role("link", name="Apps", exact=True).click()
    page.get_by_role("heading", name="Apps").wait_for()
    page.go_back()
    is_there()
    previous.click()
    page.get_by_text("Documents 101 to 200", exact=True).wait_for()
    page.go_back()
    is_there()
    with open_window(browser, window.place) as other:
        other.page.goto(page.url)
        other.log_in(ADMIN)
        other.page.get_by_text("Documents 201 to 300", exact=True).wait_for()
        other.page.get_by_role("heading", name="100").wait_for()
        # A link does not know the pages before it; the first one is always known.
        expect(other.page.get_by_role("button", name="Previous")).to_be_disabled()
        other.page.get_by_role("button", name="First").click()
        other.page.get_by_text("Documents 1 to 100", exact=True).wait_for()


def test_a_query_is_found_again_and_a_link_runs_nothing(window: Window, browser: Browser) -> None:
    page = window.page
    sent = watch_queries(page)
    link = urlencode({"query": QUERY, "variables": VARIABLES, "view": "table"})
    window.open(f"/ask/blog#{link}")
    page.get_by_role("tab", name="Named").wait_for()
    expect(page.get_by_role("textbox", name="Variables")).to_contain_text('"n": 3')
    assert sent == []
    page.get_by_role("button", name="Run").click()
    page.get_by_role("region", name="Rows of posts").wait_for()
    page.get_by_role("button", name="Text", exact=True).click()
    page.get_by_label("Answer as text").wait_for()
    window.write("Variables", '{"n": 4}')
    changed = urlencode({"query": QUERY, "variables": '{"n": 4}', "view": "text"})
    page.wait_for_url(lambda url: url.endswith(f"#{changed}"))

    page.get_by_role("button", name="New query").click()
    window.write("Query", "query Other { authors { name } }")
    page.wait_for_url(lambda url: "Other" in url)
    page.go_back()
    expect(page.get_by_role("textbox", name="Query")).to_contain_text("Named")
    address = page.url
    sent.clear()
    page.reload()
    expect(page.get_by_role("textbox", name="Query")).to_contain_text("Named")
    expect(page.get_by_role("tablist", name="Queries").get_by_role("tab")).to_have_count(2)
    with open_window(browser, window.place) as other:
        theirs = watch_queries(other.page)
        other.page.goto(address)
        expect(other.page.get_by_role("textbox", name="Variables")).to_contain_text('"n": 4')
        other.page.get_by_role("tab", name="Named").wait_for()
        assert theirs == []
        other.page.get_by_role("button", name="Run").click()
        other.page.get_by_label("Answer as text").wait_for()
    assert sent == []


def test_the_tab_of_an_app_and_the_search_of_a_list_are_in_the_address(window: Window) -> None:
    open_data(window, "/apps/blog#changes")
    page = window.page
    page.get_by_role("tab", name="Changes", selected=True).wait_for()
    page.get_by_role("tab", name="Access", exact=True).click()
    page.wait_for_url(lambda url: url.endswith("/apps/blog#access"))
    page.go_back()
    page.get_by_role("tab", name="Changes", selected=True).wait_for()

    window.open("/access/rules")
    page.get_by_role("searchbox", name="Find rules").fill("everybody")
    page.wait_for_url(lambda url: url.endswith("/access/rules#find=everybody"))
    page.get_by_role("link", name="everybody").click()
    page.get_by_role("button", name="Close").click()
    page.reload()
    expect(page.get_by_role("searchbox", name="Find rules")).to_have_value("everybody")
    page.get_by_role("link", name="everybody").wait_for()
