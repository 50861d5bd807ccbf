"""One login for all tabs and reloads, and two windows that never overwrite each other."""

from __future__ import annotations

from tests.browser.harness import ADMIN, READER, Window
from tests.browser.test_shell import end_login
from tests.programs import expect


def open_second(window: Window, path: str) -> Window:
    """A second tab of the same browser, in the same storage."""
    second = Window(window.page.context.new_page(), window.place, window.mistakes)
    second.open(path)
    return second


def wait_login(window: Window, name: str) -> None:
    window.page.get_by_role("banner").get_by_text(name, exact=True).wait_for()


def test_a_login_survives_a_reload_and_is_shared_with_a_new_tab(window: Window) -> None:
    window.open("/ask/blog")
    window.log_in(READER)
    window.page.reload()
    wait_login(window, READER)
    second = open_second(window, "/data")
    wait_login(second, READER)

    second.page.get_by_role("button", name="Log out").click()
    for one in (window, second):
        one.page.get_by_text("Not logged in").wait_for()
        kept = one.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        assert READER not in kept
    window.page.reload()
    window.page.get_by_text("Not logged in").wait_for()


def test_an_ended_login_names_the_work_that_waits(window: Window) -> None:
    window.open("/ask/blog")
    window.log_in(READER)
    window.write("Query", "{ posts { likes } }")
    window.page.get_by_role("button", name="New query").click()
    window.write("Query", "{ authors { name } }")
    end_login(window, READER)
    window.page.reload()

    window.page.get_by_role("heading", name="Log in to continue with your 2 tabs").wait_for()
    assert window.find_barriers_on_any_screen() == []
    window.page.get_by_role("button", name=f"Log in as {READER}").click()
    dialog = window.page.get_by_role("dialog", name="Log in")
    expect(dialog.get_by_label("Name")).to_have_value(READER)
    window.give_password(READER, "a long enough secret")
    wait_login(window, READER)
    expect(window.page.get_by_role("textbox", name="Query")).to_have_text("{ authors { name } }")


def test_people_can_continue_without_the_login_that_has_ended(window: Window) -> None:
    window.open("/ask/blog")
    window.log_in(READER)
    end_login(window, READER)
    window.page.reload()
    window.page.get_by_role("button", name="Continue without a login").click()
    window.page.get_by_role("textbox", name="Query").wait_for()


def test_two_windows_share_their_tabs_and_their_history(window: Window) -> None:
    window.open("/ask/blog")
    second = open_second(window, "/ask/blog")
    window.write("Query", "{ posts { likes } }")
    second.page.get_by_role("tab", name="posts").wait_for()
    second.page.get_by_role("button", name="New query").click()
    second.write("Query", "{ authors { name } }")
    window.page.get_by_role("tab", name="authors").wait_for()
    window.page.get_by_role("tab", name="posts").wait_for()

    for one in (window, second):
        one.page.get_by_role("button", name="Run").click()
        one.page.get_by_text("200", exact=True).wait_for()
    window.page.get_by_role("button", name="History").click()
    side = window.page.get_by_role("complementary")
    side.get_by_text("authors").first.wait_for()
    side.get_by_text("posts").first.wait_for()
    window.page.reload()
    for name in ("posts", "authors"):
        window.page.get_by_role("tab", name=name).wait_for()


def test_a_document_that_two_windows_edit_is_the_same_in_both_and_marked(window: Window) -> None:
    window.place.mongo[window.place.db]["twice"].replace_one({"_id": "x"}, {"n": 1}, upsert=True)
    window.open("/data/twice#id=%22x%22")
    window.log_in(ADMIN)
    second = open_second(window, "/data/twice#id=%22x%22")
    for one in (window, second):
        one.page.get_by_role("button", name="Edit", exact=True).click()
    window.write("JSON", '{"n": 2}')
    expect(second.page.get_by_role("textbox", name="JSON")).to_have_text('{"n": 2}')
    second.page.get_by_role("table").get_by_text("unsaved").wait_for()
    second.page.get_by_role("button", name="Save").click()
    second.page.get_by_text("not saved", exact=True).wait_for(state="detached")
    window.page.get_by_text("not saved", exact=True).wait_for(state="detached")
    expect(window.page.get_by_role("textbox", name="JSON")).to_contain_text('"n": 2')
