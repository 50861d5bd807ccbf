"""JSON schemas: their address, their draft, and what they find."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from docgraph.codec.bson_types import Int64, ObjectId
from docgraph.exchange.errors import BodyTooLarge, NotSupported
from docgraph.rest.schema_store import (
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


NEW = "https://json-schema.org/draft/2020-12/schema"
FAN_OUTS: dict[str, Any] = {
    "anyOf": lambda to: {"anyOf": [to, to]},
    "oneOf": lambda to: {"oneOf": [to, to]},
    "allOf": lambda to: {"allOf": [to, to]},
    "if": lambda to: {"if": to, "then": to, "else": to},
    "not": lambda to: {"not": to, "allOf": [to]},
    "dependentSchemas": lambda to: {"dependentSchemas": {"a": to, "b": to}},
    "dependencies": lambda to: {"dependencies": {"a": to, "b": to}},
    "sibling": lambda to: {**to, "not": to},
}
REFERENCES: dict[str, Any] = {
    "pointer": lambda n: ({}, {"$ref": f"#/$defs/d{n}"}),
    "escaped": lambda n: ({}, {"$ref": f"#/%24defs/d{n}"}),
    "anchor": lambda n: ({"$anchor": f"a{n}"}, {"$ref": f"#a{n}"}),
    "dynamic": lambda n: ({"$dynamicAnchor": f"a{n}"}, {"$dynamicRef": f"#a{n}"}),
    "identity": lambda n: ({"$id": f"http://schema-store/x/d{n}"}, {"$ref": f"d{n}"}),
}


def fan_out(levels: int, reference: str = "pointer", applicator: str = "anyOf") -> dict[str, Any]:
    """A few subschemas, the last of which is evaluated 2 ** levels times."""
    refer, apply = REFERENCES[reference], FAN_OUTS[applicator]
    defs = {f"d{n}": {**refer(n)[0], **apply(refer(n + 1)[1])} for n in range(levels)}
    defs[f"d{levels}"] = {**refer(levels)[0], "type": "string"}
    identity = {"$id": "http://schema-store/x/root"}
    return {"$schema": NEW, **identity, "$defs": defs, **refer(0)[1]}


@pytest.mark.parametrize(
    ("reference", "applicator"),
    [*((one, "anyOf") for one in REFERENCES), *(("pointer", one) for one in FAN_OUTS)],
)
def test_references_that_multiply_are_refused(reference: str, applicator: str) -> None:
    compile_schema(fan_out(4, reference, applicator), {})
    with pytest.raises(InvalidSchema, match="more than 1000 subschemas"):
        compile_schema(fan_out(17, reference, applicator), {})
    with pytest.raises(InvalidSchema, match="more than 1000 subschemas"):
        compile_schema(fan_out(300, reference, applicator), {})


def test_references_that_multiply_are_counted_across_schemas() -> None:
    others: dict[str, Any] = {
        address_of("db", n): {"anyOf": [{"$ref": address_of("db", n + 1)}] * 2} for n in range(12)
    }
    others[address_of("db", 12)] = {"type": "string"}

    compile_schema({"$ref": address_of("db", 8)}, others)
    with pytest.raises(InvalidSchema, match="more than 1000 subschemas"):
        compile_schema({"$ref": address_of("db", 0)}, others)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"allOf": [{"$ref": "#"}]}, "refers to itself"),
        ({"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, "refers to itself"),
        (
            {"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}, "$ref": "x"},
            "two subschemas have the identity x",
        ),
        (
            {"$defs": {"a": {"$id": "x", "$schema": DRAFT_4}}},
            "another \\$schema",
        ),
    ],
)
def test_a_schema_that_cannot_be_followed_is_refused(schema: Any, message: str) -> None:
    identity = {"$schema": NEW, "$id": "http://schema-store/x/root"}

    with pytest.raises(InvalidSchema, match=message):
        compile_schema({**identity, **schema}, {})


TREE: dict[str, Any] = {
    "properties": {"name": {"type": "string"}, "parts": {"items": {"$ref": "#"}}}
}


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        {"$schema": NEW, "$dynamicAnchor": "n", "properties": {"parts": {"$dynamicRef": "#n"}}},
        {"anyOf": [{"type": "string"}, TREE]},
        {"$schema": NEW, "properties": {"schema": {"$ref": NEW}}},
        {"oneOf": [{"enum": [n]} for n in range(500)] + [{}]},
    ],
)
def test_schemas_of_trees_and_of_many_alternatives_are_taken(schema: Any) -> None:
    document: dict[str, Any] = {"name": "x"}
    for _ in range(40):
        document = {"name": "x", "parts": [document]}

    assert compile_schema(schema, {}).find_violations(document) == []


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        ({"items": {"enum": [{"k": n} for n in range(5_000)]}}, [{"k": -1}] * 2_500),
        ({"patternProperties": {f"^a{n}": {} for n in range(100)}}, dict.fromkeys("ab", 1)),
        ({"allOf": [{"pattern": f"a{n}$"} for n in range(100)]}, "a" * 15_000_000),
        ({"items": {"allOf": [{"pattern": f"a{n}$"} for n in range(99)]}}, ["a"] * 19_000),
        ({"allOf": [{"uniqueItems": True, "maxItems": n} for n in range(900)]}, [1] * 900),
        (
            {"additionalProperties": {"anyOf": [{"minimum": n} for n in range(900)]}},
            {f"k{n}": -1 for n in range(15_000)},
        ),
    ],
)
def test_a_check_that_would_take_too_long_is_refused(schema: Any, document: Any) -> None:
    if len(document) == 2:
        document = {f"k{n}": 1 for n in range(60_000)}
    validator = compile_schema({"properties": {"a": schema}}, {})

    assert validator.find_violations({}) == []
    with pytest.raises(BodyTooLarge, match="more than 20000000"):
        validator.find_violations({"a": document})


def test_branches_that_multiply_with_each_level_of_a_document_are_bounded() -> None:
    part = {"properties": {"a": {"$ref": "#"}}}
    validator = compile_schema({"allOf": [part, part, {"type": "object"}]}, {})
    document: dict[str, Any] = {}
    for _ in range(8):
        document = {"a": document}

    assert validator.find_violations(document) == []
    for _ in range(60):
        document = {"a": document}
    with pytest.raises(BodyTooLarge):
        validator.find_violations(document)


@pytest.mark.parametrize(
    ("schema", "document", "violation"),
    [
        ({"items": {"enum": [f"t{n}" for n in range(250)]}}, [0] * 40_000, "#/a/0: the value"),
        ({"items": {"const": list(range(5_000))}}, [0] * 2_500, "#/a/0: [0,1,"),
        ({"items": {"not": {"enum": list(range(5_000))}}}, [0] * 2_500, "#/a/0: "),
        ({"items": {"type": "string"}}, [0] * 40_000, "#/a/0: the value"),
        ({"propertyNames": {"maxLength": 1}}, {f"k{n}": 0 for n in range(2_000)}, "#/a: "),
        ({"items": {"anyOf": [{"type": "string"}]}}, [0] * 40_000, "the document is too large"),
        ({"anyOf": [{"items": {"enum": list("ab" * 500)}}]}, [0] * 2_500, "the document is too"),
    ],
)
def test_of_many_possible_violations_only_the_first_is_built(
    schema: Any, document: Any, violation: str
) -> None:
    """The library builds all errors, with the options of an enum and the value in each."""
    validator = compile_schema({"properties": {"a": schema}}, {})

    def fail(value: Any) -> Any:
        raise AssertionError("all errors are built")

    watched = SimpleNamespace(
        is_valid=validator.compiled.is_valid,
        validate=fail if "too" in violation else validator.compiled.validate,
        iter_errors=fail,
    )
    (found,) = type(validator)(watched, validator.cost).find_violations({"a": document})

    assert found.startswith(violation)


def test_all_violations_of_an_ordinary_document_are_listed() -> None:
    entry = {
        "type": "object",
        "properties": {"n": {"enum": [1, 2]}, "s": {"anyOf": [{"type": "string"}]}},
    }
    validator = compile_schema({"properties": {"list": {"items": entry}}}, {})

    found = validator.find_violations({"list": [{"n": 3, "s": 1}] * 5 + [{"n": 1}] * 500})
    assert len(found) == 10
