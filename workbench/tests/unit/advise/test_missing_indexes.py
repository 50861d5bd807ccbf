"""How few indexes serve many queries, and which of them are superfluous."""

from __future__ import annotations

from docgraph.tools.data import Index, Want
from docgraph_workbench.advise.missing_indexes import is_beginning, merge_wants


def want(*equal: str, sort: tuple[tuple[str, int], ...] = (), ranges: tuple[str, ...] = ()) -> Want:
    return Want(frozenset(equal), sort, ranges)


def test_one_index_serves_all_that_need_a_beginning_of_it() -> None:
    wants = [
        want("b"),
        want("a", "b", sort=(("c", -1),)),
        want("a", "b", sort=(("c", 1),)),  # read backwards
        want("a", "b"),
        want("d"),
    ]

    merged = merge_wants(wants)

    assert [dict(keys) for keys, _ in merged] == [
        {"b": 1, "a": 1, "c": merged[0][0][2][1]},
        {"d": 1},
    ]
    assert [len(served) for _, served in merged] == [4, 1]


def test_wants_that_no_one_index_serves_stay_apart() -> None:
    apart = [want("a"), want("b"), want("a", sort=(("c", 1), ("d", 1)))]

    keys = [keys for keys, _ in merge_wants([*apart, want("a", sort=(("c", 1), ("d", -1)))])]

    assert sorted(len(one) for one in keys) == [1, 3, 3]


def test_an_index_is_superfluous_beside_one_that_begins_with_it() -> None:
    longer = (("a", 1), ("b", -1))

    assert is_beginning(Index((("a", -1),)), longer)
    assert is_beginning(Index((("a", 1), ("b", -1))), longer)
    assert not is_beginning(Index((("a", 1), ("b", 1))), longer)
    assert not is_beginning(Index((("b", -1),)), longer)
    assert not is_beginning(Index((("a", 1),), unique=True), longer)
    assert not is_beginning(Index((("a", 1),), complete=False), longer)
    assert not is_beginning(Index((("a", "hashed"),)), longer)
