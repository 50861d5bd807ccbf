"""The Data page in a real browser: documents found, read, changed, and never by mistake."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import httpx2
from bson import (
    Binary,
    Code,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

from tests.browser.harness import ADMIN, HOSTILE, PASSWORD, READER, Place, Window, rewrite
from tests.browser.test_shell import end_login
from tests.expect import present
from tests.http.realms import render_basic
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator

WHEN = datetime(2019, 9, 12, 13, 42, 49, 260000, tzinfo=UTC)
TYPED: dict[str, Any] = {
    "10": "names keep their order",
    "9": 1,
    "long": Int64(5),
    "longest": Int64(2**63 - 1),
    "double": 1.0,
    "large": 1e22,
    "not": float("-inf"),
    "decimal": Decimal128("1.50"),
    "date": WHEN,
    "early": datetime(1950, 1, 1, tzinfo=UTC),
    "oid": ObjectId(),
    "binary": Binary(b"\x00\xff", 5),
    "uuid": Binary(bytes(16), 4),
    "regex": Regex("^a/b", "i"),
    "timestamp": Timestamp(7, 3),
    "least": MinKey(),
    "most": MaxKey(),
    "code": Code("f()"),
    "none": None,
    "deep": [{"a.b": [True, {}, []], "__proto__": {"$x": 1}}],
    "text": 'quotes " \\ é \U0001f600',
}
IDS = (
    "a/../b?c#d%2F é",
    "5d7a4b59cf6eeb5f9a3b8d2e",
    ObjectId(),
    Int64(2**53 + 1),
    1.5,
    WHEN,
    None,
    True,
    MinKey(),
    Decimal128("2.50"),
    {"a": Int64(1)},
    Binary(b"\x00", 0),
)
NAME = f"a/%2F?#{HOSTILE}"


def at(*segments: str, **spot: str) -> str:
    """The address of a place, and of what is looked for there."""
    path = "".join(f"/{quote(one, safe='')}" for one in segments)
    return f"/data{path}#{urlencode(spot)}"


def fill(place: Place, name: str, *documents: dict[str, Any]) -> Any:
    """A collection with just these documents, made behind the back of the server."""
    collection = place.mongo[place.db][name]
    collection.drop()
    if documents:
        collection.insert_many(documents)
    return collection


def open_data(window: Window, path: str, name: str = ADMIN) -> None:
    """Open a place as somebody."""
    window.open(path)
    window.log_in(name)


def edit(window: Window, old: str, new: str) -> None:
    """Replace a part of the open document's JSON."""
    document = window.page.get_by_role("region", name="Document", exact=True)
    document.get_by_role("tab", name="JSON").click()
    editor = document.get_by_role("textbox", name="JSON")
    editor.get_by_text(old).first.wait_for()
    text = read(editor)
    rewrite(editor, text.replace(old, new, 1))


def read(editor: Locator) -> str:
    """The lines of an editor, as far as it draws them."""
    return "\n".join(line.rstrip("\n") for line in editor.locator(".cm-line").all_inner_texts())


def save(window: Window) -> None:
    """Save, and wait until it is done."""
    window.page.get_by_role("button", name="Save").click()
    window.page.get_by_text("not saved", exact=True).wait_for(state="detached")


def test_hostile_names_and_values_are_text_wherever_they_stand(window: Window) -> None:
    fill(window.place, NAME, {"_id": HOSTILE, HOSTILE: HOSTILE, "list": [{HOSTILE: HOSTILE}]})
    open_data(window, "/data")

    window.page.get_by_role("list", name="Collections").get_by_role("link", name=NAME).click()
    window.page.get_by_role("heading", name=NAME, level=1).wait_for()
    table = window.page.get_by_role("table")
    table.get_by_role("link", name="onerror").last.click()
    window.page.get_by_role("list", name="Tree").get_by_text("list").wait_for()
    expect(window.page.locator("main img, main script, main b")).to_have_count(0)


def test_pages_are_walked_by_keys_and_a_filter_is_checked_while_typing(window: Window) -> None:
    fill(window.place, "many", *({"_id": number, "n": number % 7} for number in range(1, 251)))
    asked: list[str] = []

    def record(one: Any) -> None:
        if "/many?" in one.url:
            asked.append(one.url)

    window.page.on("request", record)
    open_data(window, at("many", sort="n"))

    page = window.page
    page.get_by_text("Documents 1 to 100").wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("Documents 101 to 200").wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("Documents 201 to 250").wait_for()
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_role("button", name="Previous").click()
    page.get_by_text("Documents 101 to 200").wait_for()
    queries = [parse_qs(urlsplit(one).query, keep_blank_values=True) for one in asked]
    pages = [one for one in queries if one.get("pagesize") != ["0"]]  # that only checks the query
    assert len(pages) >= 4
    assert all("after" in one and "page" not in one for one in pages)

    window.write("Filter", '{"n": foo}')
    page.get_by_text("Filter, line 1: unknown word 'foo'").wait_for()
    window.write("Filter", "{n: {$lt: 2}}")
    page.get_by_text("A filter is a MongoDB query").wait_for()
    page.get_by_role("button", name="Find").click()
    page.get_by_text("Documents 1 to 71").wait_for()
    page.get_by_role("button", name="Count").click()
    page.get_by_text("71 in all").wait_for()


