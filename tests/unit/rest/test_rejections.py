"""What callers are told of an operator that the database does not know."""

from __future__ import annotations

from docgraph.exchange.errors import StoreRejected
from docgraph.rest.rejections import name_operator


def reject(text: str) -> StoreRejected:
    error = StoreRejected("invalid query")
    error.__cause__ = ValueError(text)
    return error


def test_an_operator_of_a_rule_is_not_named() -> None:
    error = reject("unknown operator: $gtt")

    assert name_operator(error, b"filter=%7Bn%3A1%7D", {"$inc": {}}) is None
    told = name_operator(error, b"filter=%7Bn%3A%7B%24gtt%3A1%7D%7D", ())
    assert told is not None
    assert told.hint == "it has no operator $gtt there"


def test_what_is_no_word_of_an_unknown_operator_is_as_it_was() -> None:
    assert (
        name_operator(reject("$gt needs a number"), b"filter=%7Bn%3A%7B%24gt%3A1%7D%7D", ()) is None
    )
