"""JSON schemas: their address, their draft, and what they find."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from docgraph.codec.types import Int64, ObjectId
from docgraph.exchange.errors import NotSupported
from docgraph.rest.schemas.store import (
    DRAFT_4,
    InvalidSchema,
    address_of,
    compile_schema,
    identify,
)


def test_a_schema_gets_the_address_of_its_place() -> None:
    old = identify({"_id": "a b", "id": "http://elsewhere/"}, "db")
    new = identify(
        {"_id": ObjectId("0" * 24), "$schema": "https://json-schema.org/draft/2020-12/schema"}, "db"
    )

    assert old["id"] == "http://schema-store/db/a%20b#"
    assert old["$schema"] == DRAFT_4
    assert new["$id"] == f"http://schema-store/db/{'0' * 24}"
    assert "id" not in new


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("end", ["", "#"])
@pytest.mark.parametrize(
    ("draft", "keyword", "minimum"),
    [
        ("draft-04", "id", {"minimum": 1, "exclusiveMinimum": True}),
        ("draft-06", "$id", {"exclusiveMinimum": 1}),
        ("draft-07", "$id", {"exclusiveMinimum": 1}),
        ("draft/2019-09", "$id", {"exclusiveMinimum": 1}),
        ("draft/2020-12", "$id", {"exclusiveMinimum": 1}),
    ],
)
def test_a_draft_is_known_in_every_spelling(
    scheme: str, end: str, draft: str, keyword: str, minimum: dict[str, Any]
) -> None:
    written = f"{scheme}://json-schema.org/{draft}/schema{end}"

    schema = identify({"_id": "x", "$schema": written, "properties": {"n": minimum}}, "db")

    assert schema["$schema"] == written
    assert keyword in schema
    validator = compile_schema(schema, {})
    assert validator.find_violations({"n": 1})
    assert not validator.find_violations({"n": 2})


def test_an_unknown_draft_is_refused() -> None:
    with pytest.raises(InvalidSchema):
        identify({"_id": "x", "$schema": "http://example.com/meta"}, "db")


def test_violations_name_their_place_and_no_value() -> None:
    validator = compile_schema({"properties": {"a": {"items": {"type": "integer"}}}}, {})
    (violation,) = validator.find_violations({"a": [1, "secret"]})

    assert violation == '#/a/1: the value is not of type "integer"'


def test_only_the_first_violations_are_told() -> None:
    validator = compile_schema({"items": {}, "additionalProperties": {"type": "string"}}, {})

    found = validator.find_violations({f"p{n}": n for n in range(100)})
    assert len(found) == 21
    assert found[-1] == "…"


def test_numbers_of_the_database_are_numbers() -> None:
    validator = compile_schema({"properties": {"n": {"type": "integer", "maximum": 5}}}, {})

    assert validator.find_violations({"n": Int64(5)}) == []
    assert validator.find_violations({"n": Int64(1 << 60)}) != []


def test_references_are_given_and_never_fetched() -> None:
    address = address_of("db", "other")
    schema = {"properties": {"a": {"$ref": f"{address}#/definitions/t"}}}
    validator = compile_schema(schema, {address: {"definitions": {"t": {"type": "string"}}}})

    assert validator.find_violations({"a": 1}) != []
    with pytest.raises(InvalidSchema):
        compile_schema({"$ref": "http://127.0.0.1:1/x"}, {})


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)

    with pytest.raises(NotSupported) as caught:
        compile_schema({}, {})
    assert caught.value.hint == "pip install 'docgraph[schema]'"


@pytest.mark.parametrize(
    "make",
    [
        lambda count: {"patternProperties": {f"^a{n}$": {} for n in range(count)}},
        lambda count: {"properties": {f"a{n}": {"pattern": "a"} for n in range(count)}},
    ],
)
def test_the_patterns_of_a_schema_are_bounded(make: Any) -> None:
    compile_schema(make(100), {})
    with pytest.raises(InvalidSchema, match="more than 100 patterns"):
        compile_schema(make(101), {})
