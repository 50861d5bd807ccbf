"""The console offers what the caller may do, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import httpx2

from tests.browser.harness import ADMIN, PASSWORD, READER, Window
from tests.http.realms import render_basic
from tests.programs import expect

READS = {"_id": "reads", "predicate": "path-prefix('/posts') and method(GET)", "roles": ["reader"]}
WRITES = {
    "_id": "writes",
    "predicate": "path('/posts') and method(POST) and bson-request-contains(title)",
    "roles": ["reader"],
}


def put_rule(window: Window, rule: object) -> None:
    headers = {"Authorization": render_basic(ADMIN, PASSWORD)}
    reply = httpx2.post(f"{window.place.url}/acl?wm=upsert", json=rule, headers=headers)
    assert reply.status_code in (200, 201)


def drop_rule(window: Window, name: str) -> None:
    headers = {"Authorization": render_basic(ADMIN, PASSWORD), "If-Match": "*"}
    httpx2.delete(f"{window.place.url}/acl/{name}", headers=headers)


def expect_rail(window: Window, titles: Sequence[str]) -> None:
    expect(window.page.get_by_role("navigation", name="Pages").locator(".rail-link")).to_have_text(
        list(titles)
    )


def test_the_rail_has_the_pages_that_the_caller_can_use(window: Window) -> None:
    drop_rule(window, "reads")
    drop_rule(window, "writes")
    window.open()
    expect_rail(window, ["Ask", "Apps"])
    window.log_in()
    expect_rail(window, ["Ask", "Apps", "Data", "Access", "Live", "Status"])
    window.page.get_by_role("button", name="Log out").click()
    expect_rail(window, ["Ask", "Apps"])
    put_rule(window, READS)
    window.log_in(READER)
    expect_rail(window, ["Ask", "Apps", "Data", "Live"])


def test_a_reader_is_offered_to_read_and_a_writer_to_insert(window: Window) -> None:
    put_rule(window, READS)
    drop_rule(window, "writes")
    window.open("/data/posts#id=30")
    window.log_in(READER)
    document = window.page.get_by_role("region", name="Document", exact=True)
    document.get_by_text("Post 30").first.wait_for()
    document.get_by_role("button", name="Download").wait_for()
    for name in ("Edit", "Delete"):
        expect(document.get_by_role("button", name=name)).to_have_count(0)
    expect(window.page.get_by_role("link", name="Insert")).to_have_count(0)
    expect(window.page.get_by_role("tab", name="Indexes")).to_have_count(0)

    put_rule(window, WRITES)
    window.page.reload()
    window.page.get_by_role("link", name="Insert").wait_for()
    expect(document.get_by_role("button", name="Edit")).to_have_count(0)
    drop_rule(window, "writes")


def test_a_refusal_makes_the_page_look_again_at_what_is_allowed(window: Window) -> None:
    put_rule(window, READS)
    put_rule(window, WRITES)
    window.open("/data/posts")
    window.log_in(READER)
    window.page.get_by_role("link", name="Insert").click()
    drop_rule(window, "writes")
    window.write("New document", '{"title": "mine"}')
    window.page.get_by_role("button", name="Insert").click()
    window.page.get_by_text("You may not insert documents here").wait_for()
    expect(window.page.get_by_role("link", name="Insert")).to_have_count(0)
