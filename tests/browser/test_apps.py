"""The page Apps in a real browser: definitions checked, tried, compared, saved; nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests.browser.harness import ADMIN, HOSTILE, PASSWORD, READER, Place, Window, open_window
from tests.http.harness import Document
from tests.http.realms import render_basic
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

SCHEMA = "type Query {\n  posts: [Post]\n}\ntype Post {\n  _id: Int\n  title: String\n}\n"
LONG = 9_007_199_254_740_993  # a number that JavaScript rounds
# What is written after a pause of the typist is not written by then.
NO_PAUSES_END = """
    const wait = window.setTimeout;
    window.setTimeout = (work, delay, ...rest) => delay === 250 ? 0 : wait(work, delay, ...rest);
"""


@pytest.fixture
def app(place: Place, request: pytest.FixtureRequest) -> str:
    """An app of this test alone, with a member that the page knows nothing of."""
    name = f"app-{request.node.name[5:40]}"
    mappings = {"Query": {"posts": place.find("posts", {"likes": {"$lt": LONG}})}}
    send(place, "PUT", name, {"schema": SCHEMA, "mappings": mappings, "note": LONG})
    return name


def send(place: Place, method: str, name: str, body: Document | None = None) -> Any:
    """A request to the stored definition, as somebody else who may."""
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    url = f"{place.url}/gql-apps/{name}{'?wm=upsert' if method == 'PUT' else ''}"
    reply = httpx2.request(method, url, json=body, headers=headers, timeout=60)
    assert reply.status_code in (200, 201, 204), reply.text
    return reply.json() if method == "GET" else None


def open_app(window: Window, name: str) -> Locator:
    """The page of the app, as an administrator; what it says of its check."""
    window.page.on("dialog", lambda dialog: dialog.accept())  # it asks before it is left
    window.open(f"/apps/{name}")
    window.log_in()
    return window.page.get_by_role("status", name="Check")


def press(window: Window, name: str, within: str = "main") -> None:
    window.page.locator(within).get_by_role("button", name=name, exact=True).click()


def test_the_list_tells_the_state_and_the_findings_of_every_app(
    window: Window, place: Place
) -> None:
    place.define("resting", SCHEMA, {"Query": {"posts": place.find("posts")}}, enabled=False)
    place.define("broken", SCHEMA, {"Query": {"posts": {"db": HOSTILE}}})
    window.open("/apps")
    window.log_in()

    rows = {name: row_of(window, name) for name in ("blog", "hostile", "resting", "broken")}
    rows["blog"].get_by_text("Served").wait_for()
    rows["hostile"].get_by_text(HOSTILE).wait_for()
    rows["resting"].get_by_text("Disabled").wait_for()
    rows["broken"].get_by_text("Invalid", exact=True).wait_for()
    rows["broken"].get_by_text("error").wait_for()


def row_of(window: Window, name: str) -> Locator:
    link = window.page.get_by_role("link", name=name, exact=True)
    return window.page.get_by_role("row").filter(has=link)


def test_a_definition_is_checked_while_it_is_typed_and_findings_lead_to_their_places(
    window: Window, place: Place, app: str
) -> None:
    check = open_app(window, app)
    check.get_by_text("No findings").wait_for()
    mapping = f"{{db: {place.db}, collection: posts,"
    window.write("Mappings", f"Query:\n  posts: {mapping}\n    find: {{a: {{$equals: 1}}}}\n  }}")
    check.get_by_text("1 error").wait_for()

    finding = window.page.get_by_role("region", name="Findings").get_by_role("button")
    finding.get_by_text("MongoDB has no operator $equals").wait_for()
    expect(finding).to_contain_text("Query.posts, mappings line 3")
    finding.click()
    window.page.keyboard.press("ControlOrMeta+Shift+K")  # deletes the line where the click has led
    check.get_by_text("No findings").wait_for()


def test_a_field_without_a_mapping_leads_to_its_line_in_the_schema(
    window: Window, app: str
) -> None:
    check = open_app(window, app)
    check.get_by_text("No findings").wait_for()
    window.write("Schema", SCHEMA.replace("posts", "extra: Int posts", 1))
    check.get_by_text("1 warning").wait_for()
    finding = window.page.get_by_role("region", name="Findings").get_by_role("button")
    expect(finding).to_contain_text("Query.extra, schema line")
    finding.click()
    line = window.page.get_by_role("region", name="Schema").locator(".cm-activeLine")
    expect(line).to_contain_text("extra: Int")


def test_an_unsaved_draft_answers_and_nothing_is_stored(window: Window, app: str) -> None:
    check = open_app(window, app)
    check.get_by_text("No findings").wait_for()
    before = send(window.place, "GET", app)
    window.write("Schema", SCHEMA.replace("title: String", "title: String\n  likes: Int"))
    window.page.get_by_text("Unsaved changes").wait_for()
    window.page.get_by_role("tab", name="Try").click()
    expect(window.page.get_by_role("textbox", name="Query")).to_contain_text("{")  # the example
    window.write("Query", "{ posts { likes } }")
    press(window, "Run")

    window.page.get_by_text("likes").last.wait_for()
    window.page.get_by_role("status").get_by_text("200", exact=True).wait_for()
    assert send(window.place, "GET", app) == before
    window.page.get_by_role("combobox", name="As").select_option("roles")
    window.page.get_by_label("Roles", exact=True).last.fill("stranger")
    press(window, "Run")
    window.page.get_by_text("the app would answer 403").wait_for()


def test_saving_keeps_every_member_and_asks_before_clients_break(window: Window, app: str) -> None:
    open_app(window, app).get_by_text("No findings").wait_for()
    window.write("Schema", SCHEMA.replace("  title: String\n", "  likes: Int\n"))
    window.page.get_by_role("tab", name="Changes 1 breaking").click()
    window.page.get_by_text("Field Post.title was removed").wait_for()
    press(window, "Save")
    press(window, "Save anyway", "dialog")
    window.page.get_by_text("Saved.").wait_for()

    saved = send(window.place, "GET", app)
    assert "likes: Int" in saved["schema"]
    assert saved["note"] == LONG
    assert saved["mappings"]["Query"]["posts"]["find"] == {"likes": {"$lt": LONG}}


def test_versions_are_compared_and_restored_with_the_warning(
    window: Window, place: Place, app: str
) -> None:
    definition = send(place, "GET", app)
    former = {key: value for key, value in definition.items() if key not in ("_id", "_etag")}
    changed = former["schema"].replace("posts", "fresh: Int posts", 1)
    send(place, "PUT", app, {**former, "schema": changed})
    open_app(window, app)
    page = window.page
    page.get_by_role("tab", name="History").click()
    versions = page.get_by_role("region", name="Versions")
    rows = versions.get_by_role("row").filter(has_text="schema")
    expect(rows).to_contain_text(ADMIN)
    difference = page.get_by_role("region", name="Difference")
    difference.get_by_text("fresh: Int").first.wait_for()
    assert window.find_barriers_on_any_screen() == []

    versions.get_by_role("button", name="Restore this version, 1").click()
    page.get_by_role("tab", name="Changes", selected=True).wait_for()
    page.get_by_text("The editors have version 1.").wait_for()
    page.get_by_role("list").get_by_text("breaking", exact=True).first.wait_for()
    press(window, "Save")
    page.get_by_role("dialog", name="This breaks clients").get_by_text("fresh").wait_for()
    press(window, "Save anyway", "dialog")
    page.get_by_text("Saved.").wait_for()
    assert send(place, "GET", app)["schema"] == former["schema"]
    page.get_by_role("tab", name="History").click()
    versions.get_by_role("button", name="What changed in version 3").wait_for()


def test_what_somebody_else_saved_meanwhile_is_shown_beside_mine(window: Window, app: str) -> None:
    open_app(window, app).get_by_text("No findings").wait_for()
    theirs = {**send(window.place, "GET", app), "schema": f"# theirs\n{SCHEMA}", "more": 1}
    del theirs["_etag"]
    send(window.place, "PUT", app, theirs)
    window.write("Schema", f"# mine\n{SCHEMA}")
    press(window, "Save")

    window.page.get_by_text("Another user has changed this app").wait_for()
    press(window, "Show both")
    both = window.page.get_by_role("dialog", name="Both versions")
    both.get_by_text("# theirs").wait_for()
    both.get_by_text("# mine").wait_for()
    press(window, "Close", "dialog")
    assert send(window.place, "GET", app)["schema"].startswith("# theirs")
    window.page.get_by_role("button", name="Keep mine").click()
    press(window, "Save")
    window.page.get_by_text("Saved.").wait_for()
    saved = send(window.place, "GET", app)
    assert (saved["schema"][:6], saved["note"], saved["more"]) == ("# mine", LONG, 1)


def test_unsaved_work_survives_a_reload_and_logging_out_asks(window: Window, app: str) -> None:
    open_app(window, app).get_by_text("No findings").wait_for()
    window.write("Schema", f"# {HOSTILE}\n{SCHEMA}")
    window.page.get_by_text("Unsaved changes").wait_for()
    window.page.reload()

    window.page.get_by_text("Unsaved changes").wait_for()
    window.page.get_by_text(HOSTILE).wait_for()
    window.page.get_by_role("button", name="Log out").click()
    press(window, "Stay", "dialog")
    press(window, "Discard changes")
    press(window, "Discard them", "dialog")
    window.page.get_by_text("Unsaved changes").wait_for(state="detached")
    expect(window.page.get_by_role("textbox", name="Schema")).not_to_contain_text(HOSTILE)


def test_the_query_that_was_being_tried_is_there_after_a_reload_that_comes_at_once(
    window: Window, app: str
) -> None:
    window.page.add_init_script(NO_PAUSES_END)
    open_app(window, app).get_by_text("No findings").wait_for()
    window.page.get_by_role("tab", name="Try").click()
    window.write("Query", "{ posts { _id } }")
    window.page.reload()

    window.page.get_by_role("tab", name="Try").click()
    expect(window.page.get_by_role("textbox", name="Query")).to_have_text("{ posts { _id } }")


def test_without_an_answer_or_a_login_nothing_is_saved_and_the_work_stays(
    window: Window, app: str
) -> None:
    open_app(window, app).get_by_text("No findings").wait_for()
    window.page.route("**/_tools/**", lambda route: route.abort())
    window.write("Schema", f"# mine\n{SCHEMA}")
    window.page.get_by_text("Not checked", exact=True).wait_for()
    press(window, "Save")
    window.page.get_by_role("alert").get_by_text("The server does not answer").wait_for()
    window.page.unroute("**/_tools/**")

    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    httpx2.delete(f"{window.place.url}/tokens/{ADMIN}", headers=headers)
    press(window, "Save")
    window.give_password(ADMIN, PASSWORD)
    press(window, "Save")
    window.page.get_by_text("Saved.").wait_for()
    assert send(window.place, "GET", app)["schema"].startswith("# mine")


def test_an_app_is_made_from_a_template_and_deleted_by_its_name(window: Window) -> None:
    window.open("/apps")
    window.log_in()
    press(window, "New app")
    window.page.get_by_label("Name").fill("made <b>here<b>")
    press(window, "Begin", "dialog")
    window.page.get_by_text("Not stored yet").wait_for()
    press(window, "Save")
    window.page.get_by_text("Saved.").wait_for()

    press(window, "Delete")
    dialog = window.page.get_by_role("dialog", name="Delete this app")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Type its name").fill("made <b>here<b>")
    dialog.get_by_role("button", name="Delete").click()
    window.page.get_by_role("heading", name="is deleted").wait_for()


def test_others_see_the_apps_that_they_may_ask_and_no_definition(window: Window) -> None:
    window.open("/apps")
    window.log_in(READER)
    window.page.get_by_role("link", name="blog").wait_for()
    expect(window.page.get_by_role("link", name="vault")).to_have_count(0)
    expect(window.page.get_by_role("button", name="New app")).to_have_count(0)

    window.open("/apps/blog")
    window.page.get_by_text("You may not read its definition").wait_for()


def test_axe_finds_nothing_serious_and_nothing_is_wider_than_a_narrow_screen(
    browser: Browser, place: Place, app: str
) -> None:
    with open_window(browser, place) as window:
        open_app(window, app).get_by_text("No findings").wait_for()
        window.write("Schema", SCHEMA.replace("title: String", "tilte: Strin"))
        window.page.get_by_role("region", name="Findings").wait_for()
        assert window.find_barriers() == []
        window.page.emulate_media(color_scheme="dark")
        assert window.find_barriers() == []
        press(window, "Discard changes")
        press(window, "Discard them", "dialog")
        window.page.set_viewport_size({"width": 360, "height": 640})
        for tab, waited in {
            "Try": "Run",
            "Access": "may use the app",
            "Changes": "differs",
        }.items():
            window.page.get_by_role("tab", name=tab).click()
            window.page.get_by_text(waited).first.wait_for()
            assert window.find_barriers() == []
            assert window.page.evaluate("document.documentElement.scrollWidth") <= 360
