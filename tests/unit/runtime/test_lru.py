"""`LruDict`: bounded, and what is used stays."""

from __future__ import annotations

from docgraph.runtime import LruDict


def test_a_value_is_found_again() -> None:
    kept: LruDict[str, int] = LruDict(2)
    kept.put("a", 1)
    assert kept.get("a") == 1
    assert kept.get("b") is None


def test_what_was_not_used_for_longest_goes_first() -> None:
    kept: LruDict[str, int] = LruDict(2)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.get("a")
    kept.put("c", 3)
    assert len(kept) == 2
    assert kept.get("b") is None
    assert kept.get("a") == 1


def test_a_value_that_is_put_again_is_replaced_and_young() -> None:
    kept: LruDict[str, int] = LruDict(2)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.put("a", 3)
    kept.put("c", 4)
    assert kept.get("a") == 3
    assert kept.get("b") is None


def test_the_entry_that_makes_room_is_returned() -> None:
    kept: LruDict[str, int] = LruDict(1)
    assert kept.put("a", 1) is None
    assert kept.put("a", 2) is None
    assert kept.put("b", 3) == ("a", 2)


def test_peeking_is_no_use() -> None:
    kept: LruDict[str, int] = LruDict(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.peek("a") == 1
    assert kept.pop_oldest() == ("a", 1)


def test_a_size_of_zero_stores_nothing() -> None:
    kept: LruDict[str, int] = LruDict(0)
    assert kept.put("a", 1) == ("a", 1)
    assert len(kept) == 0