def test_changing_one_value_keeps_every_other_with_its_type(window: Window) -> None:
    collection = fill(window.place, "typed", {"_id": "x", "n": 1, **TYPED})
    before = collection.find_one()
    open_data(window, at("typed", id='"x"'))
    edit(window, '"n": 1', '"n": 2')
    save(window)

    after = collection.find_one()
    assert after.pop("_etag")
    assert list(after.items()) == list({**before, "n": 2}.items())
    assert [type(one) for one in after.values()] == [type(one) for one in before.values()]

    # The order of names is part of a document: then all of it is written.
    edit(window, '"n": 2,', "")
    edit(window, '"10":', '"n": 3,\n"10":')
    save(window)
    after = collection.find_one()
    after.pop("_etag")
    assert list(after.items()) == list({**before, "n": 3}.items())


def test_documents_with_ids_of_any_type_are_changed_and_deleted(window: Window) -> None:
    collection = fill(window.place, "ids", *({"_id": id, "n": 1} for id in IDS))
    before = [one["_id"] for one in collection.find()]
    open_data(window, at("ids", filter='{"n": 1}'))
    page = window.page
    for left in range(len(IDS), 0, -1):
        page.get_by_text(f"Documents 1 to {left}", exact=True).wait_for()
        page.get_by_role("table").get_by_role("row").nth(1).get_by_role("link").click()
        edit(window, '"n": 1', '"n": 2')
        save(window)
    after = [one["_id"] for one in collection.find()]
    assert [(one, type(one)) for one in after] == [(one, type(one)) for one in before]
    assert collection.count_documents({"n": 2}) == len(IDS)


def test_a_document_is_deleted_when_somebody_means_it(window: Window) -> None:
    ids = ("_size", Decimal128("1.5"), 7)  # of the first two no address has room
    collection = fill(window.place, "doomed", *({"_id": id, "n": 1} for id in ids))
    open_data(window, at("doomed"))
    page = window.page
    for left in (2, 1, 0):
        page.get_by_role("table").get_by_role("row").nth(1).get_by_role("link").click()
        page.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog", name="Delete this document")
        dialog.get_by_role("button", name="Cancel").click()
        assert collection.count_documents({}) == left + 1
        page.get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Delete").click()
        page.get_by_role("heading", name="There is no such document").wait_for()
        page.get_by_text(
            f"Documents 1 to {left}" if left else "No documents", exact=True
        ).wait_for()


def test_what_was_changed_meanwhile_is_shown_and_nothing_is_lost(window: Window) -> None:
    collection = fill(window.place, "shared", {"_id": "x", "n": 1})
    open_data(window, at("shared", id='"x"'))
    edit(window, '"n": 1', '"n": 2, "mine": true')
    collection.update_one({}, {"$set": {"theirs": True}})  # by a program that knows no etags
    window.page.get_by_role("button", name="Save").click()
    window.page.get_by_text("This document was changed in the meantime").wait_for()
    assert collection.find_one() == {"_id": "x", "n": 1, "theirs": True}

    window.page.get_by_role("button", name="Show both").click()
    dialog = window.page.get_by_role("dialog", name="Both versions")
    dialog.get_by_role("textbox", name="JSON, stored").get_by_text("theirs").wait_for()
    dialog.get_by_role("textbox", name="JSON, mine").get_by_text("mine").wait_for()
    dialog.get_by_role("button", name="Close").click()
    window.page.get_by_role("button", name="Keep mine, to save it over theirs").click()
    save(window)
    stored = present(collection.find_one())
    stored.pop("_etag")
    assert stored == {"_id": "x", "n": 2, "mine": True}


def test_a_lost_connection_and_an_ended_login_keep_what_is_not_saved(window: Window) -> None:
    collection = fill(window.place, "kept", {"_id": "x", "n": 1})
    open_data(window, at("kept", id='"x"'))
    edit(window, '"n": 1', '"n": 2')
    window.page.context.set_offline(True)
    window.page.get_by_role("button", name="Save").click()
    window.page.get_by_text("The server does not answer.").wait_for()

    window.page.context.set_offline(False)
    end_login(window, ADMIN)
    window.page.get_by_role("button", name="Save").click()
    window.page.get_by_role("dialog").get_by_text("Your login has ended").wait_for()
    window.give_password(ADMIN, PASSWORD)
    window.page.get_by_role("button", name="Log out").wait_for()
    save(window)
    assert collection.find_one()["n"] == 2


