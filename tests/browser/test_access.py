"""The Access page in a real browser: who may what, seen, changed and explained."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
from tests.expect import present
from tests.http.harness import Mongo
from tests.http.realms import hashed
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Route

FILE_RULE = {"predicate": "path('/status')", "roles": [HOSTILE], "description": HOSTILE}
SECRETIVE = """
type Query { posts: [Post] }
type Post { _id: Int!  title: String!  likes: Int @visible(roles: ["counter"]) }
"""


@pytest.fixture(scope="module")
def place(browser: Browser, mongo_client: Mongo, mongo_uri: str) -> Iterator[Place]:
    """The server of the module, with a rule in its configuration."""
    settings = {"fileAclAuthorizer": {"enabled": True, "permissions": [FILE_RULE]}}
    with placed(mongo_client, mongo_uri, settings) as one:
        yield one


def open_access(window: Window, section: str, name: str = ADMIN) -> None:
    """Open a part of the page as somebody."""
    window.open(f"/access/{section}")
    window.log_in(name)


def knows(place: Place, name: str, password: str) -> int:
    """The status of a login."""
    return httpx2.get(f"{place.url}/roles/{name}", auth=(name, password)).status_code


def add_role(within: Locator, label: str, role: str) -> None:
    """Type a role, as people do."""
    field = within.get_by_role("combobox", name=label, exact=True)
    field.fill(role)
    field.press("Enter")


def pretend_no_collection(window: Window, name: str) -> list[str]:
    """Answer the first insertion as a new server does; the methods that the collection sees."""
    sent: list[str] = []

    def answer(route: Route) -> None:
        method = route.request.method
        if method in ("POST", "PUT"):
            sent.append(method)
        if method in ("POST", "PUT") and len(sent) == 1:
            route.fulfill(status=404, json={"message": "it does not exist"})
        else:
            route.fallback()

    window.page.route(re.compile(rf"/{name}(\?.*)?$"), answer)
    return sent


def put_user(place: Place, name: str, *roles: str) -> None:
    place.mongo[place.db]["users"].replace_one(
        {"_id": name}, {"password": hashed(PASSWORD), "roles": list(roles)}, upsert=True
    )


def put_rule(place: Place, id: str, predicate: str, *roles: str, **others: Any) -> None:
    """Store a rule as the REST API does, so that it is in force at once."""
    rule = {"predicate": predicate, "roles": list(roles), **others}
    reply = httpx2.put(f"{place.url}/acl/{id}?wm=upsert", json=rule, auth=(ADMIN, PASSWORD))
    assert reply.status_code in (200, 201), reply.text


def test_users_are_added_changed_and_deleted_and_no_hash_is_shown(window: Window) -> None:
    open_access(window, "users")
    page, place = window.page, window.place
    table = page.get_by_role("region", name="Users")
    table.get_by_role("link", name=HOSTILE).wait_for()
    page.get_by_role("link", name="Add a user").click()
    form = page.get_by_role("region", name="New user")
    form.get_by_label("Name").fill("nora")
    form.get_by_label("Password").fill(PASSWORD)
    add_role(form, "Roles", "writer")
    form.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("nora can log in now.").wait_for()
    assert knows(place, "nora", PASSWORD) == 200

    table.get_by_role("link", name="nora").click()
    user = page.get_by_role("region", name="User", exact=True)
    add_role(user, "Roles", "editor")
    user.get_by_role("button", name="Remove writer").click()
    user.get_by_role("button", name="Save roles").click()
    user.get_by_text("Saved.").wait_for()
    table.get_by_role("row", name="nora editor").wait_for()
    user.get_by_label("New password").fill("another long secret")
    user.get_by_role("button", name="Set password").click()
    user.get_by_text("The password is set.").wait_for()
    assert (knows(place, "nora", PASSWORD), knows(place, "nora", "another long secret")) == (
        401,
        200,
    )
    assert present(place.mongo[place.db]["users"].find_one({"_id": "nora"}))["roles"] == ["editor"]
    assert "$2a$" not in page.content()

    user.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    user.get_by_text("There is no such user").wait_for()
    table.get_by_role("link", name="nora").wait_for(state="detached")
    expect(page.locator("main img, main script, main b")).to_have_count(0)


def test_changes_of_a_user_that_follow_each_other_do_not_collide(window: Window) -> None:
    """Each change waits until the user has been read again after the one before."""
    put_user(window.place, "vera", "writer")
    window.delay_answers(1000)
    open_access(window, "users")
    page, users = window.page, window.place.mongo[window.place.db]["users"]
    page.get_by_role("link", name="vera").click()
    user = page.get_by_role("region", name="User", exact=True)
    for role in ("editor", "auditor"):
        add_role(user, "Roles", role)
        user.get_by_role("button", name="Save roles").click()
    user.get_by_label("New password").fill("another long secret")
    user.get_by_role("button", name="Set password").click()

    user.get_by_text("The password is set.").wait_for()
    assert present(users.find_one({"_id": "vera"}))["roles"] == ["writer", "editor", "auditor"]


def test_a_user_who_was_changed_meanwhile_is_not_overwritten(window: Window) -> None:
    put_user(window.place, "olga", "writer")
    open_access(window, "users")
    page, users = window.page, window.place.mongo[window.place.db]["users"]
    page.get_by_role("link", name="olga").click()
    user = page.get_by_role("region", name="User", exact=True)
    add_role(user, "Roles", "editor")
    users.update_one({"_id": "olga"}, {"$set": {"roles": ["auditor"]}})
    user.get_by_role("button", name="Save roles").click()

    user.get_by_text("was changed in the meantime").wait_for()
    user.get_by_text("Stored now: auditor").wait_for()
    assert present(users.find_one({"_id": "olga"}))["roles"] == ["auditor"]
    user.get_by_role("button", name="Remove editor").wait_for()  # what was typed stays
    user.get_by_role("button", name="Save roles").click()
    user.get_by_text("Saved.").wait_for()
    assert present(users.find_one({"_id": "olga"}))["roles"] == ["writer", "editor"]

    add_role(user, "Roles", "admin")
    user.get_by_role("button", name="Save roles").click()
    user.get_by_text("The role admin cannot be given here").wait_for()


def test_a_rule_is_checked_while_it_is_typed_then_stored_and_deleted(window: Window) -> None:
    open_access(window, "rules")
    page, rules = window.page, window.place.mongo[window.place.db]["acl"]
    made = pretend_no_collection(window, "acl")
    page.get_by_role("link", name="Add a rule").first.click()
    rule = page.get_by_role("region", name="Rule", exact=True)
    expect(rule.get_by_role("button", name="Add", exact=True)).to_be_disabled()
    rule.get_by_label("Name").fill("own-notes")
    window.write("Predicate", "path-prefix('/notes' and method(GET)")
    rule.get_by_text("column 22: expected ',', found 'and'").wait_for()
    rule.get_by_text("must be a list of roles that is not empty").wait_for()
    expect(rule.get_by_role("button", name="Add", exact=True)).to_be_disabled()
    window.write("Predicate", "path-prefix('/notes') and method(GET)")
    add_role(rule, "For the roles", "user")
    rule.get_by_label("Priority").fill("7")
    rule.get_by_role("button", name="readFilter", exact=True).click()
    window.write("readFilter", '{"owner": "@user._id",\n "n": }')
    rule.get_by_text("Line 2").wait_for()
    window.write("readFilter", '{owner: "@user._id", n: {$gt: NumberLong(1)}}')
    rule.get_by_text("Line 2").wait_for(state="detached")
    rule.get_by_label("allowBulkPatch").check()
    rule.get_by_role("button", name="Add", exact=True).click()

    page.get_by_role("heading", name="own-notes").wait_for()
    page.get_by_role("region", name="Rules").get_by_role("link", name="own-notes").wait_for()
    stored = rules.find_one({"_id": "own-notes"}, {"_id": 0, "_etag": 0})
    assert stored == {
        "predicate": "path-prefix('/notes') and method(GET)",
        "roles": ["user"],
        "priority": 7,
        "mongo": {
            "allowBulkPatch": True,
            "readFilter": {"owner": "@user._id", "n": {"$gt": 1}},
        },
    }
    rule.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    rule.get_by_text("There is no such rule").wait_for()
    assert rules.find_one({"_id": "own-notes"}) is None
    assert made == ["POST", "PUT", "POST"]


def test_a_rule_outlives_a_lost_connection_and_does_not_run_over_another(window: Window) -> None:
    put_rule(window.place, "shared", "path('/a')", "user")
    open_access(window, "rules")
    page, rules = window.page, window.place.mongo[window.place.db]["acl"]
    page.get_by_role("link", name="shared").click()
    rule = page.get_by_role("region", name="Rule", exact=True)
    window.write("Predicate", "path('/mine')")
    rule.get_by_text("not saved", exact=True).wait_for()
    page.context.set_offline(True)
    rule.get_by_role("button", name="Save", exact=True).click()
    rule.get_by_text("The server does not answer.").wait_for()
    page.context.set_offline(False)
    put_rule(window.place, "shared", "path('/theirs')", "user")
    page.reload()

    rule.get_by_text("This rule was changed in the meantime").wait_for()
    expect(rule.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    assert present(rules.find_one({"_id": "shared"}))["predicate"] == "path('/theirs')"
    rule.get_by_role("button", name="Keep mine").click()
    rule.get_by_role("button", name="Save", exact=True).click()
    rule.get_by_text("not saved", exact=True).wait_for(state="detached")
    assert present(rules.find_one({"_id": "shared"}))["predicate"] == "path('/mine')"


def test_why_a_request_is_denied_names_the_condition_and_the_roles(window: Window) -> None:
    put_rule(window.place, "write", "path-prefix('/notes') and bson-request-whitelist(a)", "user")
    put_rule(window.place, "all", "path-prefix('/notes')", "editor")
    open_access(window, "why")
    page = window.page
    page.get_by_label("Method").select_option("POST")
    page.get_by_label("Path").fill("/notes")
    add_role(page.get_by_role("form", name="Request"), "Roles", "user")
    window.write("Body", '{"a": 1, "b": 2}')
    page.get_by_role("button", name="Why?").click()
    page.get_by_text("Denied with 403").wait_for()
    own = page.get_by_role("list", name="Rules for this caller")
    own.get_by_text("bson-request-whitelist(a) does not hold").wait_for()
    page.get_by_role("list", name="Rules for other roles").get_by_text("all (database)").wait_for()
    window.write("Body", '{"a": 1}')
    page.get_by_role("button", name="Why?").click()
    page.get_by_text("Allowed", exact=True).wait_for()
    own.get_by_text("decides").wait_for()
    page.get_by_label("Asked by").select_option("anonymous")
    page.get_by_role("button", name="Why?").click()
    page.get_by_text("Denied with 401").wait_for()


def test_an_administrator_looks_as_a_role_and_leaves_it_with_one_click(window: Window) -> None:
    place = window.place
    place.define("secretive", SECRETIVE, {"Query": {"posts": place.find("posts", {"_id": 1})}})
    put_rule(place, "secretive", "path-prefix('/graphql/secretive')", "reader")
    open_access(window, "look")
    page = window.page
    add_role(page.locator("main"), "Roles", "reader")
    page.get_by_role("button", name="Open Ask as this caller").click()
    page.get_by_text("You view this as a caller with the role reader").wait_for()
    page.get_by_label("App", exact=True).select_option("secretive")
    window.write("Query", "{ posts { title likes } }")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("Cannot query field").first.wait_for()
    window.write("Query", "{ posts { title } }")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("list", name="Answer").get_by_text("Post 1").wait_for()
    page.get_by_label("App", exact=True).select_option("vault")
    page.get_by_text("This caller may not use this app").wait_for()
    page.get_by_role("button", name="View as yourself again").click()
    page.get_by_text("This caller may not use this app").wait_for(state="detached")
    expect(page.get_by_text("You view this as")).to_have_count(0)


def test_a_restricted_user_is_told_what_to_do_and_sees_what_rules_open(window: Window) -> None:
    place = window.place
    put_user(place, "keeper", "keeper")
    open_access(window, "users", READER)
    page = window.page
    page.get_by_text("You have the roles reader.").wait_for()
    page.get_by_role("button", name="Log out").click()
    put_rule(place, "realm", "path('/_tools/realm') and method(GET)", "keeper")
    put_rule(place, "users", "path-prefix('/users')", "keeper")
    window.log_in("keeper")
    page.get_by_role("link", name=READER).click()
    page.get_by_role("heading", name=READER).wait_for()
    page.get_by_role("tab", name="Users").press("ArrowRight")
    page.get_by_text("Only the root role, admin, may read them").wait_for()
    page.get_by_role("tab", name="Why").click()
    page.get_by_role("heading", name="Explanations are for the root role").wait_for()
    page.get_by_role("tab", name="View as").click()
    page.get_by_role("heading", name="Viewing as another caller is for the root role").wait_for()
    page.get_by_text("you do not have it").wait_for()


def test_every_part_is_open_to_screen_readers_and_narrow_screens(
    browser: Browser, place: Place
) -> None:
    sizes = {"viewport": {"width": 360, "height": 760}}
    with open_window(browser, place, **sizes) as window:
        open_access(window, "users")
        page = window.page
        page.get_by_role("link", name=READER).click()
        page.get_by_label("New password").wait_for()
        assert window.find_barriers() == []
        page.get_by_role("tab", name="Rules").click()
        page.get_by_role("link", name="permissions[0] (file)").click()
        page.get_by_text("This rule is in the configuration").wait_for()
        page.get_by_role("button", name="Close").click()
        page.get_by_role("link", name="everybody").click()
        page.get_by_role("textbox", name="Predicate").wait_for()
        assert window.find_barriers() == []
        page.get_by_role("tab", name="Why").click()
        page.get_by_role("button", name="Why?").wait_for()
        assert window.find_barriers() == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        last = page.get_by_role("tab", name="View as")
        assert last.evaluate("tab => tab.getBoundingClientRect().right") <= 360
        expect(page.locator("main img, main script")).to_have_count(0)
