"""The Data page in a real browser: what a collection holds, at a glance and as a file."""

from __future__ import annotations

import csv
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
from bson import Decimal128, Int64, ObjectId
from bson.datetime_ms import DatetimeMS

from tests.browser.harness import ADMIN, HOSTILE, PASSWORD, READER, Window, rewrite
from tests.browser.test_data import at, edit, fill, open_data, save
from tests.expect import present
from tests.http.realms import render_basic
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Response

WHEN = datetime(2024, 2, 29, tzinfo=UTC)


def card(window: Window, name: str) -> Locator:
    """The card of a collection."""
    items = window.page.get_by_role("listitem")
    return items.filter(has=window.page.get_by_role("link", name=name, exact=True))


def test_cards_have_counts_sizes_and_indexes_and_system_collections_are_apart(
    window: Window,
) -> None:
    collection = fill(window.place, "large", *({"_id": n, "t": "x" * 80} for n in range(1200)))
    collection.create_index("t")
    open_data(window, "/data")
    page = window.page
    card(window, "large").get_by_text("1,200 documents · 122 kB · 2 indexes").wait_for()
    system = page.get_by_role("list", name="System collections")
    for name, purpose in (("users", "users"), ("acl", "rules"), ("gql-apps", "app definitions")):
        system.get_by_role("link", name=name, exact=True).wait_for()
        card(window, name).get_by_text(purpose).last.wait_for()
    others = page.get_by_role("list", name="Collections", exact=True)
    others.get_by_role("link", name="posts", exact=True).wait_for()
    expect(others.get_by_role("link", name="users", exact=True)).to_have_count(0)
    expect(page.get_by_role("list", name="Mounted elsewhere")).to_have_count(0)
    assert window.find_barriers_on_any_screen() == []


def test_cards_ask_for_nothing_that_is_not_allowed(window: Window) -> None:
    rule = {
        "_id": "names",
        "predicate": "path('/') or path('/posts') or path('/posts/_size')",
        "roles": ["reader"],
    }
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    reply = httpx2.post(f"{window.place.url}/acl?wm=upsert", json=rule, headers=headers)
    assert reply.status_code in (200, 201)
    refused: list[str] = []

    def record(answer: Response) -> None:
        if answer.status in (401, 403) and ("_size" in answer.url or "_indexes" in answer.url):
            refused.append(answer.url)

    window.open("")
    window.log_in(READER)
    window.page.on("response", record)
    window.page.get_by_role("link", name="Data", exact=True).click()
    card(window, "posts").get_by_text("30 documents").wait_for()
    expect(card(window, "posts")).not_to_contain_text("index")
    for unreadable in ("authors", "users", "acl"):
        expect(card(window, unreadable)).to_have_count(0)
    assert refused == []


def test_a_filter_offers_names_and_operators_and_takes_the_notation_of_the_shell(
    window: Window,
) -> None:
    ids = [ObjectId(), ObjectId()]
    fill(window.place, "offered", *({"_id": id, "rating": {"stars": 1}, "at": WHEN} for id in ids))
    open_data(window, at("offered"))
    page = window.page
    page.get_by_text("Documents 1 to 2", exact=True).wait_for()
    editor = page.get_by_role("textbox", name="Filter")
    offered = page.get_by_role("listbox").get_by_role("option")

    rewrite(editor, "{ra")
    editor.press("Control+Space")
    offered.filter(has_text='"rating.stars"').wait_for()
    editor.press("Escape")
    rewrite(editor, "{at: {$gt")
    editor.press("Control+Space")
    offered.filter(has_text="$gte").wait_for()
    editor.press("Escape")

    marks = page.locator(".data-filter .cm-lintRange-error, .data-filter .cm-lint-marker-error")
    rewrite(editor, "{at: wrong}")
    page.get_by_text("Filter, line 1: unknown word 'wrong'").wait_for()
    marks.first.wait_for()
    with page.expect_response(lambda one: "pagesize=0" in one.url and one.ok):
        rewrite(editor, f"{{_id: ObjectId('{ids[0]}'), at: {{$lt: ISODate('2030-01-01')}}}}")
    expect(marks).to_have_count(0)
    page.get_by_role("button", name="Find").click()
    page.get_by_text("Documents 1 to 1", exact=True).wait_for()
    expect(marks).to_have_count(0)


