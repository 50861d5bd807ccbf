"""The frame of the console in a real browser: in and out, and what holds for every page."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx2
import pytest

from tests.browser.harness import (
    ADMIN,
    HOSTILE,
    PASSWORD,
    READER,
    Place,
    Window,
    open_window,
    placed,
)
from tests.http.harness import Document, Mongo
from tests.http.realms import render_basic
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COOKIES = {
    "authCookieSetter": {"enabled": True, "secure": False},
    "authCookieHandler": {"enabled": True},
    "authCookieRemover": {"enabled": True},
}
# Of pages that strangers are refused: what is there for an administrator alone.
ADMINS_PAGES = {
    "/data/posts": "Post 30",
    "/ask/vault": "posts with author",
    "/apps/vault": "No findings",
    "/status": "Requests",
}
WITHOUT_RIGHTS = {"ownRights": {"enabled": False}}  # the page tries what a stranger may not do
# Refusals, and the rights of a stranger, come when the page shows that somebody is logged in.
LATE_ANSWERS = """
    const late = [], send = window.fetch;
    const isIn = () =>
        [...document.querySelectorAll("button")].some(one => one.textContent === "Log out");
    const release = () => { if (isIn()) late.splice(0).forEach(come => come()); };
    const show = state => document.documentElement.dataset.late = state;
    window.fetch = async (...request) => {
        const isStranger = !isIn();
        const answer = await send(...request);
        const isRights = isStranger && new URL(answer.url).pathname === "/_tools/rights";
        if (answer.status !== 401 && !isRights) return answer;
        show(answer.status === 401 ? "refusal" : "rights");
        await new Promise(come => { late.push(come); release(); });
        show("told");
        return answer;
    };
    new MutationObserver(release)
        .observe(document, {childList: true, subtree: true, characterData: true});
