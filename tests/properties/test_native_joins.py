"""Joins in the native lane: the documents of each parent are those of the Python lane."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64, ObjectId
from bson import encode as write
from hypothesis import given
from hypothesis import strategies as st

from docgraph.codec.equality import OWN_KEY, is_equal
from docgraph.graphql.execute.joined import JoinedFirsts, JoinedLists
from docgraph.runtime.native import NativeLane, explain_lane, find_native

_LANE = find_native()
if _LANE is None:
    pytest.skip(f"the lane is {explain_lane()} (make native)", allow_module_level=True)
LANE: NativeLane = _LANE

_IDS = [ObjectId(f"{number:024x}") for number in range(3)]
# Keys of these types fit, others are left to Python.
FITTING = st.sampled_from([1, 2, Int64(1), Int64(2**40), "1", "a", "", "\u00fc", *_IDS])
OTHERS = st.sampled_from([1.0, True, [1], {"a": 1}, b"1"])
MISSING = object()
PARENTS = st.lists(st.none() | FITTING, min_size=1, max_size=8)


@st.composite
def draw_joins(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Keys of parents, and of documents that each belong to one of them."""
    parents = draw(PARENTS)
    wanted = [key for key in parents if key is not None]
    return draw(st.lists(st.sampled_from(wanted)) if wanted else st.just([])), parents


def build(keys: list[Any]) -> list[bytes]:
    """Documents with these keys, of which some have none."""
    return [
        write({"n": number} if key is MISSING else {"n": number, "k": key})
        for number, key in enumerate(keys)
    ]


def find_own(keys: list[Any], documents: list[bytes], parent: Any) -> list[bytes]:
    """The documents of a parent, by the equality of the database; null is no key."""
    return [
        document
        for key, document in zip(keys, documents, strict=True)
        if parent is not None and key is not MISSING and is_equal(key, parent)
    ]


@given(draw_joins(), st.integers(1, 3))
def test_each_parent_has_its_documents(join: tuple[list[Any], list[Any]], limit: int) -> None:
    keys, parents = join
    documents = build(keys)
    expected = [find_own(keys, documents, parent)[:limit] for parent in parents]

    joined = JoinedLists(*LANE.join_lists(documents, "k", parents, limit))

    assert list(joined) == expected
    assert len(joined) == len(parents)
    assert joined.total == sum(map(len, expected))
    assert [joined.documents[slot] for slot in joined.slots] == [o for own in expected for o in own]
    assert joined.ends[-1] == len(joined.documents)


@given(draw_joins())
def test_each_parent_has_its_first_document(join: tuple[list[Any], list[Any]]) -> None:
    keys, parents = join
    documents = build(keys)
    found = [find_own(keys, documents, parent) for parent in parents]
    expected = [own[0] if own else None for own in found]

    joined = JoinedFirsts(*LANE.join_firsts(documents, "k", parents))

    assert list(joined) == expected
    assert [joined[number] for number in range(len(joined))] == expected
    assert joined.total == sum(own != [] for own in found)


@given(draw_joins(), OTHERS, st.booleans())
def test_other_types_are_misfits(
    join: tuple[list[Any], list[Any]], other: Any, is_parent: bool
) -> None:
    keys, parents = join
    (parents if is_parent else keys).append(other)
    assert type(other) not in OWN_KEY

    with pytest.raises(LANE.misfit):
        LANE.join_lists(build(keys), "k", parents, 5)


@given(draw_joins(), st.sampled_from([None, MISSING, "nobody's", 77, ObjectId("f" * 24)]))
def test_a_document_of_no_parent_is_a_misfit(join: tuple[list[Any], list[Any]], stray: Any) -> None:
    """The database found it, so it compares in another way: by a collation, for instance."""
    keys, parents = join

    with pytest.raises(LANE.misfit, match="no parent"):
        LANE.join_firsts(build([*keys, stray]), "k", parents)


@pytest.mark.parametrize("key", [2**70, "\ud800", 1.5, False, object()])
def test_keys_that_no_document_can_have_are_misfits(key: Any) -> None:
    with pytest.raises(LANE.misfit):
        LANE.join_firsts(build([1]), "k", [key])


@given(st.lists(st.integers(0, 3), max_size=5))
def test_lists_are_rendered_one_after_the_other(sizes: list[int]) -> None:
    program = LANE.build_program([("n", "stored", ("n",), ("scalar", "Int"))], "graphql")
    documents = build([1] * sum(sizes))
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    starts = [0, *ends[:-1]] if ends else []
    parts = [documents[start:end] for start, end in zip(starts, ends, strict=True)]

    assert program.render_lists(documents, ends) == [program.render_list(part) for part in parts]


@pytest.mark.parametrize("ends", [[], [1], [2, 1, 2], [3]])
def test_lists_have_all_documents(ends: list[int]) -> None:
    program = LANE.build_whole("standard", [])

    with pytest.raises(ValueError, match="lists have all documents"):
        program.render_lists(build([1, 1]), ends)


@given(st.lists(st.sampled_from(["a", "b", "c", None, 1, MISSING]), min_size=1))
def test_a_text_chooses_the_program(keys: list[Any]) -> None:
    programs = {
        text: LANE.build_program([(text, "stored", ("n",), ("scalar", "Int"))], "graphql")
        for text in ("a", "b")
    }
    choice, documents = LANE.build_choice("k", programs), build(keys)

    if set(keys) <= programs.keys():
        pairs = zip(keys, documents, strict=True)
        expected = [programs[key].render_each([document])[0] for key, document in pairs]
        assert choice.render_each(documents) == expected
    else:
        with pytest.raises(LANE.misfit):
            choice.render_each(documents)


def test_a_choice_has_programs_without_slots() -> None:
    program = LANE.build_program([("a", "slot", 0)], "graphql")

    with pytest.raises(ValueError, match="without slots"):
        LANE.build_choice("k", {"a": program})


def test_a_key_that_occurs_twice_is_a_misfit() -> None:
    """The database compares the first value, the driver returns the last one."""
    once = write({"k": 1})
    twice = (len(once) + 7).to_bytes(4, "little") + once[4:-1] + once[4:]

    with pytest.raises(LANE.misfit, match="twice"):
        LANE.join_lists([twice], "k", [1, 2], 5)
