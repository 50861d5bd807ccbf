"""The Live page in a real browser: events as they come, and what is known after a break."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import httpx2
from bson import Decimal128

from tests.browser.harness import ADMIN, HOSTILE, PASSWORD, READER, Place, Window, open_window
from tests.browser.test_shell import end_login
from tests.http.realms import render_basic
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Route

KEPT = 500


def declare(place: Place, name: str, *streams: dict[str, Any]) -> Any:
    """A collection with these streams, declared as anybody would."""
    url = f"{place.url}/{quote(name, safe='')}"
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    reply = httpx2.put(url, json={"streams": list(streams)}, headers=headers)
    assert reply.status_code in (200, 201), reply.text
    return place.mongo[place.db][name]


def follow(window: Window, path: str, name: str = ADMIN) -> None:
    """Open a stream as somebody."""
    window.open(f"/live/{path}")
    window.log_in(name)
    window.page.get_by_text("Connected since").wait_for()


def rows(window: Window) -> Locator:
    """The events that are shown, newest first."""
    return window.page.get_by_role("list", name="Events").get_by_role("button", expanded=False)


def wait_for_count(window: Window, count: int) -> None:
    """Until so many events have come."""
    words = f"{count:,} {'event' if count == 1 else 'events'}"
    window.page.locator(".live-count", has_text=words).wait_for()


class Wire:
    """A way to a server that can be cut: what is open ends, and nothing new gets through."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.is_cut = False
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection."""
        self.is_cut = True
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """The end of it."""
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        for one in (self._listener, *self._open):
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                near, _ = self._listener.accept()
                if self.is_cut:
                    near.close()
                    continue
                far = socket.create_connection((self._target.hostname, self._target.port))
                self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # one of them has gone
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def wired(place: Place) -> Iterator[tuple[Place, Wire]]:
    """The same server, by a way that can be cut."""
    wire = Wire(place.url)
    try:
        yield Place(wire.url, place.mongo, place.db), wire
    finally:
        wire.close()


def test_events_come_with_their_types_and_a_pause_counts_what_came(window: Window) -> None:
    name = f"a/{HOSTILE}"
    collection = declare(window.place, name, {"uri": "all", "stages": []})
    window.open("/live")
    window.log_in()
    page = window.page
    page.get_by_role("list", name="Streams").get_by_role("link", name=f"{name} / all").click()
    page.get_by_text("Connected since").wait_for()
    page.get_by_role("heading", name="Waiting for events").wait_for()

    collection.insert_one({"_id": 1, HOSTILE: Decimal128("1.50")})
    collection.update_one({"_id": 1}, {"$set": {"n": 2.0}})
    wait_for_count(window, 2)
    expect(rows(window)).to_have_text([re.compile("update.*1.*n$"), re.compile("insert.*1$")])
    rows(window).last.click()
    tree = page.get_by_role("list", name="Event", exact=True)
    tree.get_by_text("Decimal128").wait_for()
    expect(tree.get_by_text(HOSTILE)).to_have_count(1)

    page.get_by_role("button", name="Pause").click()
    collection.insert_many({"_id": number} for number in range(2, 4))
    page.get_by_text("Paused: 2 events waiting").wait_for()
    expect(rows(window)).to_have_count(1)
    page.get_by_role("button", name="Resume").click()
    rows(window).nth(2).wait_for()

    page.get_by_label("Type").select_option("update")
    rows(window).nth(1).wait_for(state="detached")
    expect(rows(window)).to_have_count(1)
    page.get_by_label("Type").select_option("")
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("heading", name="Waiting for events").wait_for()
    collection.insert_many({"_id": number} for number in range(10, 10 + KEPT + 7))
    page.get_by_text(f"The newest {KEPT} are kept; 7 events dropped").wait_for()
    expect(page.locator("main img, main script, main b")).to_have_count(0)


def test_a_stream_without_variables_never_asks_for_them_not_even_before_it_is_described(
    window: Window,
) -> None:
    declare(window.place, "calm", {"uri": "all", "stages": []})
    held: list[Route] = []

    def hold(one: Route) -> None:
        held.append(one)

    window.page.route("**/openapi.json", hold)
    follow(window, "calm/_streams/all")
    expect(window.page.get_by_label("Variables")).to_have_count(0)

    with window.page.expect_response("**/openapi.json"):
        held.pop().continue_()
    expect(window.page.get_by_label("Variables")).to_have_count(0)


def test_after_a_cut_it_goes_on_after_the_last_event_and_says_what_is_missing(
    browser: Browser, place: Place
) -> None:
    collection = declare(place, "cut", {"uri": "all", "stages": []})
    with wired(place) as (reached, wire), open_window(browser, reached) as window:
        follow(window, "cut/_streams/all")
        collection.insert_one({"_id": "before"})
        wait_for_count(window, 1)
        wire.cut()
        window.page.get_by_text("There is no connection now").wait_for()
        collection.insert_one({"_id": "meanwhile"})
        wire.is_cut = False
        window.page.get_by_text("continued after the last event: nothing is missing").wait_for()
        wait_for_count(window, 2)
        expect(rows(window).first).to_contain_text("meanwhile")

        wire.cut()
        named = {"uri": "all", "stages": [{"$match": {"fullDocument.name": {"$exists": True}}}]}
        declare(place, "cut", named)  # the last event is not among those that this tells
        collection.insert_one({"_id": "missed", "name": "ada"})
        wire.is_cut = False
        window.page.get_by_text("The database no longer has the last event").wait_for()
        collection.insert_one({"_id": "after", "name": "bob"})
        wait_for_count(window, 3)
        expect(rows(window).first).to_contain_text("after")


def test_an_ended_login_is_said_and_the_stream_goes_on_after_the_next(window: Window) -> None:
    collection = declare(window.place, "ended", {"uri": "all", "stages": []})
    follow(window, "ended/_streams/all")
    collection.insert_one({"_id": "before"})
    wait_for_count(window, 1)
    end_login(window, ADMIN)
    window.page.get_by_role("dialog").get_by_text("Your login has ended").wait_for()
    collection.insert_one({"_id": "meanwhile"})
    window.give_password(ADMIN, PASSWORD)
    wait_for_count(window, 2)
    window.page.get_by_text("nothing is missing").wait_for()


def test_a_restricted_caller_follows_what_a_rule_opens_and_is_told_the_rest(
    window: Window,
) -> None:
    chosen = {"$match": {"fullDocument.from": {"$var": "from"}}}
    streams = ({"uri": "open", "stages": [chosen]}, {"uri": "closed", "stages": []})
    collection = declare(window.place, "guarded", *streams)
    rule = {"_id": "live", "predicate": "path-prefix('/guarded/_streams/open')"}
    rule |= {"roles": ["reader"], "mongo": {"readFilter": {"room": "blue"}}}  # type: ignore[dict-item]
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    reply = httpx2.post(f"{window.place.url}/acl?wm=upsert", json=rule, headers=headers)
    assert reply.status_code in (200, 201)
    window.open("/live")
    window.log_in(READER)
    page = window.page
    page.get_by_text("You may not list the streams").wait_for()
    page.get_by_label("Open by path").fill("guarded")
    page.get_by_role("button", name="Open", exact=True).click()
    listed = page.get_by_role("list", name="Streams").get_by_role("listitem")
    expect(listed).to_have_text(["openneeds from"])  # and not the one that is closed
    listed.get_by_role("link").click()
    page.get_by_text("Variable from not bound").wait_for()
    window.write("Variables", '{"from": "bob"}')
    page.get_by_role("button", name="Open with these").click()
    page.get_by_text("Connected since").wait_for()
    collection.insert_many(
        {"_id": f"{room} {name}", "room": room, "from": name}
        for room in ("red", "blue")
        for name in ("ann", "bob")
    )
    rows(window).get_by_text("blue bob").wait_for()
    expect(rows(window)).to_have_count(1)

    for path, said in (
        ("guarded/_streams/closed", "You may not read this stream"),
        ("guarded/_streams/open", "Variable from not bound"),
    ):
        page.get_by_role("link", name="Live").first.click()
        page.get_by_label("Open by path").fill(path)
        page.get_by_role("button", name="Open", exact=True).click()
        page.get_by_text(said).wait_for()


def test_the_list_opens_with_a_stream_that_runs(window: Window) -> None:
    collection = declare(window.place, "aaa", {"uri": "all", "stages": []})
    window.open("/live")
    window.log_in()
    page = window.page
    page.get_by_role("link", name="aaa / all").first.wait_for()
    running = page.get_by_role("region", name="Running stream")
    running.get_by_text("Connected since").wait_for()
    window.open("/live/aaa")  # other tests have streams of their own
    running.get_by_role("heading", name="aaa / all").wait_for()
    running.get_by_text("Connected since").wait_for()
    collection.insert_one({"_id": "seen at once"})
    wait_for_count(window, 1)
    running.get_by_role("button", name="Pause").click()
    collection.insert_one({"_id": "later"})
    running.get_by_text("Paused: 1 event waiting").wait_for()
    running.get_by_role("button", name="Resume").click()
    wait_for_count(window, 2)
    assert window.find_barriers() == []
