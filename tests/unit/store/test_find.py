"""`find`, `aggregate` and counting as commands."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.exchange.errors import QueryError
from docgraph.store.find import MAX_LIMIT, build_aggregate, build_count, build_find, read_sort


def test_find_asks_for_one_batch_and_leaves_out_what_is_not_given() -> None:
    options: dict[str, Any] = {"projection": None, "sort": {}, "hint": None, "comment": "why"}

    command = build_find("posts", {"a": 1}, limit=10, options=options)

    assert list(command) == ["find", "filter", "limit", "batchSize", "comment"]
    assert command["batchSize"] == 11


def test_aggregation_ends_with_its_limit() -> None:
    command = build_aggregate("posts", [{"$match": {}}], limit=10, allow_disk_use=True)

    assert command == {
        "aggregate": "posts",
        "pipeline": [{"$match": {}}, {"$limit": 10}],
        "cursor": {"batchSize": 11},
        "allowDiskUse": True,
    }


def test_counting_stops_at_its_limit() -> None:
    command = build_count("posts", [{"$match": {"a": 1}}], limit=10)

    assert command["pipeline"][:3] == [{"$match": {"a": 1}}, {"$limit": 10}, {"$count": "n"}]


@pytest.mark.parametrize("limit", [0, -1, MAX_LIMIT + 1, True, "7", None, 1.5])
def test_every_read_has_a_limit(limit: Any) -> None:
    with pytest.raises(QueryError, match="limit"):
        build_find("posts", {}, limit=limit, options={})
    with pytest.raises(QueryError, match="limit"):
        build_count("posts", [], limit=limit)


@pytest.mark.parametrize("skip", [-1, True, 1.5, 1 << 63, "x"])
def test_skip_is_a_whole_number(skip: Any) -> None:
    with pytest.raises(QueryError, match="skip"):
        build_find("posts", {}, limit=1, skip=skip, options={})


def test_sort_comes_in_two_forms() -> None:
    assert read_sort([("a", 1), ("b", -1)]) == read_sort({"a": 1, "b": -1}) == {"a": 1, "b": -1}
    assert read_sort(None) == {}
    with pytest.raises(QueryError, match="sort"):
        read_sort(["a"])  # type: ignore[list-item]
