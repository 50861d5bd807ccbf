"""Definitions as they are stored (decisions 1 to 3, 6, 8)."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec.bson_types import ObjectId
from docgraph.codec.escape import escape_keys
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.definition.definition import decode_definition, normalise_uri
from docgraph.graphql.sections import Graphql

SCHEMA = "type Query { a: Int }"
MAPPINGS = {"Query": {"a": {"db": "d", "collection": "c", "find": {"x.y": {"$arg": "x"}}}}}


def document(**parts: Any) -> dict[str, Any]:
    return {"_id": "app", "schema": SCHEMA, "mappings": MAPPINGS} | parts


@pytest.mark.parametrize("uri", ["/v1/users", "v1/users", "v1/users/", "//v1/users//"])
def test_slashes_around_a_uri_do_not_matter(uri: str) -> None:
    """Decision 1."""
    assert normalise_uri(uri) == "v1/users"
    assert decode_definition(document(descriptor={"uri": uri})).uri == "v1/users"


def test_an_app_is_enabled_unless_it_says_otherwise() -> None:
    """Decision 2."""
    assert decode_definition(document()).enabled
    assert decode_definition(document(descriptor={})).enabled
    assert decode_definition(document(descriptor=None)).enabled
    assert not decode_definition(document(descriptor={"enabled": False})).enabled


def test_without_a_uri_the_id_is_the_uri() -> None:
    """Decision 3."""
    definition = decode_definition(document())

    assert definition.uri == "app"
    assert definition.problems == ()


@pytest.mark.parametrize("identifier", [ObjectId(), 5, None, "", "a/b", "/a"])
def test_without_a_uri_the_id_must_be_a_string_without_a_slash(identifier: Any) -> None:
    """Decision 3."""
    (problem,) = decode_definition(document(_id=identifier)).problems

    assert str(problem) == "_id: must be a non-empty string without a slash"
    assert decode_definition(document(_id=identifier, descriptor={"uri": "/x"})).problems == ()


@pytest.mark.parametrize("uri", ["", "/", "///"])
def test_a_uri_cannot_be_empty(uri: str) -> None:
    (problem,) = decode_definition(document(descriptor={"uri": uri})).problems

    assert str(problem) == "descriptor.uri: cannot be empty"


def test_escaped_and_plain_keys_are_read_alike() -> None:
    """Decision 6."""
    plain = decode_definition(document())
    escaped = decode_definition(escape_keys(document()))

    assert escaped.mappings == plain.mappings == MAPPINGS
    assert "_$arg" in str(escape_keys(document()))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"descriptor": 5}, "descriptor: must be an object, not a number"),
        ({"descriptor": {"uri": 5}}, "descriptor.uri: must be a string, not a number"),
        ({"descriptor": {"enabled": "yes"}}, "descriptor.enabled: must be a boolean, not a string"),
        ({"descriptor": {"description": []}}, "descriptor.description: must be a string, not an"),
        ({"schema": None}, "schema: is missing"),
        ({"schema": {}}, "schema: must be a string, not an object"),
        ({"mappings": None}, "mappings: is missing"),
        ({"mappings": []}, "mappings: must be an object, not an array"),
        ({"descriptor": {"limits": 5}}, "descriptor.limits: must be an object, not a number"),
        ({"descriptor": {"limits": {"depht": 5}}}, "descriptor.limits.depht: is not a limit"),
        ({"descriptor": {"json-mode": "fancy"}}, "descriptor.json-mode: 'fancy' is not a mode"),
        ({"descriptor": {"cache": True}}, "descriptor.cache: must be an object"),
        (
            {"descriptor": {"cache": {"ttl": 1}}},
            "descriptor.cache.ttl: is not an option of the cache",
        ),
        (
            {"descriptor": {"cache": {"max-age-s": 0}}},
            "descriptor.cache.max-age-s: must be a whole number above 0",
        ),
        ({"descriptor": {"json-mode": 1}}, "descriptor.json-mode: must be a string"),
        ({"descriptor": {"limits": {"depth": 0}}}, "descriptor.limits.depth: must be a whole"),
        ({"descriptor": {"limits": {"depth": "5"}}}, "descriptor.limits.depth: must be a whole"),
    ],
)
def test_a_wrong_shape_is_told_with_its_place(parts: dict[str, Any], expected: str) -> None:
    """Decision 7."""
    problems = [str(problem) for problem in decode_definition(document(**parts)).problems]

    assert any(problem.startswith(expected) for problem in problems), problems


def test_all_wrong_shapes_are_told_at_once() -> None:
    definition = decode_definition({"_id": 5, "descriptor": {"enabled": 1, "limits": {"x": 1}}})

    assert [problem.where for problem in definition.problems] == [
        "_id",
        "descriptor.enabled",
        "schema",
        "mappings",
        "descriptor.limits.x",
    ]


def test_limits_of_the_app_are_read() -> None:
    definition = decode_definition(document(descriptor={"limits": {"depth": 5, "root-fields": 2}}))

    assert definition.limits == {"depth": 5, "root-fields": 2}


def test_a_definition_of_version_8_is_told_how_to_migrate() -> None:
    """Decision 8."""
    definition = decode_definition(document(descriptor={"name": "app"}))

    assert definition.problems == ()
    (remark,) = definition.remarks
    assert remark.where == "descriptor.name"
    assert "remove descriptor.name" in remark.what


def test_unknown_keys_of_the_descriptor_are_pointed_out() -> None:
    """Decision 7."""
    (remark,) = decode_definition(document(descriptor={"urll": "/x"})).remarks

    assert str(remark) == "descriptor.urll: is not known and has no effect"
    assert (remark.hint or "").startswith("known are uri, ")
    (remark,) = decode_definition(document(descriptor={"enabeld": False})).remarks
    assert remark.hint == "did you mean enabled?"


def test_a_misspelt_part_is_pointed_out_and_notes_of_the_author_are_not() -> None:
    """Decision 7."""
    plain = {key: value for key, value in document().items() if key != "descriptor"}

    (remark,) = decode_definition({**plain, "descripter": {}, "ticket": "A-7"}).remarks

    assert (remark.where, remark.hint) == ("descripter", "did you mean descriptor?")
    assert decode_definition({**plain, "descriptor": {}, "description": "x"}).remarks == ()


def test_the_version_changes_with_the_document() -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"_etag": ObjectId()},
        {"schema": SCHEMA + " "},
        {"mappings": {}},
    ]
    versions = {decode_definition(document(**parts)).version for parts in variants}

    assert len(versions) == 4
    assert decode_definition(document()).version == decode_definition(document()).version


@pytest.mark.parametrize(
    ("uri", "served"),
    [
        ("/caf%C3%A9", "café"),
        ("a%20b/c", "a b/c"),
        ("50%25", "50%"),
        ("what%3F", "what?"),
        ("café", "café"),
    ],
)
def test_escapes_of_a_uri_are_read_as_those_of_a_path(uri: str, served: str) -> None:
    """Decision 1: matched on the decoded path."""
    definition = decode_definition(document(descriptor={"uri": uri}))

    assert definition.problems == ()
    assert definition.uri == served


@pytest.mark.parametrize("uri", ["a?b", "a#b", "50%", "%zz", "%C3", "a%2Fb", "%2e%2e", "/"])
def test_a_uri_that_no_path_can_be_is_refused(uri: str) -> None:
    (problem,) = decode_definition(document(descriptor={"uri": uri})).problems

    assert problem.where == "descriptor.uri"


OPERATIONS_SCHEMA = "type Query { films(limit: Int): [Film] } type Film { title: String }"
GOOD = {"name": "titles", "description": "All titles", "query": "{ films { title } }"}


def define(operations: Any) -> dict[str, Any]:
    mapping = {"db": "d", "collection": "films", "limit": {"$arg": ["limit", 10]}}
    return {
        "_id": "films",
        "descriptor": {"operations": operations},
        "schema": OPERATIONS_SCHEMA,
        "mappings": {"Query": {"films": mapping}},
    }


def problems(operations: Any) -> list[str]:
    return [str(one) for one in check_definition(define(operations), settings=Graphql()).errors]


def test_an_operation_has_a_name_a_description_and_a_query() -> None:
    report = check_definition(define([GOOD]), settings=Graphql())

    assert (report.errors, report.warnings) == ((), ())
    (operation,) = decode_definition(define([GOOD])).operations
    assert (operation.name, operation.description) == ("titles", "All titles")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"query": "{ nope }"}, "query: Cannot query field 'nope' on type 'Query'."),
        ({"query": "{"}, "query: "),
        ({"query": "mutation { x }"}, "query: must be one query, and no other operation"),
        ({"query": "query A { films { title } } query B { films { title } }"}, "query: must be"),
        ({"query": 7}, "query: must be the text of a query"),
        ({"name": "top rated"}, "name: must be a name"),
        ({"name": "__x"}, "name: must be a name"),
        ({"name": "x" * 41}, "name: must be a name"),
        ({"name": None}, "name: must be a name"),
        ({"description": 1}, "description: must be a string"),
        ({"color": "red"}, "color: is not known"),
    ],
)
def test_what_cannot_work_is_told_with_its_place(change: dict[str, Any], problem: str) -> None:
    found = problems([GOOD, {**GOOD, "name": "other", **change}])

    assert any(one.startswith(f"descriptor.operations.1.{problem}") for one in found), found


def test_two_operations_of_one_name_are_refused() -> None:
    assert problems([GOOD, GOOD]) == [
        "descriptor.operations.1.name: the operation 'titles' is there twice"
    ]


@pytest.mark.parametrize("value", [{}, "x", 1, [1], ["x"], [None]])
def test_another_shape_is_refused(value: Any) -> None:
    (problem,) = problems(value)

    assert problem.startswith("descriptor.operations")


def test_a_query_above_the_limits_of_the_app_is_refused() -> None:
    aliases = " ".join(f"f{n}: films {{ title }}" for n in range(60))

    assert any("aliases" in one for one in problems([{**GOOD, "query": f"{{ {aliases} }}"}]))