def test_unsaved_changes_are_there_after_a_reload(window: Window) -> None:
    fill(window.place, "reloaded", {"_id": "x", "n": 1})
    open_data(window, at("reloaded", id='"x"'))
    edit(window, '"n": 1', '"n": 2')
    window.page.get_by_text("not saved", exact=True).wait_for()
    window.page.reload()
    window.page.get_by_role("textbox", name="JSON").get_by_text('"n": 2').wait_for()
    window.page.get_by_role("button", name="Discard changes").click()
    window.page.get_by_role("button", name="Discard them").click()
    window.page.get_by_text("not saved", exact=True).wait_for(state="detached")


def test_collections_documents_and_indexes_are_made_and_never_overwritten(window: Window) -> None:
    fill(window.place, "made").drop()
    open_data(window, "/data")
    page = window.page
    page.get_by_role("button", name="New collection").click()
    dialog = page.get_by_role("dialog", name="New collection")
    dialog.get_by_label("Name").fill("posts")
    dialog.get_by_role("button", name="Create").click()
    dialog.get_by_text("A collection with this name already exists").wait_for()
    dialog.get_by_label("Name").fill("made")
    dialog.get_by_role("button", name="Create").click()

    page.get_by_role("link", name="Insert the first one").click()
    for text in ('{"_id": 7, "at": {"$date": "2019-09-12T13:42:49.260Z"}}', '{"_id": 7}'):
        window.write("New document", text)
        page.get_by_role("region", name="New document").get_by_role("button", name="Insert").click()
        if "at" in text:
            page.get_by_role("list", name="Tree").get_by_text("2019-09-12").wait_for()
            page.get_by_role("link", name="Insert", exact=True).click()
    page.get_by_text("A document with this _id exists").wait_for()
    stored = present(window.place.mongo[window.place.db]["made"].find_one())
    assert stored["at"].replace(tzinfo=UTC) == WHEN

    page.get_by_role("tab", name="Indexes").click()
    page.get_by_role("button", name="New index").click()
    dialog = page.get_by_role("dialog", name="New index")
    dialog.get_by_label("Keys").fill('{"at": -1}')
    dialog.get_by_role("button", name="Create").click()
    page.get_by_role("button", name="Delete at_-1").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete at_-1").wait_for(state="detached")


def test_a_restricted_caller_reads_what_a_rule_opens_and_is_told_the_rest(window: Window) -> None:
    rule = {"_id": "posts", "predicate": "path-prefix('/posts') and method(GET)"}
    rule |= {"roles": ["reader"], "mongo": {"projectResponse": {"author": 0}}}  # type: ignore[dict-item]
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    reply = httpx2.post(f"{window.place.url}/acl?wm=upsert", json=rule, headers=headers)
    assert reply.status_code in (200, 201)
    open_data(window, "/data", READER)
    page = window.page
    page.get_by_text("You may not list the collections").wait_for()
    page.get_by_label("Open by path").fill("posts")
    page.get_by_role("button", name="Open").click()

    page.get_by_role("table").get_by_role("link", name="30", exact=True).click()
    document = page.get_by_role("region", name="Document", exact=True)
    document.get_by_role("tab", name="JSON").click()
    text = document.get_by_role("textbox", name="JSON")
    expect(text).to_have_attribute("aria-readonly", "true")
    expect(text).to_contain_text('"likes": 90')
    expect(text).not_to_contain_text("ann")
    for offered in ("Edit", "Save", "Delete"):
        expect(document.get_by_role("button", name=offered, exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="Insert")).to_have_count(0)
    expect(page.get_by_role("tab", name="Indexes")).to_have_count(0)


def test_a_document_of_15_mib_is_shown_in_part_and_downloaded_whole(
    window: Window, tmp_path: Path
) -> None:
    fill(window.place, "huge", {"_id": "x", "text": "é" * (15 << 19), "list": [1] * 5000})
    open_data(window, at("huge", id='"x"'))
    page = window.page
    document = page.get_by_role("region", name="Document", exact=True)
    document.get_by_text("more characters").wait_for()
    document.get_by_role("tab", name="JSON").click()
    document.get_by_text("too large to be edited here").wait_for()
    with page.expect_download() as started:
        document.get_by_role("button", name="Download").click()
    started.value.save_as(tmp_path / "x.json")
    assert len(json.loads((tmp_path / "x.json").read_text())["text"]) == 15 << 19


def test_axe_finds_nothing_serious_and_narrow_screens_are_enough(window: Window) -> None:
    fill(window.place, "shown", {"_id": "x", "n": 1.5, HOSTILE: {"deep": [WHEN]}})
    open_data(window, "/data")
    window.page.get_by_role("link", name="shown", exact=True).wait_for()
    assert window.find_barriers_on_any_screen() == []
    window.page.get_by_role("link", name="shown", exact=True).click()
    window.page.get_by_role("table").get_by_role("link", name="x", exact=True).click()
    window.page.get_by_role("button", name="Edit", exact=True).click()
    window.page.get_by_role("textbox", name="JSON").get_by_text("1.5").wait_for()
    assert window.find_barriers_on_any_screen() == []
