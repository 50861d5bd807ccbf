"""API keys in the console: made, shown once, rotated and revoked (decision 72)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx2
import pytest

from docgraph.auth.credentials import ApiKeyText
from tests.browser.harness import ADMIN, PASSWORD, Place, Window, open_window, placed
from tests.expect import present
from tests.http.harness import Mongo

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

LATER = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%d")


@pytest.fixture(scope="module")
def place(browser: Browser, mongo_client: Mongo, mongo_uri: str) -> Iterator[Place]:
    """The server of the module, which knows keys."""
    keys = {"apiKeyMechanism": {"enabled": True, "allow-root-role": True}}
    with placed(mongo_client, mongo_uri, keys) as one:
        yield one


def open_keys(window: Window) -> Locator:
    """Open the tab as an administrator; the form for a key."""
    window.open("/access/keys")
    window.log_in()
    return window.page.get_by_role("region", name="New key")


def order(form: Locator, name: str, **fields: str) -> None:
    """Fill in and send the form."""
    for label, text in {"Name": name, "Ends on": LATER, **fields}.items():
        form.get_by_label(label).fill(text)
    roles = form.get_by_role("combobox", name="Roles")
    roles.fill("admin")
    roles.press("Enter")
    form.get_by_role("button", name="Make").click()


def read_secret(window: Window, name: str) -> str:
    """The text that the notice shows, and nothing else does."""
    notice = window.page.get_by_text(f"The key {name} is shown once")
    notice.wait_for()
    secret: str = window.page.locator("code.access-secret").inner_text()
    return secret


def knows(place: Place, text: str) -> int:
    """The status of a request with the key."""
    headers = {"authorization": f"Bearer {text}"}
    return httpx2.get(f"{place.url}/posts", headers=headers).status_code


def test_a_key_is_made_shown_once_rotated_and_revoked(window: Window) -> None:
    form = open_keys(window)
    page, place = window.page, window.place
    order(form, "nightly", Networks="127.0.0.0/8, ::1/128", Properties="roles")
    text = read_secret(window, "nightly")
    assert ApiKeyText.parse(text).render() == text
    assert knows(place, text) == 200
    stored = present(place.mongo[place.db]["_apiKeys"].find_one({"name": "nightly"}))
    assert (stored["owner"], stored["networks"]) == (ADMIN, ["127.0.0.0/8", "::1/128"])
    assert (stored["roles"], stored["inherits"]) == (["admin"], ["roles"])

    row = page.get_by_role("row", name=f"{ADMIN}/nightly")
    row.get_by_role("button", name="Rotate").click()
    page.get_by_text(ApiKeyText.parse(text).secret).wait_for(state="detached")
    other = read_secret(window, "nightly")
    assert other != text
    assert [knows(place, key) for key in (text, other)] == [200, 200]

    window.open("/access/keys")  # a reloaded page knows no secret
    row.wait_for()
    assert ApiKeyText.parse(other).secret not in page.content()
    row.get_by_role("button", name="Revoke").click()
    assert knows(place, other) == 200  # it asks first
    row.get_by_role("button", name="Revoke now").click()
    row.wait_for(state="detached")
    assert [knows(place, key) for key in (text, other)] == [401, 401]


def test_what_cannot_be_made_or_rotated_is_said(window: Window) -> None:
    form = open_keys(window)
    page, keys = window.page, window.place.mongo[window.place.db]["_apiKeys"]
    order(form, "far", Networks="nowhere")
    page.get_by_text("not a network").wait_for()
    assert keys.count_documents({"name": "far"}) == 0
    order(form, "far", Networks="10.0.0.0/8")
    text = read_secret(window, "far")
    assert knows(window.place, text) == 401  # from here
    keys.update_one({"name": "far"}, {"$set": {"notAfter": datetime(2026, 1, 1)}})
    window.open("/access/keys")
    row = page.get_by_role("row", name=f"{ADMIN}/far")
    row.get_by_text("has ended").wait_for()
    row.get_by_role("button", name="Rotate").click()
    page.get_by_text("the key has ended").wait_for()
    page.get_by_text("make another one").wait_for()


def test_the_tab_says_that_keys_are_off(
    browser: Browser, mongo_client: Mongo, mongo_uri: str
) -> None:
    with placed(mongo_client, mongo_uri) as place, open_window(browser, place) as window:
        window.open("/access/keys")
        window.log_in()
        window.page.get_by_text("API keys are off").wait_for()


def test_everyone_can_use_the_tab(window: Window) -> None:
    """On a wide screen, light and dark, and on a narrow one."""
    order(open_keys(window), "seen")
    read_secret(window, "seen")
    assert window.find_barriers_on_any_screen() == []
    assert PASSWORD not in window.page.content()
