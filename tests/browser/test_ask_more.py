"""Live queries, the query builder, saved queries, headers and charts in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.harness import ADMIN, READER, Place, Window, placed
from tests.browser.test_ask import (
    editor,
    run,
    show,
    show_again,
    store,
    tree,
    wait_schema,
    wait_status,
)
from tests.http.harness import Mongo, build_definition
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Request, Route

LIVE = "query Watched @live { scores { _id points } }"
SCORES = """
type Query {
  scores: [Score]  pets(kind: Kind!, tags: [String!], old: Boolean): [Pet]  ranking: [Score]
}
enum Kind { DOG CAT }
type Score { _id: String!  points: Int  player: Player }
type Player { name: String }
interface Pet { name: String }
type Dog implements Pet { name: String  barks: Boolean }
"""


@pytest.fixture(scope="module")
def place(browser: Browser, mongo_client: Mongo, mongo_uri: str) -> Iterator[Place]:
    """The blog, and an app with live queries for administrators."""
    with placed(mongo_client, mongo_uri) as one:
        one.mongo[one.db]["scores"].insert_one({"_id": "ann", "points": 1})
        scores = one.find("scores", {}, sort={"_id": 1})
        relations = {"player": {"fields": {"name": ["eq"]}}}
        mappings = {
            "Query": {
                "scores": scores,
                "pets": one.find("pets", {"kind": {"$arg": "kind"}}),
                "ranking": one.find("scores", {}, filter={"relations": relations}),
            },
            "Score": {"player": one.find("players", {"_id": {"$fk": "_id"}})},
            "Pet": {"$typeResolver": {"Dog": "true"}},
        }
        store(one, build_definition("board", SCORES, mappings, live=["admin"]))
        yield one


@pytest.fixture
def scores(place: Place) -> None:
    """One score, whatever tests before have left."""
    found = place.mongo[place.db]["scores"]
    found.delete_many({"_id": {"$ne": "ann"}})
    found.replace_one({"_id": "ann"}, {"points": 1}, upsert=True)


def panel(window: Window) -> Locator:
    return window.page.get_by_role("complementary")


def check(window: Window, path: str) -> Locator:
    """The box of a field in the documentation."""
    return panel(window).get_by_role("checkbox", name=f"{path} in the query", exact=True)


def open_docs(window: Window) -> None:
    window.page.get_by_role("button", name="Docs").click()
    panel(window).get_by_role("heading", name="Queries", exact=True).wait_for()


def follow(window: Window) -> None:
    """Run the live query as an administrator, until its first answer is there."""
    window.open("/ask/blog")
    window.log_in(ADMIN)
    show_again(window, "board", LIVE)
    wait_schema(window)
    run(window)
    window.page.locator(".answer-live-count", has_text="1 answer").wait_for()


def state(window: Window, text: str) -> None:
    window.page.locator(".answer-live").get_by_role("status").get_by_text(text).wait_for()


# --- live queries ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("scores")
def test_each_new_answer_of_a_live_query_replaces_the_last_until_it_is_stopped(
    window: Window,
) -> None:
    stored = window.place.mongo[window.place.db]["scores"]
    follow(window)
    page = window.page
    tree(window).get_by_text('"ann"').wait_for()
    page.get_by_role("button", name="Table").click()
    stored.insert_one({"_id": "bob", "points": 5})
    cells = page.get_by_role("region", name="Rows of scores")
    cells.get_by_text("bob", exact=True).wait_for()  # the table stays a table
    page.locator(".answer-live-count", has_text="2 answers").wait_for()
    stored.update_one({"_id": "ann"}, {"$set": {"points": 77}})
    cells.get_by_text("77", exact=True).wait_for()
    state(window, "Live")
    assert window.find_barriers_on_any_screen() == []

    page.get_by_role("button", name="Stop").click()
    state(window, "Stopped")
    page.get_by_role("button", name="Run", exact=True).wait_for()
    cells.get_by_text("77", exact=True).wait_for()
    stored.update_one({"_id": "ann"}, {"$set": {"points": 78}})
    run(window)  # what has happened meanwhile is in the next answer, and not before
    cells.get_by_text("78", exact=True).wait_for()  # in the view that was chosen


@pytest.mark.usefixtures("scores")
def test_live_is_offered_to_those_who_may_use_it_and_written_by_a_button(window: Window) -> None:
    window.open("/ask/blog")
    window.log_in(ADMIN)
    wait_schema(window)
    button = window.page.get_by_role("button", name="Live", exact=True)
    expect(button).to_have_count(0)  # the blog has no live queries
    show_again(window, "board", "query Plain { scores { points } }")
    button.click()
    expect(editor(window)).to_have_text("query Plain @live { scores { points } }")
    expect(button).to_have_attribute("aria-pressed", "true")
    window.page.keyboard.press("Enter")
    expect(editor(window)).to_have_text("query Plain { scores { points } }")
    run(window)
    wait_status(window, 200)
    expect(window.page.locator(".answer-live")).to_have_count(0)


@pytest.mark.usefixtures("scores")
def test_a_lost_connection_is_opened_again_and_the_end_of_a_query_is_said(window: Window) -> None:
    page = window.page
    follow(window)
    page.get_by_role("button", name="Stop").click()
    state(window, "Stopped")
    bodies = [
        'event:next\ndata:{"data":{"scores":[]}}\n\n',
        'event:next\ndata:{"data":{"scores":[{"_id":"eve","points":3}]}}\n\n'
        'event:next\ndata:{"errors":[{"message":"no longer allowed"}]}\n\n'
        "event:complete\ndata:\n\n",
    ]
    sent: list[Request] = []

    def answer(route: Route) -> None:
        sent.append(route.request)
        body = bodies[min(len(sent), len(bodies)) - 1]
        route.fulfill(status=200, content_type="text/event-stream", body=body)

    page.route("**/graphql/board", answer)
    run(window)
    state(window, "Ended by the server")
    page.locator(".answer-live-count", has_text="2 answers").wait_for()
    page.get_by_role("region", name="Errors").get_by_text("no longer allowed").wait_for()
    tree(window).get_by_text('"eve"').wait_for()  # the last answer stays
    assert len(sent) == len(bodies)
    assert all(one.header_value("authorization") for one in sent)
    assert window.find_barriers() == []


# --- the query builder ----------------------------------------------------------------------------


def test_fields_are_checked_into_the_query_with_all_that_they_need(window: Window) -> None:
    show(window, "blog", "query Mine { authors { name } }  # mine")
    open_docs(window)
    expect(check(window, "authors")).to_be_checked()
    expect(check(window, "authors.name")).to_be_checked()
    check(window, "authors.posts").click()
    text = "query Mine { authors { name posts { _id title } } }  # mine"
    expect(editor(window)).to_have_text(text)
    check(window, "authors.posts.title").click()
    check(window, "authors.name").click()
    expect(editor(window)).to_have_text("query Mine { authors { posts { _id } } }  # mine")

    check(window, "post").click()
    number = panel(window).get_by_label("id of post", exact=True)
    expect(number).to_have_value("0")
    number.fill("three")
    panel(window).get_by_text("Enter a whole number").wait_for()
    number.fill("3")
    text = "query Mine { authors { posts { _id } } post(id: 3) { _id title } }  # mine"
    expect(editor(window)).to_have_text(text)
    run(window)
    wait_status(window, 200)
    tree(window).get_by_text('"Post 3"').wait_for()

    check(window, "authors").click()
    check(window, "post").click()
    expect(check(window, "post")).not_to_be_checked()
    expect(editor(window)).to_have_text("  # mine", use_inner_text=True)


def test_the_builder_works_by_keyboard_and_where_one_came_from(window: Window) -> None:
    window.open("/ask/blog")
    wait_status(window, 200)  # the example
    page = window.page
    page.get_by_role("button", name="New query").click()
    open_docs(window)
    check(window, "posts").focus()
    page.keyboard.press("Space")
    expect(editor(window)).to_have_text(re.compile(r"posts \{\s*_id\s*title\s*\}"))
    expect(check(window, "posts")).to_be_focused()
    page.keyboard.press("Tab")  # the name of the field
    page.keyboard.press("Tab")  # its type
    page.keyboard.press("Tab")
    expect(panel(window).get_by_label("limit of posts", exact=True)).to_be_focused()
    page.keyboard.type("2")
    editor(window).get_by_text("posts(limit: 2)").wait_for()

    panel(window).get_by_role("button", name="Post", exact=True).first.click()
    panel(window).get_by_role("heading", name="type Post").wait_for()
    check(window, "posts.likes").click()
    expect(editor(window)).to_have_text(re.compile("title\\s*likes"))
    panel(window).get_by_role("button", name="author", exact=True).click()
    check(window, "posts.author").click()
    expect(editor(window)).to_have_text(re.compile(r"author \{\s*_id\s*name\s*\}"))


def test_arguments_have_inputs_of_their_type_and_a_broken_text_is_left_alone(
    window: Window,
) -> None:
    window.open("/ask/blog")
    window.log_in(ADMIN)
    show_again(window, "board", "query Pets { scores { points } }")
    open_docs(window)
    check(window, "pets").click()
    side = panel(window)
    side.get_by_label("kind of pets", exact=True).select_option("CAT")
    side.get_by_label("old of pets", exact=True).select_option("true")
    side.get_by_label("tags of pets", exact=True).fill('["a", "b"]')
    check(window, "pets....Dog").click()
    start = 'query Pets { scores { points } pets(kind: CAT, old: true, tags: ["a", "b"]) { name'
    expect(editor(window)).to_have_text(f"{start} ... on Dog {{ name barks }} }} }}")
    side.get_by_label("tags of pets", exact=True).fill("")
    editor(window).get_by_text("old: true)").wait_for()
    assert window.find_barriers_on_any_screen() == []
    window.page.set_viewport_size({"width": 1280, "height": 800})
    window.write("Query", "{ scores {")
    side.get_by_text("The query has a mistake").wait_for()
    expect(check(window, "scores")).to_be_disabled()


def test_conditions_on_related_documents_are_checked_into_an_argument(window: Window) -> None:
    window.open("/ask/blog")
    window.log_in(ADMIN)
    show_again(window, "board", "query Ranking { ranking { points } }")
    open_docs(window)
    panel(window).get_by_text("Fields of where").click()
    for path in ("where.player", "where.player.name", "where.player.name.eq"):
        check(window, f"{path} of ranking").click()
    panel(window).get_by_label("where.player.name.eq of ranking", exact=True).fill("Ann")
    text = 'query Ranking { ranking(where: {player: {name: {eq: "Ann"}}}) { points } }'
    expect(editor(window)).to_have_text(text)
    check(window, "where.player of ranking").click()
    expect(editor(window)).to_have_text("query Ranking { ranking { points } }")


# --- saved queries, headers, charts ---------------------------------------------------------------


def test_saved_queries_have_names_and_belong_to_one_user(browser: Browser, window: Window) -> None:
    window.open("/ask/blog")
    window.log_in(READER)
    show_again(window, "blog", "query Top { posts(limit: 2) { title } }", "{}")
    page = window.page
    page.get_by_role("button", name="Saved").click()
    side = panel(window)
    expect(side.get_by_label("Name")).to_have_value("Top")
    side.get_by_label("Name").fill("The two newest")
    page.keyboard.press("Enter")
    side.get_by_text("Saved as The two newest").wait_for()
    side.get_by_role("button", name="Replace").wait_for()
    with page.context.expect_page() as opened:
        page.evaluate("open(location.href)")
    other = Window(opened.value, window.place)
    other.page.get_by_role("button", name="Log out").wait_for()
    other.page.get_by_role("button", name="Saved").click()
    listed = panel(other).get_by_role("list", name="Saved queries")
    listed.get_by_role("button", name=re.compile("^The two newest")).click()
    editor(other).get_by_text("query Top").wait_for()

    panel(other).get_by_role("button", name="Delete The two newest").click()
    side.get_by_text("No saved queries yet").wait_for()  # the other window hears of it
    side.get_by_role("button", name="Save", exact=True).click()
    panel(other).get_by_role("button", name=re.compile("^The two newest")).wait_for()
    assert window.find_barriers() == []
    other.page.close()
    page.get_by_role("button", name="Log out").click()
    page.get_by_text("Not logged in").wait_for()
    side.get_by_text("No saved queries yet").wait_for()
    assert "newest" not in page.evaluate("JSON.stringify(Object.entries(localStorage))")


def test_headers_are_sent_checked_and_no_secret_is_stored(window: Window) -> None:
    show(window, "blog", "query Headed { posts { title } }")
    wait_schema(window)
    page = window.page
    page.get_by_role("button", name="Headers").click()
    text = "X-Tenant: north\nAuthorization: Basic c2VjcmV0\nX-Api-Key: hidden"
    window.write("Headers", text)
    page.get_by_role("button", name="Headers (2)").wait_for()
    page.locator(".ask-inputs").get_by_text("Not sent: the console sends your login").wait_for()
    page.get_by_text("this browser does not store these headers").wait_for()
    assert window.find_barriers_on_any_screen() == []
    with page.expect_request("**/graphql/blog") as sent:
        run(window)
    wait_status(window, 200)
    request = sent.value
    given = [request.header_value(name) for name in ("x-tenant", "x-api-key", "authorization")]
    assert given == ["north", "hidden", None]
    page.reload()
    page.get_by_role("tab", name="Headed").wait_for()
    stored = page.evaluate("JSON.stringify(Object.values(localStorage))")
    assert "Headed" in stored
    assert "hidden" not in stored
    assert "c2VjcmV0" not in stored

    page.get_by_role("button", name="Headers").click()
    window.write("Headers", "X-Tenant: south")
    page.get_by_role("button", name="Headers (1)").wait_for()
    page.reload()
    page.get_by_role("button", name="Headers (1)").wait_for()


def test_a_list_with_a_number_is_drawn_as_bars_or_as_a_line(window: Window) -> None:
    show(window, "blog", "query Likes { posts(limit: 5) { _id title likes author { name } } }")
    run(window)
    wait_status(window, 200)
    page = window.page
    page.get_by_role("button", name="Chart").click()
    figure = page.get_by_role("figure", name="likes: 5 values, from 78 (Post 26) to 90 (Post 30)")
    figure.locator("canvas").wait_for()
    page.get_by_role("button", name="Line").click()
    page.get_by_label("By", exact=True).select_option("_id")
    page.get_by_role("figure", name="from 78 (26) to 90 (30)").locator("canvas").wait_for()
    page.get_by_label("Value", exact=True).select_option("_id")
    page.get_by_role("figure", name="_id: 5 values").locator("canvas").wait_for()
    assert window.find_barriers_on_any_screen() == []

    show_again(window, "blog", "query Names { authors { name } }")
    run(window)
    tree(window).get_by_text("authors").wait_for()
    expect(page.get_by_role("button", name="Chart")).to_have_count(0)


def test_a_query_without_room_waits_until_a_tab_is_closed(window: Window) -> None:
    page = window.page
    tabs = page.get_by_role("tablist", name="Queries").get_by_role("tab")
    for number in range(20):
        window.open(f"/ask/blog#query=query+Q{number}+%7B+posts+%7B+title+%7D+%7D")
        expect(tabs).to_have_count(number + 1)
    expect(page.get_by_role("button", name="New query")).to_be_disabled()
    window.open("/ask/blog#query=query+Waiting+%7B+posts+%7B+title+%7D+%7D")
    notice = page.get_by_text("The query is not open: there are 20 tabs. Close one first")
    notice.wait_for()
    expect(tabs).to_have_count(20)
    expect(page.get_by_role("tab", name="Waiting")).to_have_count(0)
    assert window.find_barriers_on_any_screen() == []

    page.get_by_role("tab", name="Q19").press("Delete")
    page.get_by_role("tab", name="Waiting").wait_for()
    expect(notice).to_have_count(0)
    expect(tabs).to_have_count(20)
