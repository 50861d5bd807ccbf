"""Names of the schema out of names of the database."""

from __future__ import annotations

import pytest

from docgraph.workbench.infer.sensitive import is_personal, is_secret, looks_secret
from docgraph.workbench.infer.words import (
    NamePool,
    is_name,
    plural,
    safe_name,
    singular,
    split_words,
    upper_snake,
)


@pytest.mark.parametrize(
    ("many", "one"),
    [
        ("posts", "post"),
        ("categories", "category"),
        ("movies", "movie"),
        ("people", "person"),
        ("addresses", "address"),
        ("statuses", "status"),
        ("warehouses", "warehouse"),
        ("boxes", "box"),
        ("matches", "match"),
        ("analyses", "analysis"),
        ("purchases", "purchase"),
        ("series", "series"),
        ("news", "news"),
        ("media", "media"),
        ("aircraft", "aircraft"),
    ],
)
def test_a_collection_is_called_by_the_plural_of_what_it_holds(many: str, one: str) -> None:
    assert singular(many) == one
    assert plural(one) == many


@pytest.mark.parametrize("word", ["gas", "bus", "class", "status", "id", "us"])
def test_a_word_that_ends_like_a_plural_and_is_none_stays(word: str) -> None:
    assert singular(word) == word


def test_words_are_found_in_every_way_of_writing() -> None:
    for name in ("orderItems", "order_items", "order-items", "OrderItems", "ORDER_ITEMS"):
        assert split_words(name) == ["order", "items"]
    assert split_words("HTTPServer2") == ["http", "server", "2"]
    assert split_words("userIDs") == split_words("UserIds") == ["user", "ids"]
    assert split_words("ÜberGröße") == ["uber", "grosse"]


@pytest.mark.parametrize(
    ("text", "name"),
    [("in-progress", "IN_PROGRESS"), ("onHold", "ON_HOLD"), ("A320", "A320"), ("b2b", "B2B")],
)
def test_values_of_enums_keep_the_words_that_they_have(text: str, name: str) -> None:
    assert upper_snake(text) == name


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("first-name", "first_name"),
        ("2nd", "_2nd"),
        ("__typename", "typename"),
        ("a.b", "a_b"),
        ("名前", "field"),
        ("größe", "grosse"),
        ("prénom usuel", "prenom_usuel"),
        ("_id", "_id"),
    ],
)
def test_names_that_graphql_does_not_allow_become_the_nearest_ones(name: str, safe: str) -> None:
    assert safe_name(name) == safe
    assert is_name(safe)


def test_a_name_is_given_once() -> None:
    pool = NamePool({"limit"})

    given = [pool.claim(*wishes) for wishes in (("a",), ("a", "b"), ("a", "b"), ("limit",))]
    assert given == ["a", "b", "b2", "limit2"]


@pytest.mark.parametrize(
    "name",
    ["password", "passwordHash", "api_key", "accessToken", "client-secret", "apikey", "salt"],
)
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["hashtags", "tokenizer", "secretary", "keyboard", "passenger"])
def test_a_name_that_only_begins_like_a_secret_is_none(name: str) -> None:
    assert not is_secret(name)


def test_hashes_are_secrets_whatever_they_are_called() -> None:
    assert looks_secret(["$2b$12$abc", "$2b$12$def"])
    assert not looks_secret(["red", "$2b$12$abc", "blue"])
    assert not looks_secret([1, 2])


def test_what_tells_of_people_gives_no_examples() -> None:
    assert is_personal("contactEmail")
    assert is_personal("phone_number")
    assert not is_personal("color")