"""


def test_people_log_in_see_who_they_are_and_log_out(window: Window) -> None:
    window.open()
    window.page.get_by_text("Not logged in").wait_for()
    window.log_in(READER)

    banner = window.page.get_by_role("banner")
    banner.get_by_text(READER, exact=True).wait_for()
    expect(banner.get_by_role("list", name="Roles")).to_have_text("reader")

    window.page.get_by_role("button", name="Log out").click()
    window.page.get_by_text("Not logged in").wait_for()


def test_the_password_is_never_kept_and_the_token_ends_with_logging_out(window: Window) -> None:
    window.open()
    window.log_in(READER)
    with window.page.expect_request(lambda one: one.method == "DELETE") as ending:
        kept = stored(window)
        window.page.get_by_role("button", name="Log out").click()
    window.page.get_by_text("Not logged in").wait_for()

    sent = ending.value.headers["authorization"]
    token = b64decode(sent.removeprefix("Basic ")).decode().removeprefix(f"{READER}:")
    assert token != PASSWORD, "a token is sent instead of the password"
    assert PASSWORD not in kept
    assert render_basic(READER, PASSWORD) not in kept
    assert sent not in window.page.evaluate("JSON.stringify(Object.entries(localStorage))")
    assert not [one for one in (sent, PASSWORD, READER) if one in stored(window)]
    script = """async sent => (await fetch('/roles/rita', {
        credentials: 'omit', headers: {Authorization: sent, 'No-Auth-Challenge': '1'}})).status"""
    assert window.page.evaluate(script, sent) == 401


def test_a_wrong_password_is_said_and_can_be_mended(window: Window) -> None:
    window.open()
    window.page.get_by_role("button", name="Log in").click()
    window.give_password(READER, "wrong")
    window.page.get_by_role("alert").get_by_text("Name or password is wrong").wait_for()

    window.give_password(READER, PASSWORD)
    window.page.get_by_role("button", name="Log out").wait_for()


def test_names_and_roles_with_markup_are_shown_as_text(window: Window) -> None:
    window.open()
    window.log_in(HOSTILE)

    banner = window.page.get_by_role("banner")
    banner.get_by_text(HOSTILE).first.wait_for()
    banner.get_by_text("Blog & <b>more</b>").wait_for()
    expect(window.page.locator("img, b")).to_have_count(0)


def test_an_expired_login_is_said_and_the_work_stays(window: Window) -> None:
    window.page.clock.install()
    window.open("/ask/blog")
    window.log_in(READER)
    editor = window.write("Query", "{ posts { likes } }")
    editor.press("End")  # somebody is there

    end_login(window, READER)
    window.page.clock.run_for("20:00")  # the page looks after its login before it ends

    dialog = window.page.get_by_role("dialog", name="Log in")
    dialog.get_by_text("Your login has ended").wait_for()
    window.give_password(READER, PASSWORD)
    window.page.get_by_role("button", name="Log out").wait_for()
    expect(editor).to_have_text("{ posts { likes } }")


def test_a_login_that_ends_before_the_schema_comes_gets_it_after_the_next(window: Window) -> None:
    window.open("/ask/blog")
    page = window.page
    page.get_by_text("200", exact=True).wait_for()  # the example has run
    page.route("**/graphql/blog", lambda route: route.fulfill(status=401))
    page.get_by_role("button", name="Log in").click()
    window.give_password(READER, PASSWORD)
    page.get_by_role("dialog").get_by_text("Your login has ended").wait_for()
    page.get_by_text("This app needs a login").wait_for()
    page.unroute("**/graphql/blog")
    window.give_password(READER, PASSWORD)
    page.get_by_role("button", name="Log out").wait_for()
    page.get_by_role("group", name="Examples").wait_for()  # they are made from the schema
    expect(page.get_by_text("This app needs a login")).to_have_count(0)


@pytest.mark.parametrize(("path", "told"), ADMINS_PAGES.items())
def test_late_rights_of_a_stranger_are_not_those_of_the_next_caller(
    window: Window, path: str, told: str
) -> None:
    log_in_before_the_answer(window, "rights", path, told)


@pytest.mark.parametrize("cookies", [{}, COOKIES], ids=["token", "cookie"])
def test_a_late_refusal_of_what_a_stranger_asked_ends_no_login(
    browser: Browser, mongo_client: Mongo, mongo_uri: str, cookies: Document
) -> None:
    with placed(mongo_client, mongo_uri, WITHOUT_RIGHTS, cookies) as place:
        for path, told in ADMINS_PAGES.items():
            with open_window(browser, place) as window:
                log_in_before_the_answer(window, "refusal", path, told)


def log_in_before_the_answer(window: Window, held: str, path: str, told: str) -> None:
    """Open a page as a stranger, and see it as an administrator in spite of the late answer."""
    window.page.add_init_script(LATE_ANSWERS)
    window.open(path)
    window.page.locator(f"html[data-late={held}]").wait_for()
    window.log_in()
    window.page.locator("html[data-late=told]").wait_for()

    window.page.get_by_text(told).first.wait_for()
    window.page.get_by_role("button", name="Log out").wait_for()
    expect(window.page.get_by_role("dialog")).to_have_count(0)


def test_a_login_by_cookie_survives_a_reload_and_no_script_sees_it(
    browser: Browser, mongo_client: Mongo, mongo_uri: str
) -> None:
    with placed(mongo_client, mongo_uri, COOKIES) as place, open_window(browser, place) as window:
        window.open()
        window.log_in(READER)
        assert READER in stored(window)
        assert PASSWORD not in stored(window)
        assert window.page.evaluate("document.cookie") == ""
        window.page.reload()
        window.page.get_by_role("banner").get_by_text(READER, exact=True).wait_for()

        window.page.get_by_role("button", name="Log out").click()
        window.page.get_by_text("Not logged in").wait_for()
        window.page.reload()
        window.page.get_by_text("Not logged in").wait_for()
        assert READER not in stored(window)


def test_the_keyboard_alone_is_enough_to_log_in_and_move_about(window: Window) -> None:
    window.open("/apps")
    window.page.get_by_role("link", name="Apps", exact=True).wait_for()
    press = window.page.keyboard.press
    press("Tab")
    assert focused(window) == "Skip to content"
    press("Enter")
    assert window.page.evaluate("document.activeElement.id") == "main"
    link = window.page.get_by_role("link", name="Ask", exact=True).first
    link.focus()
    press("Tab")
    assert focused(window) == "Apps"
    press("Shift+Tab")
    press("Enter")
    link.and_(window.page.locator("[aria-current=page]")).wait_for()

    window.page.get_by_role("button", name="Log in").focus()
    press("Enter")
    window.page.get_by_role("dialog").wait_for()
    press("Escape")
    window.page.get_by_role("dialog").wait_for(state="detached")
    assert focused(window) == "Log in"
    press("Enter")
    window.page.keyboard.type(READER)
    press("Tab")
    window.page.keyboard.type(PASSWORD)
    press("Enter")
    window.page.get_by_role("button", name="Log out").wait_for()
    expect(window.page.get_by_role("main")).to_be_focused()


def test_axe_finds_nothing_serious_on_any_screen(window: Window) -> None:
    window.open()
    window.page.get_by_role("heading", level=1).wait_for()
    assert window.find_barriers_on_any_screen() == []
    window.page.get_by_role("button", name="Log in").click()
    window.page.get_by_role("dialog").wait_for()
    assert window.find_barriers_on_any_screen() == []
    window.give_password(ADMIN, PASSWORD)
    window.page.get_by_role("button", name="Log out").wait_for()
    assert window.find_barriers_on_any_screen() == []


def test_nothing_is_wider_than_a_narrow_screen(browser: Browser, place: Place) -> None:
    with open_window(browser, place, viewport={"width": 360, "height": 640}) as window:
        window.open()
        window.log_in(HOSTILE)
        for name in ("Apps", "Ask"):
            window.page.get_by_role("link", name=name, exact=True).click()
            window.page.get_by_role("heading", level=1).wait_for()
            assert window.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_an_unknown_page_says_so(window: Window) -> None:
    window.open(f"/{quote(HOSTILE, safe='')}")
    window.page.get_by_role("heading", name="There is no such page").wait_for()


def stored(window: Window) -> str:
    """Everything that the browser keeps for the page, and scripts can read."""
    text: str = window.page.evaluate(
        "JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), "
        "document.cookie])"
    )
    return text


def focused(window: Window) -> str:
    """The text of what the keyboard acts on."""
    text: str = window.page.evaluate("document.activeElement.textContent")
    return text


def end_login(window: Window, name: str) -> None:
    """End the token of a user, as somebody else who knows the password."""
    headers = {"Authorization": render_basic(name, PASSWORD)}
    reply = httpx2.delete(f"{window.place.url}/tokens/{name}", headers=headers)
    assert reply.status_code == 204
