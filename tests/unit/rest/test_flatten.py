"""Dotted keys and `$currentDate` in the bodies of POST and PUT."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from docgraph.codec.bson_types import ObjectId, Timestamp
from docgraph.exchange.errors import BodyTooLarge, RequestError
from docgraph.rest.flatten import Expansion, prepare_document, set_path
from docgraph.rest.patch import apply_update, build_update


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ({"a.b": 1}, {"a": {"b": 1}}),
        ({"a.b.c": 1, "a.b.d": 2, "a.e": 3}, {"a": {"b": {"c": 1, "d": 2}, "e": 3}}),
        ({"x.0": 1}, {"x": [1]}),
        ({"x.2": 1}, {"x": [None, None, 1]}),
        ({"x.1.y": 1, "x.0": 5}, {"x": [5, {"y": 1}]}),
        ({"a": {"b": 1}, "a.c": 2}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1], "a.1": 2}, {"a": [1, 2]}),
        ({"0.a": 1}, {"0": {"a": 1}}),
        ({"a": {"b.c": 1}}, {"a": {"b.c": 1}}),
    ],
)
def test_dotted_keys_at_the_top_are_places(body: dict[str, Any], expected: Any) -> None:
    assert prepare_document(body) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"a": {"b": 1}, "a.0": 1},
            "a field key using the dot notation points to a non-array value",
        ),
        ({"a": 1, "a.0": 1}, "a field key using the dot notation points to a non-array value"),
        ({"a": 1, "a.b": 1}, "points into a value that is neither object nor array: 'a.b'"),
        ({"a": [1], "a.b": 1}, "names 'b' in an array"),
        ({"a..b": 1}, "has an empty name: 'a..b'"),
        ({".a": 1}, "has an empty name"),
        ({"a.99999999999999999999": 1}, "has an index over 10000"),
        ({"a." + "9" * 5000: 1}, "has an index over 10000"),
        ({"a.10001": 1}, "has an index over 10000"),
        ({".".join("a" * 101): 1}, "has more than 100 names"),
    ],
)
def test_a_place_that_cannot_be_is_400(body: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        prepare_document(body)

    assert message in caught.value.message


@pytest.mark.parametrize(
    "body",
    [
        {f"a{n}.9999": 1 for n in range(11)},
        {"a.9999.9999.9999.9999.9999.9999.9999.9999.9999.9999.9999": 1},
        {".".join((f"a{n}", *"b" * 99)): 1 for n in range(1100)},
        {f"a.{n}.99": 1 for n in range(1200)},
    ],
)
def test_dotted_keys_create_a_bounded_number_of_values(body: dict[str, Any]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge, match="create more than 100000 values"):
            prepare_document(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 32 << 20


def test_what_dotted_keys_create_is_counted_before_and_exactly() -> None:
    document: dict[str, Any] = {}
    expansion = Expansion(5)
    for path in ("a.2", "a.1", "a.3", "b.c"):  # an array with two nulls; one object; nothing else
        expansion.reserve(document, path.split("."))
        set_path(document, path.split("."), 1)

    assert document == {"a": [None, 1, 1, 1], "b": {"c": 1}}
    with pytest.raises(BodyTooLarge):
        expansion.reserve(document, ["c", "d", "e"])
    assert "c" not in document


def test_the_documents_of_one_body_share_what_they_may_create() -> None:
    expansion = Expansion()
    for _ in range(10):
        prepare_document({"a.9999": 1, "b": 1}, expansion)
    with pytest.raises(BodyTooLarge):
        prepare_document({"a.9999": 1}, expansion)


@pytest.mark.parametrize("operator", ["$set", "$inc", "$push", "$max"])
def test_updates_in_memory_create_a_bounded_number_of_values(operator: str) -> None:
    update = {operator: {f"a{n}.9999": 1 for n in range(11)}}

    with pytest.raises(BodyTooLarge):
        apply_update({}, update)


def test_a_renamed_field_is_counted_at_its_new_place() -> None:
    document = {f"x{n}": n for n in range(11)}

    with pytest.raises(BodyTooLarge):
        apply_update(document, {"$rename": {f"x{n}": f"a{n}.9999" for n in range(11)}})


def test_an_update_of_long_arrays_looks_at_each_value_once() -> None:
    """Each with each would be 900 million comparisons, which is for ever."""
    values = list(range(30_000))

    added = apply_update({"a": values}, {"$addToSet": {"a": {"$each": [*values, {"x": 1}]}}})
    removed = apply_update({"a": values}, {"$pullAll": {"a": [float(n) for n in values[1:]]}})

    assert added["a"] == [*values, {"x": 1}]
    assert removed["a"] == [0]


@pytest.mark.parametrize("operator", ["$unset", "$inc", "$pull", "$pop"])
def test_a_position_of_thousands_of_digits_is_none_of_an_array(operator: str) -> None:
    update = {operator: {"a." + "9" * 5000: 1}}
    if operator == "$inc":
        with pytest.raises(RequestError, match="has an index over"):
            apply_update({"a": [1]}, update)
    else:
        assert apply_update({"a": [1]}, update) == {"a": [1]}


def test_an_update_has_a_bounded_number_of_paths() -> None:
    """The etag is one of them."""
    build_update({f"a{n}": 1 for n in range(499)}, ObjectId())
    with pytest.raises(BodyTooLarge, match="more than 500 paths"):
        build_update({f"a{n}": 1 for n in range(500)}, ObjectId())


@pytest.mark.parametrize(
    "build",
    [
        lambda values: {"$addToSet": {"a": {"$each": values}}},
        lambda values: {"$pullAll": {"a": values}},
        lambda values: {"$pullAll": {"a": values[1:]}, "$addToSet": {"b": {"$each": values[:1]}}},
    ],
)
def test_values_that_are_compared_with_each_element_count_as_paths(
    build: Callable[[list[int]], dict[str, Any]],
) -> None:
    build_update(build(list(range(490))), ObjectId())
    with pytest.raises(BodyTooLarge, match="each value of"):
        build_update(build(list(range(500))), ObjectId())
    many = list(range(9_000))
    build_update({"$push": {"a": {"$each": many}}, "$pull": {"b": {"$in": many}}}, ObjectId())
    build_update({"$addToSet": {"a": many}, "$set": {"b": many}}, ObjectId())


@pytest.mark.parametrize("operator", ["$set", "$inc", "$push", "$nonsense", "$"])
def test_operators_are_refused(operator: str) -> None:
    with pytest.raises(RequestError) as caught:
        prepare_document({operator: {"a": 1}})

    assert caught.value.message == (
        "update operators (but $currentDate) cannot be used on POST and PUT requests"
    )


def test_current_date_is_the_present_instant() -> None:
    document = prepare_document(
        {
            "$currentDate": {
                "a": True,
                "b": {"$type": "date"},
                "c": {"$type": "timestamp"},
                "d.e": True,
            }
        }
    )

    now = datetime.now(UTC).replace(tzinfo=None)
    for date in (document["a"], document["b"], document["d"]["e"]):
        assert timedelta(0) <= now - date < timedelta(minutes=1)
        assert date.microsecond % 1000 == 0  # what is stored has no more
    assert isinstance(document["c"], Timestamp)
    assert "$currentDate" not in document


@pytest.mark.parametrize("operand", [1, {"a": 1}, {"a": False}, {"a": {"$type": "x"}}])
def test_a_wrong_current_date_is_400(operand: Any) -> None:
    with pytest.raises(RequestError, match=r"^wrong \$currentDate operator$"):
        prepare_document({"$currentDate": operand})
