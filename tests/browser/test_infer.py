"""An app from collections in a real browser: chosen, reviewed, edited, tried, saved, run again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.harness import Place, Window
from tests.databases import drop, new_name
from tests.programs import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator

MANY = 30  # collections


@pytest.fixture(scope="module")
def shop(place: Place) -> Iterator[str]:
    """A database of its own with many collections."""
    db = new_name()
    shop = place.mongo[db]
    shop["customers"].insert_many({"_id": f"c-{n:04}", "name": f"N{n}"} for n in range(20))
    shop["orders"].insert_many(
        {
            "_id": n,
            "customerId": f"c-{n % 20:04}",
            "total": n * 1.5,
            "status": ["open", "shipped"][n % 2],
            "password": f"secret {n}",
        }
        for n in range(120)
    )
    for number in range(MANY - 2):
        shop[f"log_{number:02}"].insert_one({"_id": 1, "text": "x", "size": number})
    yield db
    drop(place.mongo, db)


def start(window: Window, shop: str, name: str) -> Locator:
    """The choice of collections for a new app; the form of it."""
    page = window.page
    window.open("/apps")
    window.log_in()
    page.get_by_role("button", name="New app").click()
    dialog = page.get_by_role("dialog", name="New app")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_role("button", name="My collections").click()
    dialog.get_by_role("button", name="Begin").click()
    page.get_by_label("Database").select_option(shop)
    expect(page.get_by_role("checkbox")).to_have_count(MANY)
    return page.locator("main")


def choose(main: Locator, *names: str) -> None:
    """Select these collections alone, and read them."""
    main.get_by_role("button", name="Select none").click()
    for name in names:
        main.get_by_role("checkbox", name=name).check()
    number = f"{len(names)} collections" if len(names) > 1 else "1 collection"
    main.get_by_role("button", name=f"Read a sample of {number}").click()


def test_types_are_renamed_and_dropped_tried_and_saved(window: Window, shop: str) -> None:
    main = start(window, shop, "sold")
    expect(main.get_by_text("120", exact=True)).to_be_visible()
    choose(main, "customers", "orders")
    main.get_by_text("2 types, 1 enum, 1 relation found; 1 property left out.").wait_for()
    main.get_by_role("img", name="2 types, 1 relation").wait_for()
    relations = main.get_by_role("region", name="Relations")
    relations.get_by_text(
        "Order.customer refers to Customer; reverse field: Customer.orders"
    ).wait_for()
    relations.get_by_text("orders.customerId refers to customers._id").wait_for()
    main.get_by_role("tab", name="Left out").click()
    main.get_by_text("Order.password").wait_for()

    main.get_by_role("tab", name="Types").click()
    main.locator("summary").filter(has_text="Order").first.click()
    main.get_by_label("Name of Order", exact=True).fill("9")
    main.get_by_text("1 name cannot be used: see Types.").wait_for()
    expect(main.get_by_role("button", name="Try it")).to_be_disabled()
    main.get_by_label("Name of Order", exact=True).fill("Purchase")
    main.get_by_label("Name of Order.total", exact=True).fill("amount")
    main.get_by_label("Include Order.customerId").uncheck()
    main.get_by_role("tab", name="Schema").click()
    expect(main.locator("pre")).to_contain_text("type Purchase {")

    main.get_by_role("button", name="Try it").click()
    window.page.get_by_role("tab", name="Try", selected=True).wait_for()
    window.page.get_by_role("status", name="Check").get_by_text("No findings").wait_for()
    expect(window.page.get_by_role("textbox", name="Query")).to_contain_text("{")  # the example
    window.write("Query", "{ orders(limit: 1, sortByTotal: DESC) { amount customer { name } } }")
    main.get_by_role("button", name="Run").click()
    main.get_by_text("178.5").wait_for()
    stored = window.place.mongo[window.place.db]["gql-apps"]
    assert stored.find_one({"_id": "sold"}) is None
    main.get_by_role("button", name="Save", exact=True).click()
    main.get_by_text("Saved.").wait_for()
    saved = stored.find_one({"_id": "sold"}) or {}
    assert saved["mappings"]["Purchase"]["amount"] == "total"
    assert "# customerId: String" in saved["schema"]
    assert saved["descriptor"]["json-mode"] == "plain"


def read_again(main: Locator) -> None:
    """Read two collections for an app that exists."""
    main.get_by_role("link", name="From my collections").click()
    expect(main.get_by_role("checkbox")).to_have_count(MANY)
    choose(main, "customers", "orders")


def test_reading_again_shows_what_is_new_and_adds_it_to_the_draft(
    window: Window, place: Place, shop: str
) -> None:
    mappings = {"Query": {"people": {"db": shop, "collection": "customers"}}}
    schema = "type Query {\n  people: [Person]\n}\ntype Person {\n  _id: String\n}\n"
    place.define("again", schema, mappings)
    window.open("/apps/again")
    window.log_in()
    main = window.page.locator("main")
    main.get_by_role("link", name="From my collections").click()
    expect(main.get_by_label("Database")).to_have_value(shop)
    expect(main.get_by_role("checkbox")).to_have_count(MANY)
    choose(main, "customers", "orders")
    new = main.get_by_role("list", name="New")
    new.get_by_text("Person.name", exact=True).wait_for()
    new.get_by_text("Query.orders", exact=True).wait_for()
    assert window.find_barriers_on_any_screen() == []
    main.get_by_role("button", name="Add to the draft").click()
    window.page.get_by_text("Unsaved changes").wait_for()
    expect(window.page.get_by_role("textbox", name="Schema")).to_contain_text("people: [Person]")
    window.page.get_by_role("status", name="Check").get_by_text("No findings").wait_for()

    read_again(main)
    main.get_by_text("The definition has everything").wait_for()


def test_additions_are_chosen_one_by_one_and_the_others_stay_out(
    window: Window, place: Place, shop: str
) -> None:
    mappings = {"Query": {"people": {"db": shop, "collection": "customers"}}}
    schema = "type Query {\n  people: [Person]\n}\ntype Person {\n  _id: String\n}\n"
    place.define("some", schema, mappings)
    window.open("/apps/some")
    window.log_in()
    main = window.page.locator("main")
    read_again(main)
    box = main.get_by_role("list", name="New").get_by_role("checkbox", name="Person.name")
    box.press("Space")
    expect(box).not_to_be_checked()
    assert window.find_barriers_on_any_screen() == []
    main.get_by_role("button", name=re.compile(r"Add \d+ of \d+ to the draft")).click()
    text = window.page.get_by_role("textbox", name="Schema")
    expect(text).to_contain_text("# name: String")
    expect(text).to_contain_text("type Order")
    window.page.get_by_role("status", name="Check").get_by_text("No findings").wait_for()
    read_again(main)
    main.get_by_text("The definition has everything").wait_for()


def test_thirty_collections_are_chosen_and_reviewed_by_keyboard(window: Window, shop: str) -> None:
    main = start(window, shop, "many")
    assert window.find_barriers_on_any_screen() == []
    press = window.page.keyboard.press
    main.get_by_role("searchbox", name="Filter collections").press_sequentially("log_0")
    expect(main.get_by_role("checkbox")).to_have_count(10)
    press("Tab")
    press("Tab")
    press("Enter")  # none of those that are shown
    main.get_by_role("button", name=f"Read a sample of {MANY - 10} collections").wait_for()
    press("Shift+Tab")
    press("Enter")
    submit = main.get_by_role("button", name=f"Read a sample of {MANY} collections")
    submit.focus()
    press("Enter")
    main.get_by_role("img", name=f"{MANY} types, 1 relation").wait_for()
    assert window.find_barriers_on_any_screen() == []

    window.page.get_by_role("tab", name="Diagram").focus()
    press("ArrowRight")
    filter_ = main.get_by_role("searchbox", name="Filter types")
    filter_.press_sequentially("customer")
    expect(main.locator("summary")).to_have_count(3)  # Customer, Order by its field, Query
    main.locator("summary").filter(has_text="customers").focus()
    press("Enter")
    include = main.get_by_label("Include Customer", exact=True)
    expect(include).to_be_checked()
    press("Tab")
    expect(include).to_be_focused()
    press("Space")
    expect(include).not_to_be_checked()
    expect(main.locator("summary").filter(has_text="customers")).to_contain_text("left out")
    assert window.find_barriers_on_any_screen() == []
