"""The Status page in a real browser: figures that agree with what was asked, or why not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.browser.harness import (
    ADMIN,
    PASSWORD,
    READER,
    SCHEMA,
    Place,
    Window,
    open_window,
    placed,
)
from tests.browser.test_live import declare, rows
from tests.http.harness import Mongo
from tests.http.realms import render_basic
from tests.process.harness import eventually
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, ViewportSize

ASKED, WRONG = 7, 3
SHARES = (0.5, 0.95, 0.99)
# In one moment: between two questions to the page it can be drawn anew.
STANDS_BESIDE_ITS_CHOICE = """label => {
    const [own, choice] = [label, label.control].map(one => one.getBoundingClientRect());
    return choice.top < own.top && own.top < choice.bottom;
}"""


def ask(place: Place, body: dict[str, object], times: int, app: str = "watched") -> None:
    """Ask the app of these tests, as an administrator."""
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    for _ in range(times):
        httpx2.post(f"{place.url}/graphql/{app}", json=body, headers=headers)


def define(place: Place, app: str = "watched", operation: str = "titles") -> None:
    """An app that nobody else asks, with a stored operation."""
    mappings = {"Query": {"posts": place.find("posts", {})}}
    operations = [{"name": operation, "description": "Titles", "query": "{ posts { title } }"}]
    place.define(app, SCHEMA, mappings, operations=operations)


def read_quantiles(place: Place) -> list[float]:
    """Milliseconds within which shares of the stored operation were done, as Prometheus says."""
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    text = httpx2.get(f"{place.url}/metrics", headers=headers).text
    name = "docgraph_graphql_operation_duration_seconds"
    (family,) = (one for one in text_string_to_metric_families(text) if one.name == name)
    buckets = [
        (float(one.labels["le"]), one.value)
        for one in family.samples
        if one.name.endswith("_bucket") and one.labels["app"] == "watched"
    ]
    return [1000 * find_quantile(buckets, share) for share in SHARES]


def find_quantile(buckets: Iterable[tuple[float, float]], share: float) -> float:
    """Where in the first bucket that reaches the share, if those in it lie evenly."""
    known = [(0.0, 0.0), *buckets]
    rank = share * known[-1][1]
    for (begin, before), (end, count) in pairwise(known):
        if count >= rank:
            return begin + (end - begin) * (rank - before) / (count - before)
    raise AssertionError("nothing was asked")


def count_requests(place: Place, service: str = "", statuses: str = "") -> int:
    """Requests since the first point of the history, without those that the page itself sends."""
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    history = httpx2.get(f"{place.url}/metrics?history=true", headers=headers).json()
    before = history["points"][0]["values"]
    first = "".join(f"{name} {value}\n" for name, value in before.items())
    now = httpx2.get(f"{place.url}/metrics", headers=headers).text
    totals = [
        sum(
            int(one.value)
            for family in text_string_to_metric_families(text)
            for one in family.samples
            if one.name == "docgraph_http_requests_total"
            and one.labels["service"] not in ("metrics", "database-probe")
            and service in ("", one.labels["service"])
            and one.labels["status"].startswith(statuses)
        )
        for text in (first, now)
    ]
    return totals[1] - totals[0]


def read_ms(text: str) -> float:
    """The milliseconds of a time on the page."""
    number, unit = text.split()
    return float(number) * {"ms": 1, "s": 1000}[unit]


def cells(window: Window, table: str, name: str) -> Locator:
    """The cells of a row that begins with, or has, this name."""
    found = window.page.get_by_role("region", name=table).get_by_role("row", name=name)
    return found.get_by_role("cell")


def test_the_figures_agree_with_what_was_asked(window: Window) -> None:
    define(window.place)
    ask(window.place, {"operation": "none"}, 1)  # the app is there from now on
    window.open("/status")
    window.log_in()
    page = window.page
    page.get_by_text("which the page itself sends").wait_for()
    page.get_by_text("Instance ").first.wait_for()

    ask(window.place, {"operation": "titles"}, ASKED)
    ask(window.place, {"query": "{ nothing }"}, WRONG)
    requests = cells(window, "Requests, slowest first", "graphql")
    asked = count_requests(window.place, "graphql")
    assert asked >= ASKED + WRONG
    requests.nth(2).get_by_text(str(asked), exact=True).wait_for()
    expect(requests.nth(4)).to_have_text(str(count_requests(window.place, "graphql", "4")))
    expect(requests.nth(5)).to_have_text("0")

    operation = cells(window, "Stored operations, slowest first", "titles").all_inner_texts()
    assert operation[:3] == ["watched", "titles", str(ASKED)]
    shown = [read_ms(one) for one in operation[4:]]
    assert shown == pytest.approx(read_quantiles(window.place), rel=0.1, abs=0.1)
    cells(window, "Commands of the database, slowest first", "find").first.wait_for()
    expect(page.locator("canvas")).to_have_count(4)

    page.get_by_text("The charts as a table").click()
    moments = page.get_by_role("region", name="The charts as a table").get_by_role("row")
    moments.nth(1).wait_for()
    read = "rows => rows.slice(1).map(row => +row.cells[2].innerText)"
    eventually(
        lambda: sum(moments.evaluate_all(read)) == count_requests(window.place, statuses="4")
    )


def test_what_happened_before_the_page_was_opened_is_there(window: Window) -> None:
    define(window.place, "earlier", "headlines")
    ask(window.place, {"operation": "headlines"}, ASKED, "earlier")
    ask(window.place, {"query": "{ post(id: 7) { title } }"}, 1, "earlier")
    asked = count_requests(window.place, "graphql")
    assert asked >= ASKED + 1
    window.open("/status")
    window.log_in()
    count = cells(window, "Requests, slowest first", "graphql").nth(2)
    count.get_by_text(str(asked), exact=True).wait_for()
    operations = window.page.get_by_role("region", name="Operations, slowest first", exact=True)
    named = operations.get_by_role("row").filter(has_text="headlines").get_by_role("cell")
    expect(named.last).to_have_text("{ posts { title } }")
    unnamed = operations.get_by_role("row").filter(has_text="unnamed").get_by_role("cell")
    expect(unnamed.last).to_have_text("{ post(id: …) { title } }")
    tiles = window.page.locator(".status-tile")
    for name in ("Streams", "Cache hits", "Connections"):
        tiles.filter(has_text=name).wait_for()


def test_it_is_said_why_there_are_no_figures_and_how_the_database_is(
    browser: Browser, place: Place, mongo_client: Mongo, mongo_uri: str
) -> None:
    with open_window(browser, place) as window:
        window.open("/status")
        window.log_in(READER)
        page = window.page
        page.get_by_text("You may not read the metrics").wait_for()
        page.get_by_text("path('/metrics')").wait_for()
        database = page.locator(".status-tile", has_text="Database")
        database.get_by_text("up").wait_for()
        away = {"status": "error", "description": "gone fishing", "latencyMs": 3}
        page.route("**/health/db", lambda route: route.fulfill(status=503, json=away))
        page.get_by_role("alert").get_by_text("gone fishing").wait_for()
        database.get_by_text("unavailable").wait_for()
        page.unroute("**/health/db")
        database.get_by_text("up").wait_for()
    off = {"metrics": {"enabled": False}}
    with placed(mongo_client, mongo_uri, off) as other, open_window(browser, other) as window:
        window.open("/status")
        window.page.get_by_text("metrics.enabled").wait_for()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_axe_finds_nothing_serious_on_live_and_status_and_narrow_screens_are_enough(
    browser: Browser, place: Place, scheme: str, width: int
) -> None:
    collection = declare(place, "seen", {"uri": "all", "stages": []})
    viewport: ViewportSize = {"width": width, "height": 720}
    options = {"color_scheme": scheme, "viewport": viewport}
    with open_window(browser, place, **options) as window:
        window.open("/live")
        window.log_in()
        streams = window.page.get_by_role("list", name="Streams")
        streams.get_by_role("link", name="seen / all").wait_for()
        assert window.find_barriers() == []
        streams.get_by_role("link", name="seen / all").click()
        window.page.get_by_text("Connected since").wait_for()
        for narrow in (360, 400, 440):
            window.page.set_viewport_size({"width": narrow, "height": 720})
            assert window.page.get_by_text("Type", exact=True).evaluate(STANDS_BESIDE_ITS_CHOICE)
        window.page.set_viewport_size(viewport)
        collection.insert_one({"text": "long " * 50})
        rows(window).first.press("Enter")
        window.page.get_by_role("list", name="Event", exact=True).wait_for()
        assert window.find_barriers() == []
        assert window.page.evaluate("document.documentElement.scrollWidth") <= width

        window.page.get_by_role("link", name="Status", exact=True).click()
        window.page.get_by_text("The charts as a table").click()
        assert window.find_barriers() == []
        assert window.page.evaluate("document.documentElement.scrollWidth") <= width