def test_tab_leaves_the_filter_and_one_key_makes_it_indent(window: Window) -> None:
    open_data(window, at("posts"))
    page = window.page
    editor = page.get_by_role("textbox", name="Filter")
    rewrite(editor, "{}")
    page.get_by_text("Tab leaves the editor; Ctrl-M").wait_for()
    editor.press("Tab")
    expect(page.get_by_role("textbox", name="Sort")).to_be_focused()
    expect(page.get_by_text("Tab leaves the editor")).not_to_be_visible()
    editor.press("Control+m")
    page.get_by_text("Tab indents; Ctrl-M").wait_for()
    editor.press("Home")
    editor.press("Tab")
    expect(editor).to_have_text("  {}")
    editor.press("Control+m")
    editor.press("Shift+Tab")
    expect(editor).not_to_be_focused()
    assert window.find_barriers() == []


def test_the_schema_of_a_sample_has_types_gaps_examples_and_spreads(window: Window) -> None:
    fill(
        window.place,
        "sampled",
        *(
            {"_id": n, "n": n, "kind": HOSTILE if n % 4 else "b", **({"gap": 1.5} if n < 5 else {})}
            for n in range(20)
        ),
    )
    open_data(window, at("sampled"))
    page = window.page
    page.get_by_role("tab", name="Schema").click()
    page.get_by_text("All 20 documents").wait_for()
    table = page.get_by_role("region", name="Schema of the sample")

    def cells(name: str) -> Locator:
        row = table.get_by_role("row").filter(has=page.get_by_text(name, exact=True))
        return row.get_by_role("cell")

    expect(cells("gap").nth(1)).to_have_text("Double")
    expect(cells("gap").nth(2)).to_have_text("75 %")
    expect(cells("gap").nth(3)).to_have_text("1.5")
    expect(cells("n").nth(2)).to_have_text("0 %")
    histogram = cells("n").get_by_role("img")
    expect(histogram).to_have_attribute("aria-label", re.compile(re.escape("0 to 1.9: 2")))
    values = page.get_by_role("list", name="Most frequent values of kind").get_by_role("listitem")
    expect(values).to_have_text([f"{HOSTILE[:60]}… 15", "b 5"])
    assert window.find_barriers_on_any_screen() == []

    window.open(at("sampled", view="schema", filter="{n: {$lt: 3}}"))
    page.get_by_text("All 3 documents that match").wait_for()


