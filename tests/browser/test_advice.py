"""The advice on an app in a real browser: findings, and indexes that are created and undone."""

from __future__ import annotations

from tests.browser.harness import Window
from tests.programs import expect

SCHEMA = (
    "type Query {\n  orders(sku: String!): [Order]\n}\ntype Order {\n  _id: Int\n  sku: Int\n}\n"
)
MANY = 1_200  # documents: more than few


def define(window: Window, name: str) -> None:
    """An app whose query scans a collection, and whose data are not as declared."""
    orders = window.place.mongo[window.place.db][name]
    orders.drop()
    orders.insert_many({"_id": n, "sku": f"S{n % 300}"} for n in range(MANY))
    mapping = window.place.find(name, {"sku": {"$arg": "sku"}})
    window.place.define(name, SCHEMA, {"Query": {"orders": mapping}})


def test_an_index_is_created_and_undone(window: Window) -> None:
    define(window, "advised")
    window.open("/apps/advised")
    window.log_in()
    page, orders = window.page, window.place.mongo[window.place.db]["advised"]
    page.get_by_role("tab", name="Advice").click()
    indexes = page.get_by_role("region", name="Indexes that help")
    indexes.get_by_role("button", name="Create this index").click()
    assert window.find_barriers() == []
    page.get_by_role("dialog").get_by_role("button", name="Create", exact=True).click()
    indexes.get_by_text("Created.").wait_for()
    made = [name for name in orders.index_information() if name.startswith("sku_1")]
    assert len(made) == 1
    indexes.get_by_role("button", name="Undo").click()
    indexes.get_by_role("button", name="Create this index").wait_for()
    assert list(orders.index_information()) == ["_id_"]
    assert window.find_barriers_on_any_screen() == []


def test_a_finding_leads_to_its_field_in_the_schema(window: Window) -> None:
    define(window, "mistyped")
    window.open("/apps/mistyped")
    window.log_in()
    window.page.get_by_role("tab", name="Advice").click()
    advice = window.page.get_by_role("region", name="Advice", exact=True)
    finding = advice.get_by_role("listitem").filter(has_text="Order.sku")
    finding.get_by_role("button", name="Show in the schema").click()
    line = window.page.get_by_role("region", name="Schema").locator(".cm-activeLine")
    expect(line).to_have_text("sku: Int")
