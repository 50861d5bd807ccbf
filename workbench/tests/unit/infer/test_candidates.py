"""Which names speak for a relation, and which values are worth asking about without one."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.store.catalog import Listed
from docgraph_workbench.infer.candidates import (
    find_keys,
    find_sources,
    is_copy,
    score_name,
    stem_of,
)
from docgraph_workbench.infer.relations import find_candidates
from docgraph_workbench.infer.survey import Surveyed

TEXTS = ("JFK", "LAX", "SFO", "ORD", "BOS", "SEA")


def survey(name: str, *documents: dict[str, Any]) -> Surveyed:
    found = Surveyed("d", Listed(name), documents=len(documents))
    found.profile.add_all(documents)
    return found


@pytest.mark.parametrize(
    ("path", "stem"),
    [
        (("customerId",), ["customer"]),
        (("category_ids",), ["category"]),
        (("items", "productId"), ["product"]),
        (("author", "_id"), ["author"]),
        (("author",), ["author"]),
        (("billing_customer_id",), ["billing", "customer"]),
        (("_id",), []),
        (("kd_nr",), ["kd"]),
        (("kdnr",), ["kd"]),
        (("Kundennummer",), ["kunde"]),
        (("auftragsNr",), ["auftrag"]),
        (("AuftragsNummer",), ["auftrag"]),
        (("nr",), []),
        (("id_produto",), ["produto"]),
        (("ref",), []),
    ],
)
def test_a_name_says_what_it_refers_to(path: tuple[str, ...], stem: list[str]) -> None:
    assert stem_of(path) == stem


@pytest.mark.parametrize(
    ("field", "collection", "strength"),
    [
        ("customerId", "customers", 2),
        ("billingCustomer", "customers", 2),
        ("user", "app_users", 2),
        ("ownerId", "users", 1),
        ("createdBy", "people", 1),
        ("year", "customers", 0),
        ("kd_nr", "Kunden", 1),
        ("kdnr", "Kunden", 1),
        ("kundennr", "Kunden", 2),
        ("auftr_nr", "Auftraege", 1),
        ("auftr_nr", "tbl_auftrag", 1),
        ("auftragsnummer", "Auftraege", 2),
        ("lieferant_nr", "Lieferanten", 2),
        ("lief_nr", "Lieferanten", 1),
        ("rg_nr", "Rechnungen", 1),
        ("mitarb_id", "Mitarbeiter", 1),
        ("id_client", "clientes", 1),
        ("cod_prov", "proveedores", 1),
        ("auftr", "Auftraege", 0),
        ("auftrag_nr", "Kunden", 0),
        ("art_nr", "Artikel", 1),
        ("cust_id", "customers", 1),
        ("cod_prod", "produtos", 1),
        ("id_produto", "produtos", 2),
        ("prod", "produtos", 0),
        ("kd", "Kunden", 0),
        ("pd_nr", "Kunden", 0),
        ("parentId", "orders", 1),
    ],
)
def test_names_fit_well_a_little_or_not(field: str, collection: str, strength: int) -> None:
    orders = survey("orders", {"_id": 1, field: 5})
    target = orders if collection == "orders" else survey(collection, {"_id": 5})
    (source,) = find_sources(orders)

    assert score_name(source, next(find_keys(target))) == strength


def test_the_key_of_a_collection_is_no_reference_of_its_own() -> None:
    accounts = survey("accounts", *({"_id": n, "account_id": n} for n in range(9)))

    assert list(find_sources(accounts)) == []
    assert [key.name for key in find_keys(accounts)] == ["_id", "account_id"]


def test_a_key_of_another_collection_is_a_reference_where_it_is_repeated() -> None:
    keys = list(find_keys(survey("products", *({"_id": n, "sku": f"S-{n}"} for n in range(9)))))
    lines = survey("order_lines", *({"_id": n, "sku": f"S-{n % 8}"} for n in range(20)))
    (source,) = find_sources(lines)

    assert [one.key.name for one in find_candidates(source, keys)] == ["sku"]


def test_a_key_word_may_come_first() -> None:
    clients = survey("clientes", *({"_id": f"c{n}", "id_cliente": n} for n in range(9)))
    orders = survey("pedidos", *({"_id": n, "id_cliente": n % 8} for n in range(20)))
    (source,) = find_sources(orders)
    found = find_candidates(source, list(find_keys(clients)))

    assert list(find_sources(clients)) == []
    assert [(one.key.name, one.strength) for one in found] == [("id_cliente", 2)]


def test_a_reference_that_two_collections_share_is_no_key_of_either() -> None:
    orders = survey("orders", *({"_id": n, "customerId": n} for n in range(9)))
    reviews = survey("reviews", *({"_id": n, "customerId": n} for n in range(9)))
    (source,) = find_sources(orders)
    key = next(one for one in find_keys(reviews) if one.name == "customerId")

    assert is_copy(source, key)
    assert [one.key.name for one in find_candidates(source, [key])] == []


@pytest.mark.parametrize(
    ("values", "is_asked"),
    [
        (TEXTS, True),
        (TEXTS[:3], False),  # too few to tell
        ("ABCDEF", False),  # letters are found everywhere
        (tuple(map(str, range(10, 20))), False),  # and so are small numbers
        (tuple(f"a long text {n}" for n in range(9)), False),
    ],
)
def test_texts_without_a_name_are_asked_about_when_they_look_like_keys(
    values: tuple[str, ...], is_asked: bool
) -> None:
    keys = list(find_keys(survey("airports", *({"_id": text} for text in (*TEXTS, "AB", "11")))))
    flights = survey("flights", *({"_id": n, "dest": text} for n, text in enumerate(values)))
    (source,) = find_sources(flights)

    assert bool(list(find_candidates(source, keys))) is is_asked
