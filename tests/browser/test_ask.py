"""Asking and plans in a real browser: as a newcomer, as a reader, as an administrator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

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
from tests.http.harness import Document, Mongo, build_definition
from tests.http.realms import render_basic
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

POSTS = "{ posts(limit: 3) { _id title author { name } } }"
SHOP = """
type Query {
  "Everything that is sold"
  goods(kind: Kind, filter: Wanted, limit: Int = 1000): [Good]
  broken: [Broken]
}
enum Kind { BOOK TOY }
input Wanted { name: String!  least: Int }
type Good {
  _id: Int!
  name: String!
  kind: Kind
  cost: Int @visible(roles: ["admin"])
  stock: Long
}
type Broken { _id: Int!  number: Int }
"""
BIG = 9_007_199_254_740_993  # JavaScript would round it
ROWS, ROW_SIZE = 600, 10_000
# What the keyboard acts on after a click, before the page is drawn again.
CLICKED_AT_ONCE = """async button => {
    button.click();
    for (let turn = 0; turn < 100; turn += 1) await null;
    return document.activeElement.innerText;
}"""


@pytest.fixture(scope="module")
def place(browser: Browser, mongo_client: Mongo, mongo_uri: str) -> Iterator[Place]:
    """The blog, a shop with secrets, and an app that is larger than anybody reads."""
    with placed(mongo_client, mongo_uri) as one:
        fill_shop(one)
        fill_giant(one)
        yield one


def fill_shop(place: Place) -> None:
    db = place.mongo[place.db]
    db["acl"].insert_one(
        {"_id": "shops", "predicate": "path-prefix('/graphql/shop')", "priority": 2,
         "roles": ["reader"]}
    )  # fmt: skip
    db["goods"].insert_many(
        {"_id": number, "name": HOSTILE if number == 7 else f"Good {number}", "kind": "TOY",
         "cost": number, "stock": BIG}
        for number in range(250)
    )  # fmt: skip
    db["broken"].insert_many([{"_id": 1, "number": 1}, {"_id": 2, "number": "no number"}])
    goods = place.find(
        "goods", {"$ifarg": ["kind", {"kind": {"$arg": "kind"}}]}, limit={"$arg": "limit"}
    )
    mappings = {"Query": {"goods": goods, "broken": place.find("broken", sort={"_id": 1})}}
    store(place, build_definition("shop", SHOP, mappings, **{"json-mode": "relaxed"}))


def fill_giant(place: Place) -> None:
    """Two thousand types, and a list that is nearly as long as an answer may be."""
    text = "x" * ROW_SIZE
    rows = ({"_id": number, "text": text} for number in range(ROWS))
    place.mongo[place.db]["rows"].insert_many(rows)
    types = "\n".join(
        f"type Type{n} {{ next: Type{(n + 1) % 2000}  value: Int }}" for n in range(2000)
    )
    own = "type Query { rows: [Row]  first: Type0 } type Row { _id: Int  text: String }"
    mappings = {"Query": {"rows": place.find("rows", sort={"_id": 1}, limit=ROWS)}}
    place.define("giant", f"{own}\n{types}", mappings)


def store(place: Place, definition: Document) -> None:
    """Store a definition as an administrator does, so that it is served at once."""
    path = f"{place.url}/gql-apps/{definition['_id']}?wm=upsert"
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    reply = httpx2.put(path, json=definition, headers=headers, timeout=60)
    assert reply.is_success, reply.text


def show(window: Window, app: str, query: str = "", variables: str = "") -> Locator:
    """Open the page with a query, by a link; the editor is what comes back."""
    held = urlencode({"query": query, "variables": variables}) if query else ""
    window.open(f"/ask/{app}#{held}")
    return editor(window)


def show_again(window: Window, app: str, query: str, variables: str = "") -> None:
    """Follow a link within the page: a login in memory stays."""
    held = urlencode({"query": query, "variables": variables})
    window.page.evaluate(
        "to => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')) }",
        f"/console/ask/{app}#{held}",
    )
    editor(window).get_by_text(query.split()[1]).first.wait_for()


def editor(window: Window, name: str = "Query") -> Locator:
    return window.page.get_by_role("textbox", name=name, exact=True)


def run(window: Window) -> None:
    window.page.get_by_role("button", name="Run", exact=True).click()


def tree(window: Window) -> Locator:
    return window.page.get_by_role("list", name="Answer")


def wait_status(window: Window, status: int) -> None:
    window.page.get_by_role("status").get_by_text(str(status), exact=True).wait_for()


def wait_schema(window: Window) -> None:
    """Until the documentation has come, and with it completion and validation."""
    window.page.get_by_role("button", name="Docs").click()
    window.page.get_by_role("heading", name="Queries", exact=True).wait_for()
    window.page.get_by_role("button", name="Docs").click()


# --- asking ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("logins", [[], [READER]], ids=["anonymous", "logged-in"])
def test_an_example_does_not_come_into_the_text_of_a_user_who_writes_already(
    window: Window, logins: list[str]
) -> None:
    """The schema, which the example is made from, comes while the cursor is in the editor."""
    window.page.add_init_script("""
        const send = window.fetch;
        const schemaMayCome = new Promise((done) => { window.letSchemaCome = done; });
        window.fetch = async (address, options) => {
          if (String(options?.body).includes("__schema")) await schemaMayCome;
          return send(address, options);
        };
    """)
    window.open("/ask/blog")
    for name in logins:
        window.log_in(name)
    editor(window).click()
    window.page.evaluate("letSchemaCome()")
    window.page.get_by_role("group", name="Examples").wait_for()
    window.page.keyboard.insert_text("{ authors { name } }")
    expect(editor(window)).to_have_text("{ authors { name } }")


def test_a_newcomer_types_with_completion_runs_and_looks_at_the_answer(window: Window) -> None:
    window.open("/ask")
    page = window.page
    wait_status(window, 200)  # nobody has pressed Run
    editor(window).get_by_text("posts(limit: 5)").wait_for()
    tree(window).get_by_text('"Ann"').first.wait_for()
    examples = page.get_by_role("group", name="Examples").get_by_role("button")
    expect(examples).to_have_count(4)
    examples.filter(has_text="authors with posts").click()
    editor(window).get_by_text("authors").wait_for()
    tree(window).get_by_text("authors").wait_for()
    page.get_by_role("button", name="New query").click()
    editor(window).click()
    page.keyboard.type("{ pos")
    page.get_by_role("option", name=re.compile("^posts")).click()
    page.keyboard.type("(limit: 29) { title")
    page.keyboard.press("Control+Enter")

    wait_status(window, 200)
    tree(window).get_by_text('"Post 30"').wait_for()
    page.get_by_role("button", name="Table").click()
    cells = page.get_by_role("region", name="Rows of posts")
    cells.get_by_text("Post 30", exact=True).wait_for()
    cells.get_by_text(HOSTILE, exact=True).wait_for()
    page.get_by_role("button", name="Text").click()
    page.get_by_label("Answer as text").get_by_text('"title": "Post 30"').wait_for()
    expect(page.locator("main img")).to_have_count(0)


def test_an_answer_to_another_query_is_marked_as_old(window: Window) -> None:
    show(window, "blog", POSTS)
    run(window)
    wait_status(window, 200)
    old = window.page.get_by_text("The query has changed since")
    expect(old).to_have_count(0)
    window.write("Query", "{ authors { name } }")
    old.wait_for()
    run(window)
    old.wait_for(state="detached")


def test_descriptions_are_markdown_and_never_markup(window: Window) -> None:
    schema = 'type Query { "**Newest** first, see `limit` and <b>this</b>" posts: [Int] }'
    mappings = {"Query": {"posts": window.place.find("posts", {})}}
    window.place.define("described", schema, mappings, description="Some *words*")
    window.open("/ask/described")
    window.log_in()
    window.page.get_by_role("button", name="Docs").click()
    side = window.page.get_by_role("complementary")
    expect(side.locator("strong").filter(has_text="Newest")).to_have_count(1)
    expect(side.locator("code").filter(has_text="limit")).to_have_count(1)
    side.get_by_text("<b>this</b>").wait_for()
    expect(side.locator("b")).to_have_count(0)


def test_an_error_leads_to_its_place_and_of_several_operations_the_chosen_one_runs(
    window: Window,
) -> None:
    show(window, "blog", "{\n  posts { title }\n  nothing\n}")
    wait_schema(window)
    window.page.locator(".cm-lint-marker-error").wait_for()
    run(window)
    wait_status(window, 400)
    window.page.get_by_role("region", name="Errors").get_by_role("button", name="line 3").click()

    expect(window.page.locator(".cm-activeLine")).to_have_text("nothing")
    several = "query One { post(id: 1) { title } } query Two { post(id: 3) { title } }"
    show_again(window, "blog", several)
    window.page.get_by_label("Operation").select_option("Two")
    run(window)
    tree(window).get_by_text('"Post 3"').wait_for()


def test_variables_are_completed_and_checked_and_an_error_leads_to_its_value(
    window: Window,
) -> None:
    window.open("/ask/blog")
    window.log_in(READER)
    query = (
        "query Some($kind: Kind!, $limit: Int) { goods(kind: $kind, limit: $limit) { _id stock } }"
    )
    show_again(window, "shop", query)
    wait_schema(window)
    page = window.page
    page.get_by_text("Missing: $kind (Kind!)").wait_for()
    editor(window, "Variables").click()
    page.keyboard.type('{"ki')
    page.get_by_role("option", name='"kind"').click()
    page.keyboard.type('"PLANT", "limit": 1')
    page.get_by_text("One of BOOK, TOY is expected").wait_for()
    for _ in range(len('PLANT", "limit": 1')):
        page.keyboard.press("Backspace")
    page.keyboard.type('TOY", "limit": 1')
    page.get_by_text("is expected").wait_for(state="detached")
    page.keyboard.press("Control+Enter")

    wait_status(window, 200)
    tree(window).get_by_text(str(BIG)).wait_for()

    show_again(window, "shop", "query Broken { broken { _id number } }")
    run(window)
    errors = page.get_by_role("region", name="Errors")
    errors.get_by_text("value-does-not-fit").wait_for()
    place = errors.get_by_role("button", name="broken[1].number")
    assert place.evaluate(CLICKED_AT_ONCE) == "number: null", "the next key belongs to the value"


# --- what is kept ---------------------------------------------------------------------------------


def test_tabs_and_history_outlive_a_reload_and_end_with_logging_out(window: Window) -> None:
    show(window, "blog", "query First { posts { title } }")
    page = window.page
    run(window)
    wait_status(window, 200)
    page.get_by_role("button", name="New query").click()
    editor(window).click()
    page.keyboard.type("query Second{authors{name}}")
    page.get_by_role("button", name="Prettify").click()
    editor(window).get_by_text("query Second {").wait_for()
    page.get_by_role("tab", name="Second").wait_for()
    page.reload()
    page.get_by_role("tab", name="First").click()
    editor(window).get_by_text("query First").wait_for()
    page.wait_for_url(lambda url: "#query=query+First" in url)  # the address is the place

    page.get_by_role("button", name="History").click()
    page.get_by_role("list", name="History").get_by_role("button").first.wait_for()
    window.log_in(READER)
    page.get_by_text("No queries yet").wait_for()
    page.get_by_role("tab", name="First").wait_for()  # what he was at is not lost
    run(window)
    wait_status(window, 200)
    page.get_by_role("button", name="Log out").click()
    page.get_by_text("Not logged in").wait_for()
    assert READER not in page.evaluate("JSON.stringify(Object.entries(localStorage))")


def test_nothing_is_lost_with_the_connection_by_cancelling_or_with_the_login(
    window: Window,
) -> None:
    show(window, "blog", POSTS)
    page = window.page
    wait_schema(window)
    page.context.set_offline(True)
    run(window)
    page.get_by_role("alert").get_by_text("The server does not answer").wait_for()
    page.context.set_offline(False)
    page.route("**/graphql/blog", lambda _: None)  # nobody answers
    run(window)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("heading", name="Cancelled").wait_for()
    page.unroute("**/graphql/blog")
    expect(page.get_by_role("tab", name="Plan")).to_have_count(0)

    with page.expect_response("**/graphql/blog"):  # the schema for the reader
        window.log_in(READER)
    page.route("**/graphql/blog", lambda route: route.fulfill(status=401))
    page.get_by_role("tab", name="Answer").click()
    run(window)
    page.get_by_role("dialog").get_by_text("Your login has ended").wait_for()
    page.unroute("**/graphql/blog")
    window.give_password(READER, PASSWORD)
    page.get_by_role("button", name="Log out").wait_for()
    expect(editor(window)).to_have_text(POSTS)
    run(window)
    wait_status(window, 200)


# --- what each caller sees ------------------------------------------------------------------------


def test_callers_see_their_own_apps_and_fields(window: Window) -> None:
    window.open("/ask")
    page = window.page
    apps = page.get_by_label("App", exact=True)
    expect(apps.locator("option")).to_have_text(["blog"])
    window.log_in(READER)
    apps.locator("option", has_text="shop").wait_for(state="attached")
    apps.select_option("shop")
    page.get_by_role("button", name="Docs").click()
    page.get_by_role("complementary").get_by_role("button", name="Good", exact=True).first.click()
    page.get_by_role("heading", name="type Good").wait_for()
    fields = page.get_by_role("complementary")
    expect(fields).to_contain_text("stock")
    expect(fields).not_to_contain_text("cost")

    page.get_by_role("button", name="Log out").click()
    window.log_in(ADMIN)
    apps.locator("option", has_text="vault").wait_for(state="attached")
    page.get_by_label("Search types and fields").fill("cost")
    page.get_by_role("list", name="Found").get_by_text("Good.cost").wait_for()


def test_plans_show_administrators_commands_times_and_the_missing_index(window: Window) -> None:
    window.open("/ask/blog")
    window.log_in(ADMIN)
    show_again(window, "shop", "query Toys { goods(kind: TOY) { name } }")
    page = window.page
    page.get_by_role("tab", name="Plan").click()
    page.get_by_role("button", name="Explain", exact=True).click()

    commands = page.get_by_role("region", name="Commands").get_by_role("row")
    row = rf"Query\.goods\s+find {window.place.db}\.goods\s+\S+ ms\s+1\s+250\s"
    expect(commands.nth(1)).to_have_text(re.compile(row), use_inner_text=True)
    page.get_by_text("Query.goods scans").wait_for()
    made = f'db.getSiblingDB("{window.place.db}").getCollection("goods").createIndex({{"kind": 1'
    page.get_by_text(made).wait_for()
    page.get_by_role("button", name="Copy createIndex").wait_for()
    page.get_by_text("of 100,000 allowed").wait_for()

    page.get_by_role("button", name="Explain without running").click()
    commands.nth(1).wait_for(state="detached")
    page.get_by_role("region", name="How documents are found").wait_for()


def test_where_the_schema_is_not_shown_queries_run_all_the_same(
    browser: Browser, mongo_client: Mongo, mongo_uri: str
) -> None:
    hidden: dict[str, Any] = {"graphql": {"introspection": "off"}}
    with placed(mongo_client, mongo_uri, hidden) as place, open_window(browser, place) as window:
        show(window, "blog", POSTS)
        window.page.get_by_text("The schema is not shown here").wait_for()
        run(window)
        wait_status(window, 200)
        window.open("/ask/vault")
        window.page.get_by_text("This app needs a login").wait_for()


# --- large and strange things ---------------------------------------------------------------------


def test_a_large_answer_and_a_large_schema_stay_usable(window: Window, tmp_path: Path) -> None:
    window.open("/ask/blog")
    window.log_in(ADMIN)
    show_again(window, "giant", "query Rows { rows { _id text } }")
    wait_schema(window)
    run(window)
    wait_status(window, 200)
    page = window.page
    page.get_by_text(re.compile(r"5\.\d MiB")).wait_for()
    tree(window).get_by_role("button", name="500 more").wait_for()
    page.get_by_role("button", name="Table").click()
    page.get_by_text("100 of 600 rows").wait_for()
    page.get_by_role("button", name="Text").click()
    page.get_by_text("Copy and download have all of it").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "answer.json")
    assert (tmp_path / "answer.json").stat().st_size > ROWS * ROW_SIZE

    page.get_by_role("button", name="Docs").click()
    page.get_by_label("Search types and fields").fill("type1999")
    page.get_by_role("list", name="Found").get_by_role("button", name="Type1999").click()
    page.get_by_role("heading", name="type Type1999").wait_for()


def test_a_list_is_taken_away_as_csv_and_the_query_as_a_program(
    window: Window, tmp_path: Path
) -> None:
    show(window, "blog", POSTS)
    run(window)
    wait_status(window, 200)
    page = window.page
    page.get_by_role("button", name="Table").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    download.value.save_as(tmp_path / "posts.csv")
    header, *rows = (tmp_path / "posts.csv").read_text().splitlines()
    assert (header, len(rows)) == ("_id,title,author.name", 3)

    page.get_by_role("button", name="Copy as").click()
    dialog = page.get_by_role("dialog", name="Copy as a program")
    program = dialog.get_by_label("Program", exact=True).last
    expect(program).to_contain_text("curl")
    dialog.get_by_role("tab", name="curl").press("ArrowRight")
    expect(program).to_contain_text(f"{window.place.url}/graphql/blog")
    assert window.find_barriers_on_any_screen() == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Copy as")).to_be_focused()


def test_axe_finds_nothing_serious_and_narrow_screens_are_wide_enough(window: Window) -> None:
    window.open("/ask/blog")
    window.log_in(ADMIN)
    page = window.page
    show_again(window, "shop", "query Toys($least: Int!) { goods(kind: TOY) { name } }")
    run(window)
    wait_status(window, 400)
    show_again(window, "shop", "query Again { goods(kind: TOY, limit: 3) { name } }")
    run(window)
    wait_status(window, 200)
    page.get_by_role("button", name="Docs").click()
    page.get_by_role("heading", name="Queries", exact=True).wait_for()
    page.get_by_role("button", name="Table").click()
    assert window.find_barriers() == []
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name="History").click()
    page.get_by_role("tab", name="Plan").click()
    page.get_by_role("button", name="Explain", exact=True).click()
    page.get_by_text("Query.goods scans").wait_for()
    assert window.find_barriers() == []
    page.set_viewport_size({"width": 360, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
