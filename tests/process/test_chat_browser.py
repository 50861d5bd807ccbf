"""`examples/chat` in a real browser: windows that talk to each other and miss nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from pymongo import MongoClient

from tests.databases import drop
from tests.process.chat import PASSWORDS, Speaker, run_chat
from tests.process.commands import Process
from tests.programs import PATIENCE_MS, expect, launched_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

SOCKET, SSE = "?by=websocket", "?by=sse"
DATABASE = "docgraph"  # that of the example


class Server:
    """The example, which can be stopped and started again on the same port and data.

    Its data is in the database of the tests: that is there at once, and stays when the server ends.
    """

    def __init__(self, directory: Path, uri: str) -> None:
        self._directory = directory
        self._database = f"/mclient/connection-string={uri}"
        self._running = ExitStack()
        self.process: Process
        self.url = ""
        self.start()

    def start(self) -> None:
        port = urlsplit(self.url).port or 0
        running = run_chat(self._directory, port, self._database)
        self.process, self.url = self._running.enter_context(running)

    def stop(self) -> None:
        self._running.close()


class Window:
    """A window of the browser with a login of its own; `mistakes` are what its console says."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.mistakes: list[str] = []
        page.on("pageerror", lambda error: self.mistakes.append(str(error)))

    def open(self, server: Server, name: str, by: str) -> None:
        self.page.goto(f"{server.url}/chat{by}")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(PASSWORDS[name])
        self.page.get_by_role("button", name="Log in").click()
        self.wait_status(f"Online as {name}")

    def say(self, text: str) -> None:
        self.page.get_by_label("Message", exact=True).fill(text)
        self.page.get_by_role("button", name="Send").click()

    def wait_status(self, text: str) -> None:
        self.page.get_by_role("status").get_by_text(text).wait_for()

    def wait_text(self, text: str) -> None:
        self.page.get_by_role("log").get_by_text(text, exact=True).wait_for()

    @property
    def messages(self) -> Locator:
        return self.page.locator("#messages li > div")

    def wait_last(self, *said: str) -> None:
        for back, text in enumerate(reversed(said), 1):
            last = self.page.locator(f"#messages li:nth-last-child({back}) > div")
            expect(last).to_have_text(text)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched_browser() as one:
        yield one


@pytest.fixture(scope="module")
def server(
    browser: Browser,
    commands_are_preloaded: None,
    mongo_client: MongoClient[dict[str, Any]],
    mongo_uri: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    drop(mongo_client, DATABASE)
    one = Server(tmp_path_factory.mktemp("chat") / "data", mongo_uri)
    yield one
    one.stop()
    drop(mongo_client, DATABASE)


@contextmanager
def window(browser: Browser, server: Server, name: str, by: str) -> Iterator[Window]:
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE_MS)
        one = Window(context.new_page())
        one.open(server, name, by)
        yield one
        assert one.mistakes == []


@pytest.mark.parametrize("by", [SOCKET, SSE])
def test_two_windows_talk_to_each_other(browser: Browser, server: Server, by: str) -> None:
    with window(browser, server, "ada", by) as ada, window(browser, server, "bob", by) as bob:
        ada.say(f"hello bob {by}")
        bob.wait_text(f"hello bob {by}")
        bob.say(f"<b>hello</b> ada {by}")
        ada.wait_text(f"<b>hello</b> ada {by}")
        said = [f"hello bob {by}", f"<b>hello</b> ada {by}"]
        ada.wait_last(*said)
        bob.wait_last(*said)


def test_a_window_that_is_reloaded_misses_nothing(browser: Browser, server: Server) -> None:
    bob = Speaker(server.url, "bob")
    with window(browser, server, "ada", SOCKET) as ada:
        said = [f"around the reload {number}" for number in range(5)]
        bob.say(said[0])
        ada.wait_text(said[0])
        bob.say(said[1])
        bob.say(said[2])
        ada.page.reload()
        bob.say(said[3])
        ada.wait_status("Online as ada")
        bob.say(said[4])
        expect(ada.messages.filter(has_text="around the reload")).to_have_text(said)


@pytest.mark.parametrize("by", [SOCKET, SSE])
def test_a_window_without_network_says_so_and_catches_up(
    browser: Browser, server: Server, by: str
) -> None:
    bob = Speaker(server.url, "bob")
    with window(browser, server, "ada", by) as ada:
        said = [f"without network {by} {number}" for number in range(9)]
        bob.say(said[0])
        ada.wait_text(said[0])
        ada.page.context.set_offline(True)
        ada.wait_status("Offline")
        for text in said[1:]:
            bob.say(text)
        ada.wait_last(said[0])
        ada.page.context.set_offline(False)
        ada.wait_last(*said)


def test_windows_come_back_by_themselves_when_the_server_does(
    browser: Browser, server: Server
) -> None:
    with window(browser, server, "ada", SOCKET) as ada, window(browser, server, "bob", SSE) as bob:
        ada.say("before the end")
        bob.wait_text("before the end")
        server.stop()
        ada.wait_status("Offline")
        bob.wait_status("Offline")
        ada.say("into the void")
        ada.page.get_by_role("alert").get_by_text("The server cannot be reached.").wait_for()
        server.start()
        ada.wait_status("Online as ada")
        bob.wait_status("Online as bob")
        ada.say("after the beginning")
        bob.wait_text("after the beginning")
        bob.wait_last("before the end", "after the beginning")


def test_earlier_messages_are_shown_on_demand(browser: Browser, server: Server) -> None:
    said = [f"one of twelve, {number}" for number in range(12)]
    bob = Speaker(server.url, "bob")
    for text in said:
        bob.say(text)
    with window(browser, server, "ada", SOCKET) as ada:
        ada.wait_text(said[-1])
        ada.page.get_by_text("The latest 5 of").wait_for()
        expect(ada.messages).to_have_text(said[-5:])
        for oldest in (said[2], said[0]):
            ada.page.get_by_role("button", name="Show earlier ones").click()
            ada.wait_text(oldest)
        ada.wait_last(*said)


def test_a_wrong_password_is_told_and_a_logout_leads_to_the_login(
    browser: Browser, server: Server
) -> None:
    with window(browser, server, "ada", SOCKET) as ada:
        ada.page.get_by_role("button", name="Log out").click()
        ada.wait_status("Not logged in")
        ada.page.get_by_label("Name").fill("ada")
        ada.page.get_by_label("Password").fill("guessed")
        ada.page.get_by_role("button", name="Log in").click()
        ada.page.get_by_role("alert").get_by_text("Name or password are wrong.").wait_for()
        expect(ada.messages).to_have_count(0)
