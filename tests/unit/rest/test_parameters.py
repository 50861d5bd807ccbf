"""Query parameters: what they mean, and what is wrong with the bad ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from docgraph.codec import JsonMode
from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Consistency, WriteConcern, WriteMode
from docgraph.exchange.errors import DocgraphError
from docgraph.exchange.request import QueryParameters
from docgraph.rest.ids import IdType
from docgraph.rest.parameters import _READERS, Count, Parameters, parse_parameters
from docgraph.rest.sections import Mongo

DEFAULTS = Parameters()
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/rest-parameters.md").read_text()
COMPONENTS = yaml.safe_load((ROOT / "src/docgraph/openapi/components.yaml").read_text())
# `pagesize` depends on the configuration, `writeMode` is `wm`, and the others are rejected.
NOT_IN_COMPONENTS = {"pagesize", "writeMode", "rep", "sid", "txn"}


def _parse(*pairs: tuple[str, str]) -> Parameters:
    query = QueryParameters(urlencode(pairs).encode(), 200)
    return parse_parameters(query, Mongo(), DEFAULTS)


def test_without_parameters_the_defaults_hold() -> None:
    assert _parse() is DEFAULTS
    assert _parse(("utm_source", "x")) is DEFAULTS


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("page", "x", "illegal page parameter, it is not a number"),
        ("page", "1.5", "illegal page parameter, it is not a number"),
        ("page", "", "illegal page parameter, it is not a number"),
        ("page", "0", "illegal page parameter, it is < 1"),
        ("page", "-1", "illegal page parameter, it is < 1"),
        ("pagesize", "x", "illegal pagesize parameter, it is not a number"),
        (
            "pagesize",
            "1001",
            "illegal pagesize parameter, pagesize must be >= 0 and <= 1000",
        ),
        ("pagesize", "-1", "illegal pagesize parameter, pagesize must be >= 0 and <= 1000"),
        ("filter", "", "illegal filter parameter (empty)"),
        ("filter", "{}", "illegal filter parameter (empty json object)"),
        ("filter", '"x"', 'illegal filter parameter, it is not a json object: "x" => String'),
        ("filter", "[1]", "illegal filter parameter, it is not a json object: [1] => Array"),
        ("sort", "", "Illegal sort parameter"),
        ("sort", "-", "Illegal sort parameter"),
        ("sort", "{", "Invalid sort parameter"),
        ("sort", "[1]", "Invalid sort parameter"),
        ("sort", '[{"x":1}]', "Invalid sort parameter"),
        ("sort_by", "[]", "Invalid sort parameter"),
        ("hint", '[{"x":1}]', "illegal hint parameter"),
        ("avars", "{", "illegal avars parameter: {"),
        ("avars", "[1]", "illegal avars parameter, it is not a json object: [1]"),
        ("avars", '{"$a":1}', 'illegal avars parameter: {"$a":1}'),
        (
            "sort",
            '{"a":2}',
            "Wrong sort parameter, key ordering must be 1 (for ascending) or -1 (for descending)",
        ),
        (
            "sort",
            '{"a":true}',
            "Wrong sort parameter, key ordering must be 1 (for ascending) or -1 (for descending)",
        ),
        ("keys", "", "illegal keys parameter (empty)"),
        ("keys", "{", "illegal keys parameter: {"),
        ("keys", "1", "illegal keys parameter, it is not a json object: 1 => Number"),
        ("hint", "", "illegal hint parameter"),
        ("hint", "{", "illegal hint parameter"),
        ("hint", "-", "illegal hint parameter"),
        ("shardkey", "", "illegal shardkey parameter (empty)"),
        ("shardkey", "{}", "illegal shardkey parameter (empty json object)"),
        ("shardkey", "[]", "illegal shardkey parameter: []"),
        (
            "readPreference",
            "first",
            "illegal readPreference parameter; must be [primary, primaryPreferred, secondary, "
            "secondaryPreferred, nearest]",
        ),
        (
            "readConcern",
            "",
            "illegal readConcern parameter; must be [local, available, majority, linearizable, "
            "snapshot]",
        ),
        (
            "writeConcern",
            "51",
            "illegal writeConcern parameter; must be [majority, acknowledged, journaled, w1, w2, "
            "w3, a number from 1 to 50]",
        ),
        ("sid", "x", "sessions and transactions are not supported"),
        ("txn", "1", "sessions and transactions are not supported"),
    ],
)
def test_a_bad_parameter_has_its_own_message(name: str, value: str, message: str) -> None:
    with pytest.raises(DocgraphError) as caught:
        _parse((name, value))

    assert caught.value.message == message


@pytest.mark.parametrize("name", ["sort", "keys", "hint", "shardkey"])
def test_a_parameter_that_is_no_json_says_where(name: str) -> None:
    with pytest.raises(DocgraphError) as caught:
        _parse((name, '{"title"; 1}'))

    assert "line 1, column 9" in (caught.value.hint or "")


def test_a_filter_that_is_no_json_is_told_where() -> None:
    with pytest.raises(DocgraphError) as caught:
        _parse(("filter", '{"a": }'))

    assert caught.value.message.startswith('illegal filter parameter: {"a": }, line 1, column ')


def test_a_long_filter_is_not_repeated_whole() -> None:
    with pytest.raises(DocgraphError) as caught:
        _parse(("filter", f'"{"x" * 5000}"'))

    assert len(caught.value.message) < 400


def test_filters_are_combined() -> None:
    parameters = _parse(("filter", "{a: 1}"), ("filter", "{'b': ObjectId('" + "0" * 24 + "')}"))

    assert parameters.filter == {"$and": [{"a": 1}, {"b": ObjectId("0" * 24)}]}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("sort", "name")], {"name": 1}),
        ([("sort", "-name")], {"name": -1}),
        ([("sort", "+name")], {"name": 1}),
        ([("sort", " name")], {"name": 1}),
        ([("sort", "a.b")], {"a.b": 1}),
        ([("sort", '{"b":-1,"a":1}')], {"b": -1, "a": 1}),
        ([("sort", "{a: 1.0}")], {"a": 1}),
        ([("sort", "a"), ("sort", "-b")], {"a": 1, "b": -1}),
        ([("sort", "{}")], {}),
        ([("sort", '{"s":{"$meta":"textScore"}}')], {"s": {"$meta": "textScore"}}),
        ([("sort_by", "a"), ("sort", "b")], {"a": 1}),
        ([("sort", "b"), ("sort_by", "a")], {"a": 1}),
    ],
)
def test_sort_has_several_forms(pairs: list[tuple[str, str]], expected: dict[str, Any]) -> None:
    sort = _parse(*pairs).sort

    assert sort is not None
    assert list(sort) == list(expected.items())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["name_1"], "name_1"),
        (["+name"], {"name": 1}),
        ([" name"], {"name": 1}),
        (["-name"], {"name": -1}),
        (['{"a":1,"b":-1}'], {"a": 1, "b": -1}),
        (['{"$natural":1}'], {"$natural": 1}),
        (["first", "second"], "second"),
    ],
)
def test_hint_has_several_forms(values: list[str], expected: Any) -> None:
    assert _parse(*(("hint", value) for value in values)).hint == expected


def test_keys_are_merged() -> None:
    assert _parse(("keys", '{"a":1}'), ("keys", '{"b":1}')).keys == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", Count.EXACT), ("true", Count.EXACT), ("Estimated", Count.ESTIMATED)],
)
def test_count_is_exact_unless_it_says_estimated(value: str, expected: Count) -> None:
    assert _parse(("count", value)).count is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("strict", JsonMode.STRICT),
        ("EXTENDED", JsonMode.EXTENDED),
        ("Relaxed", JsonMode.RELAXED),
        ("shell", JsonMode.SHELL),
        ("graphql", JsonMode.STANDARD),
        ("nonsense", JsonMode.STANDARD),
    ],
)
def test_an_unknown_json_mode_is_the_default_one(value: str, expected: JsonMode) -> None:
    assert _parse(("jsonMode", value)).json_mode is expected


@pytest.mark.parametrize("name", ["checkEtag", "checkETag", "CHECKETAG", "checketag"])
def test_check_etag_is_understood_in_any_case(name: str) -> None:
    assert _parse((name, "")).check_etag


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("wm", "upsert")], WriteMode.UPSERT),
        ([("writeMode", "INSERT")], WriteMode.INSERT),
        ([("writeMode", "insert"), ("wm", "update")], WriteMode.UPDATE),
        ([("wm", "nonsense")], None),
    ],
)
def test_write_modes(pairs: list[tuple[str, str]], expected: WriteMode | None) -> None:
    assert _parse(*pairs).mode is expected


def test_id_type_and_nocache() -> None:
    parameters = _parse(("id_type", "number"), ("nocache", ""))

    assert (parameters.id_type, parameters.no_cache) == (IdType.NUMBER, True)


def test_the_page_says_what_to_skip() -> None:
    assert _parse(("page", "3"), ("pagesize", "20")).skip == 40


@pytest.mark.parametrize(
    ("given", "concern"),
    [
        ("majority", WriteConcern("majority")),
        (" Majority ", WriteConcern("majority")),
        ("ACKNOWLEDGED", WriteConcern()),
        ("JOURNALED", WriteConcern(journal=True)),
        ("W2", WriteConcern(2)),
        ("50", WriteConcern(50)),
    ],
)
def test_write_concern_is_a_number_or_a_name(given: str, concern: WriteConcern) -> None:
    assert _parse(("writeConcern", given)).write_concern == concern


@pytest.mark.parametrize("given", ["0", "W0", "unacknowledged"])
def test_a_write_that_nobody_confirms_is_refused(given: str) -> None:
    with pytest.raises(DocgraphError, match="unacknowledged writes are not supported"):
        _parse(("writeConcern", given))


def test_consistency_is_what_the_request_says_of_it() -> None:
    assert _parse(("readPreference", "NEAREST")).consistency == Consistency("nearest")
    assert _parse(("readConcern", "Local")).consistency == Consistency(concern="local")
    assert _parse(("writeConcern", "1")).consistency is None


@pytest.mark.parametrize("name", _READERS)
def test_every_parameter_is_on_its_page_and_in_the_openapi_description(name: str) -> None:
    assert f"`{name}`" in PAGE
    assert (name in COMPONENTS["rest"]["parameters"]) != (name in NOT_IN_COMPONENTS)
