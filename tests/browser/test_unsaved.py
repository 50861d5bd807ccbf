"""Unsaved work is marked in the lists that lead to it, and the marks go with it."""

from __future__ import annotations

from tests.browser.harness import Window
from tests.programs import expect


def test_unsaved_documents_are_marked_in_the_rail_and_listed_on_the_page_data(
    window: Window,
) -> None:
    page = window.page
    page.on("dialog", lambda dialog: dialog.accept())  # it asks before it is left
    window.open("/data/posts#id=3")
    window.log_in()
    data = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Data")
    expect(data).to_have_text("Data")
    page.get_by_role("button", name="Edit", exact=True).click()
    window.write("JSON", '{"title": "changed"}')
    expect(data).to_have_text("Data1 unsaved")
    page.get_by_role("link", name="Insert", exact=True).click()
    window.write("New document", '{"title": "fresh"}')
    expect(data).to_have_text("Data2 unsaved")

    page.reload()
    expect(data).to_have_text("Data2 unsaved")
    data.click()
    unsaved = page.get_by_role("region", name="Unsaved documents")
    expect(unsaved.get_by_role("link")).to_have_text(["posts / new document", "posts / 3"])
    assert window.find_barriers_on_any_screen() == []
    unsaved.get_by_role("link", name="posts / 3").click()
    expect(page.get_by_role("textbox", name="JSON")).to_contain_text("changed")
    page.get_by_role("button", name="Discard changes").click()
    page.get_by_role("button", name="Discard them").click()
    expect(data).to_have_text("Data1 unsaved")


def test_unsaved_definitions_are_marked_in_the_rail(window: Window) -> None:
    page = window.page
    page.on("dialog", lambda dialog: dialog.accept())
    window.open("/apps/vault")
    window.log_in()
    page.get_by_role("status", name="Check").get_by_text("No findings").wait_for()
    window.write("Schema", "type Query { posts: [Int] }")
    apps = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Apps")
    expect(apps).to_have_text("Apps1 unsaved")
    page.get_by_role("button", name="Discard changes").click()
    page.get_by_role("button", name="Discard them").click()
    expect(apps).to_have_text("Apps")
