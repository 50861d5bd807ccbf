"""The body of PATCH as an update, and the same update in memory."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange.errors import RequestError
from docgraph.rest.patch import apply_update, build_pipeline, build_update

ETAG = ObjectId("1" * 24)


def test_plain_keys_are_set_beside_the_operators() -> None:
    update = build_update({"a": 1, "b.c": 2, "$inc": {"n": 1}, "$set": {"d": 3}}, ETAG)

    assert update == {
        "$inc": {"n": 1},
        "$set": {"d": 3, "a": 1, "b.c": 2, "_etag": ETAG},
    }


def test_the_etag_of_the_caller_is_not_stored() -> None:
    assert build_update({"_etag": "mine"}, ETAG) == {"$set": {"_etag": ETAG}}


@pytest.mark.parametrize(
    "body",
    [
        {"a": 1, "a.b": 2},
        {"a": 1, "$inc": {"a": 1}},
        {"$unset": {"a": ""}, "$set": {"a.b.c": 1}},
        {"$unset": {"_etag": ""}},
        {"$rename": {"x": "a"}, "a": 1},
    ],
)
def test_two_changes_of_one_path_are_400(body: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"^the update changes '.*' and '.*' at the same time$"):
        build_update(body, ETAG)


def test_neighbours_do_not_conflict() -> None:
    build_update({"a.b": 1, "a-b": 1, "a.c": 1, "ab": 1, "$inc": {"a.d": 1}}, ETAG)


def test_a_pipeline_ends_with_the_etag() -> None:
    assert build_pipeline([{"$unset": "a"}], ETAG) == (
        {"$unset": "a"},
        {"$set": {"_etag": ETAG}},
    )


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({"$set": {"x": 1}}, {"a": {"b": 1}, "l": [1, 2], "x": 1}),
        ({"$set": {"a.c": 2}}, {"a": {"b": 1, "c": 2}, "l": [1, 2]}),
        ({"$set": {"l.0": 9}}, {"a": {"b": 1}, "l": [9, 2]}),
        ({"$set": {"a.0": 9}}, {"a": {"b": 1, "0": 9}, "l": [1, 2]}),
        ({"$unset": {"a.b": ""}}, {"a": {}, "l": [1, 2]}),
        ({"$unset": {"l.0": ""}}, {"a": {"b": 1}, "l": [None, 2]}),
        ({"$unset": {"x.y.z": "", "l.7": ""}}, {"a": {"b": 1}, "l": [1, 2]}),
    ],
)
def test_an_update_in_memory(update: dict[str, Any], expected: dict[str, Any]) -> None:
    document = {"a": {"b": 1}, "l": [1, 2]}

    assert apply_update(document, update) == expected
    assert document == {"a": {"b": 1}, "l": [1, 2]}


@pytest.mark.parametrize("operator", ["$bit", "$nonsense"])
def test_an_operator_that_cannot_be_foreseen_is_400(operator: str) -> None:
    with pytest.raises(RequestError, match=r"cannot be used here"):
        apply_update({}, {operator: {"a": {"and": 1}}})


def test_an_operand_that_is_no_object_is_400() -> None:
    with pytest.raises(RequestError, match=r"^wrong \$unset operator"):
        apply_update({}, {"$unset": "a"})
    with pytest.raises(RequestError, match=r"^wrong \$set operator"):
        build_update({"$set": 1}, ETAG)
