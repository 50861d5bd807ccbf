"""The body of an index as the database wants it."""

from __future__ import annotations

from docgraph.rest.handlers.indexes import read_index


def test_name_and_background_are_left_out() -> None:
    keys, options = read_index(
        {"keys": {"a": 1, "b": -1}, "ops": {"name": "x", "background": True, "unique": True}}
    )

    assert list(keys.items()) == [("a", 1), ("b", -1)]
    assert options == {"unique": True}


def test_names_of_collation_options_are_translated() -> None:
    collation = {"locale": "de", "collationStrength": 2, "collationCaseFirst": "upper"}
    _, options = read_index({"keys": {"a": 1}, "ops": {"collation": collation}})

    assert options["collation"] == {"locale": "de", "strength": 2, "caseFirst": "upper"}


def test_options_are_optional() -> None:
    assert read_index({"keys": {"a": "text"}}) == ({"a": "text"}, {})