def test_what_matches_is_downloaded_as_json_and_as_csv(window: Window, tmp_path: Path) -> None:
    documents = [{"_id": n, "long": Int64(n), "text": "=1"} for n in range(250)]
    fill(window.place, "files", *documents)
    open_data(window, at("files", filter='{"_id": {"$gte": 10}}', sort="_id"))
    page = window.page
    page.get_by_text("Documents 1 to 100", exact=True).wait_for()
    for kind in ("json", "csv"):
        with page.expect_download() as started:
            page.get_by_role("button", name=f"Download {kind.upper()}").click()
        assert started.value.suggested_filename == f"files.{kind}"
        started.value.save_as(tmp_path / f"files.{kind}")
        page.get_by_text("Downloaded", exact=True).wait_for()
    found: list[dict[str, Any]] = json.loads((tmp_path / "files.json").read_text())
    assert [one["_id"] for one in found] == list(range(10, 250))
    assert found[0]["long"] == {"$numberLong": "10"}
    with (tmp_path / "files.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    assert lines[:2] == [["_id", "long", "text"], ["10", "10", "'=1"]]
    assert len(lines) == 241


def test_csv_of_several_pages_is_one_table(window: Window, tmp_path: Path) -> None:
    documents: list[dict[str, Any]] = [{"_id": n, "a": f"x,{n}"} for n in range(1500)]
    documents[1200]["late"] = "y"
    fill(window.place, "paged", *documents)
    open_data(window, at("paged", sort="_id"))
    page = window.page
    page.get_by_text("Documents 1 to 100", exact=True).wait_for()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download CSV").click()
    started.value.save_as(tmp_path / "paged.csv")
    page.get_by_text("Downloaded", exact=True).wait_for()
    with (tmp_path / "paged.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["_id", "a", "late"]
    late = ["y" if n == 1200 else "" for n in range(1500)]
    assert lines == [[str(n), f"x,{n}", late[n]] for n in range(1500)]


def change(window: Window, path: str, text: str) -> Locator:
    """Type a text over a value in the tree."""
    tree = window.page.get_by_role("list", name="Tree")
    tree.get_by_role("button", name=f"Edit {path}", exact=True).click()
    area = tree.get_by_role("textbox", name=f"Value of {path}", exact=True)
    area.fill(text)
    area.press("Enter")
    return area


def allow(window: Window, name: str, methods: str, **more: Any) -> None:
    """Allow the reader these methods in a collection of this name."""
    rule = {"_id": name, "predicate": f"path-prefix('/{name}') and method({methods})"}
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    reply = httpx2.post(
        f"{window.place.url}/acl?wm=upsert",
        json={**rule, "roles": ["reader"], **more},
        headers=headers,
    )
    assert reply.status_code in (200, 201)


def test_a_value_is_edited_in_place_and_keeps_its_type(window: Window) -> None:
    before = {"long": Int64(5), "double": 1.5, "cost": Decimal128("1.50"), "at": WHEN, "s": "5"}
    collection = fill(window.place, "placed", {"_id": "x", **before, "deep": [{"n": 1}]})
    open_data(window, at("placed", id='"x"'))
    page = window.page
    tree = page.get_by_role("list", name="Tree")
    expect(tree.get_by_role("button", name="Edit _id")).to_have_count(0)

    wrong = change(window, "long", "1.5")
    tree.get_by_text("Not a value of type Int64").wait_for()
    wrong.fill("6")
    wrong.press("Enter")
    for path, text in (("double", "2"), ("at", "2024-03-01"), ("s", "6"), ("deep.0.n", "7")):
        change(window, path, text)
        expect(tree.get_by_role("button", name=f"Edit {path}", exact=True)).to_be_focused()
    area = change(window, "cost", "x")
    area.press("Escape")
    expect(area).to_have_count(0)
    assert window.find_barriers() == []
    save(window)
    after = present(collection.find_one())
    after.pop("_etag")
    assert after == {
        "_id": "x",
        "long": 6,
        "double": 2.0,
        "cost": Decimal128("1.50"),
        "at": datetime(2024, 3, 1),
        "s": "6",
        "deep": [{"n": 7}],
    }
    assert [type(after[name]) for name in before] == [Int64, float, Decimal128, datetime, str]


def test_an_edit_keeps_what_a_rule_hides_inside_a_document(window: Window) -> None:
    ids = ("x", Decimal128("1.5"))  # the second has no address of its own
    deep = {"n": 1, "secret": "H", "gone": 1}
    collection = fill(window.place, "veiled", *({"_id": id, "deep": deep} for id in ids))
    hiding = {"projectResponse": {"deep.secret": 0}, "allowBulkPatch": True}
    allow(window, "veiled", "GET, PATCH", mongo=hiding)
    window.open(at("veiled"))
    window.log_in(READER)
    rows = window.page.get_by_role("table").get_by_role("row")
    opened = window.page.get_by_role("region", name="Document", exact=True)
    for row, name in ((1, "x"), (2, "1.5Decimal128")):
        rows.nth(row).get_by_role("link").click()
        expect(opened.get_by_role("heading")).to_have_text(name)
        change(window, "deep.n", "2")
        save(window)
    edit(window, '"gone": 1', '"new": 1')
    save(window)
    found = [one["deep"] for one in collection.find()]
    expected = {"n": 2, "secret": "H"}
    assert {**expected, "gone": 1} in found
    assert {**expected, "new": 1} in found


def test_an_edit_keeps_what_a_rule_hides_inside_the_elements_of_a_list(window: Window) -> None:
    ids = ("x", Decimal128("1.5"))  # the second has no address of its own
    items = [{"n": n, "secret": f"H{n}"} for n in range(3)]
    collection = fill(window.place, "listed", *({"_id": id, "items": items} for id in ids))
    hiding = {"projectResponse": {"items.secret": 0}, "allowBulkPatch": True}
    allow(window, "listed", "GET, PATCH", mongo=hiding)
    window.open(at("listed"))
    window.log_in(READER)
    rows = window.page.get_by_role("table").get_by_role("row")
    opened = window.page.get_by_role("region", name="Document", exact=True)
    for row, name in ((1, "x"), (2, "1.5Decimal128")):
        rows.nth(row).get_by_role("link").click()
        expect(opened.get_by_role("heading")).to_have_text(name)
        change(window, "items.1.n", "7")
        save(window)
        changed = [items[0], {**items[1], "n": 7}, items[2]]
        edit(window, '"n": 2', '"n": 2, "new": 1')
        save(window)
        changed[2] = {**items[2], "new": 1}
    assert [one["items"] for one in collection.find()] == [changed, changed]

    edit(window, '"n": 0', '"m": 0')
    save(window)
    changed[0] = {"m": 0, "secret": "H0"}
    assert changed in [one["items"] for one in collection.find()]


def test_what_would_lose_hidden_properties_is_not_saved(window: Window) -> None:
    items = [{"n": n, "secret": f"H{n}"} for n in range(3)]
    collection = fill(window.place, "moved", {"_id": "x", "items": items})
    allow(window, "moved", "GET, PATCH", mongo={"projectResponse": {"items.secret": 0}})
    open_data(window, at("moved", id='"x"'), READER)
    page = window.page
    text = '{"items": [{"n": 2}, {"n": 0}]}'
    page.get_by_role("tab", name="JSON").click()
    editor = page.get_by_role("region", name="Document", exact=True).get_by_role("textbox")
    editor.get_by_text('"items"').wait_for()
    rewrite(editor, text)
    page.get_by_role("button", name="Save").click()
    page.get_by_text("properties in it that a rule may hide from you would be lost").wait_for()
    assert window.find_barriers() == []
    assert present(collection.find_one())["items"] == items

    rewrite(editor, '{"items": [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}]}')
    save(window)
    assert present(collection.find_one())["items"] == [*items, {"n": 3}]

    page.get_by_role("button", name="Log out").click()
    window.log_in(ADMIN)
    page.get_by_role("tab", name="JSON").click()
    editor.get_by_text('"secret": "H1"').wait_for()
    rewrite(editor, '{"items": [{"n": 1}, {"n": 0}]}')
    save(window)
    assert present(collection.find_one())["items"] == [{"n": 1}, {"n": 0}]


def test_an_open_text_that_is_not_valid_stays_when_another_view_is_chosen(window: Window) -> None:
    fill(window.place, "views", {"_id": "x", "a": 1})
    open_data(window, at("views", id='"x"'))
    page = window.page
    area = change(window, "a", "wrong")
    page.get_by_text("a value is not valid").wait_for()
    json_tab = page.get_by_role("tab", name="JSON")
    json_tab.click()
    expect(area).to_be_focused()
    page.get_by_role("tab", name="Tree").press("End")
    expect(area).to_be_focused()
    expect(area).to_have_value("wrong")
    assert window.find_barriers() == []
    area.press("Escape")
    expect(area).to_have_count(0)
    json_tab.click()
    expect(json_tab).to_have_attribute("aria-selected", "true")


def test_nothing_is_saved_while_an_editor_holds_what_is_not_valid(window: Window) -> None:
    collection = fill(window.place, "held", {"_id": "x", "a": 1, "b": 1})
    open_data(window, at("held", id='"x"'))
    change(window, "a", "2")
    page = window.page
    button = page.get_by_role("button", name="Save")
    expect(button).to_be_enabled()
    area = change(window, "b", "wrong")
    page.get_by_text("Not a value of type Int32").wait_for()
    expect(button).to_be_disabled()
    area.fill("worse")
    expect(button).to_be_enabled()
    button.dispatch_event("mousedown")
    area.blur()
    button.dispatch_event("click")
    page.get_by_text("Not a value of type Int32").wait_for()
    expect(button).to_be_disabled()
    expect(area).to_have_value("worse")
    assert present(collection.find_one())["a"] == 1

    area.fill("3")
    save(window)
    after = present(collection.find_one())
    assert (after["a"], after["b"]) == (2, 3)


def test_who_may_only_replace_documents_is_offered_no_edit(window: Window) -> None:
    fill(window.place, "replaced", {"_id": "x", "n": 1})
    allow(window, "replaced", "GET, PUT, DELETE")
    open_data(window, at("replaced", id='"x"'), READER)
    document = window.page.get_by_role("region", name="Document", exact=True)
    document.get_by_role("button", name="Delete").wait_for()  # the rights are known
    for name in ("Edit", "Edit n", "Save"):
        expect(document.get_by_role("button", name=name, exact=True)).to_have_count(0)


def test_dates_that_javascript_does_not_have_are_listed(window: Window) -> None:
    far = [DatetimeMS(9_000_000_000_000_000 + at) for at in range(8)]
    fill(window.place, "far", *({"_id": at, "at": one} for at, one in enumerate(far)))
    open_data(window, at("far"))
    page = window.page
    page.get_by_text("Documents 1 to 8", exact=True).wait_for()
    page.get_by_role("table").get_by_text("9000000000000007 ms").wait_for()
