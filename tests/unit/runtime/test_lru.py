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
