"""Words of a search, and names as words."""

from __future__ import annotations

import pytest
from bench.questions import BAR, SETS, evaluate
from graphql import build_schema

from docgraph.graphql.schema_search import search_schema, split_words, stem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("topRatedFilms", ("top", "rated", "films")),
        ("top_rated films", ("top", "rated", "films")),
        ("HTTPStatus 404", ("http", "status", "404")),
        ("Größe größe", ("größe",)),
        ("…!?", ()),
    ],
)
def test_names_and_sentences_are_split_into_words(text: str, words: tuple[str, ...]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize("name", SETS)
def test_plain_questions_find_their_fields(name: str) -> None:
    rate, missed = evaluate(name)

    assert rate >= BAR, missed


SCHEMA = build_schema("""
scalar DateTime
type Query { orders: [Order] orderCount: Int! ordersPerMonth: [Month] }
type Order { placed: DateTime status: String }
type Month { month: String orders: Int }
""")


@pytest.mark.parametrize("question", ["date", "when", "DateTime of an order", "string int boolean"])
def test_built_in_scalars_are_never_found(question: str) -> None:
    hits = search_schema(SCHEMA, split_words(question))

    assert not {hit.place for hit in hits} & {"DateTime", "String", "Int", "Boolean"}


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("How many orders are there?", "Query.orderCount"),
        ("average of orders per month", "Query.ordersPerMonth"),
        ("show me some orders", "Query.orders"),
    ],
)
def test_fields_that_count_or_group_come_first_where_that_is_asked(
    question: str, first: str
) -> None:
    purposes = {"Query.orderCount": "count", "Query.ordersPerMonth": "group"}

    (hit, *_) = search_schema(SCHEMA, split_words(question), purposes)

    assert hit.place == first


@pytest.mark.parametrize(
    "forms",
    [
        ("order", "orders", "ordered", "ordering"),
        ("category", "categories"),
        ("plan", "planned", "planning"),
        ("place", "placed", "placing"),
        ("dress", "dresses"),
    ],
)
def test_the_forms_of_a_word_are_one(forms: tuple[str, ...]) -> None:
    assert len({stem(word) for word in forms}) == 1
