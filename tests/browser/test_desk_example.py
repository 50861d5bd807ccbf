"""`examples/desk` in a real browser, loaded and started by the commands of its README."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import MongoClient

from tests.databases import drop
from tests.process.commands import ROOT, run, start
from tests.programs import PATIENCE_MS, expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PASSWORDS = {"ada": "lovelace", "eve": "everest", "bob": "babbage"}
DATABASE = "docgraph"  # that of the example


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(ROOT / "examples/desk", tmp_path_factory.mktemp("desk") / "copy"))


@pytest.fixture
def url(
    browser: Browser,
    preloaded: None,
    example: Path,
    mongo_client: MongoClient[dict[str, Any]],
    mongo_uri: str,
) -> Iterator[str]:
    """The address of the example with its documents as they are in the file."""
    drop(mongo_client, DATABASE)
    settings = (f"/mclient/connection-string={mongo_uri}", "/logging/level=error")
    options = ["--config", str(example / "docgraph.yml"), *(f"--set={one}" for one in settings)]
    process = start("serve", *options, "--set=/http-listener/port=0")
    try:
        line = process.stdout.readline()
        assert line.startswith("docgraph ready http://127.0.0.1:"), process.communicate()
        loaded = run("examples", "desk", str(example), "--load", *options)
        assert loaded.returncode == 0, loaded.stderr
        yield line.split()[2].rstrip("/")
    finally:
        process.terminate()
        process.communicate()
        drop(mongo_client, DATABASE)


@contextmanager
def logged_in(browser: Browser, url: str, name: str) -> Iterator[Page]:
    """Open a window of its own, in which the user is logged in; nothing may go wrong in it."""
    mistakes: list[str] = []
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: mistakes.append(str(error)))
        page.goto(f"{url}/desk")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(PASSWORDS[name])
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("status").get_by_text(f"Online as {name}").wait_for()
        yield page
        assert mistakes == []


def expect_titles(page: Page, *titles: str) -> None:
    expect(page.locator("#tickets td:first-child")).to_have_text(list(titles))


def test_the_list_has_pages_in_both_directions(browser: Browser, url: str) -> None:
    with logged_in(browser, url, "bob") as page:
        expect_titles(page, "Projector needs a cable", "Order two chairs", "Desk lamp is broken")
        expect(page.get_by_role("button", name="Next")).to_be_disabled()
    with logged_in(browser, url, "ada") as page:
        expect(page.get_by_text("13 tickets")).to_be_visible()
        first = page.locator("#tickets td:first-child").all_inner_texts()
        page.get_by_role("button", name="Next").click()
        expect(page.locator("#tickets")).to_contain_text("Meeting room display is black")
        page.get_by_role("button", name="Next").click()
        expect_titles(page, *["Password of the wiki", "Laptop does not start"],
                      "Printer on the second floor is out of toner")  # fmt: skip
        page.get_by_role("button", name="Previous").click()
        expect(page.locator("#tickets")).to_contain_text("Meeting room display is black")
        page.get_by_role("button", name="Previous").click()
        expect_titles(page, *first)


def test_filters_apply_to_the_list(browser: Browser, url: str) -> None:
    with logged_in(browser, url, "ada") as page:
        page.get_by_label("Title contains").fill("key")
        expect_titles(page, "Keyboard with a broken key")
        page.get_by_label("Status").select_option("CLOSED")
        expect(page.get_by_text("0 tickets")).to_be_visible()
        page.get_by_label("Title contains").fill("")
        expect_titles(page, "Phone rings twice", "Mouse is missing", "Password of the wiki")


def test_changes_of_the_team_appear_and_those_of_others_do_not(browser: Browser, url: str) -> None:
    title = "<b>Printer</b> burns"
    with (
        logged_in(browser, url, "ada") as ada,
        logged_in(browser, url, "eve") as eve,
        logged_in(browser, url, "bob") as bob,
    ):
        ada.get_by_label("New ticket").fill(title)
        ada.get_by_role("button", name="Open ticket").click()
        row = eve.get_by_role("row").filter(has_text=title)
        expect(row).to_contain_text("ada")
        row.get_by_role("button", name="Close").click()
        changed = ada.get_by_role("row").filter(has_text=title)
        expect(changed.get_by_role("button", name="Reopen")).to_be_visible()
        expect(changed).to_contain_text("eve")
        expect(ada.get_by_text("14 tickets")).to_be_visible()
        expect(bob.get_by_text("3 tickets")).to_be_visible()


def test_a_login_survives_a_reload_and_ends_with_the_logout(browser: Browser, url: str) -> None:
    with logged_in(browser, url, "ada") as page:
        page.reload()
        page.get_by_role("status").get_by_text("Online as ada").wait_for()
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("status").get_by_text("Not logged in").wait_for()
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill("guessed")
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("alert").get_by_text("Name or password are wrong.").wait_for()


def test_the_rules_refuse_what_the_page_does_not_send(browser: Browser, url: str) -> None:
    with logged_in(browser, url, "ada") as page:
        send = """([method, path, body]) => fetch(path, {method, body: JSON.stringify(body),
            headers: {"Content-Type": "application/json"}}).then(({status}) => status)"""
        of_another_team = "/tickets/00000000000000000000000f"
        refused = [
            page.evaluate(send, ["POST", "/tickets", {"title": "x", "team": "red"}]),
            page.evaluate(send, ["PATCH", of_another_team, {"status": "OPEN"}]),
            page.evaluate(send, ["PATCH", "/tickets/000000000000000000000001", {"title": "x"}]),
        ]
        assert refused == [403, 404, 403]
