"""Admission of answers: what is stored at the first miss, and what at the second one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from docgraph.graphql.cache.answer_admission import MAX_CREDIT, AnswerAdmission

ROOM = 1_000


def build_keys() -> Iterator[bytes]:
    """Keys that are all different."""
    return (b"%d" % number for number in count())


def store(admission: AnswerAdmission, keys: Iterator[bytes], number: int) -> int:
    """Miss so many different keys; return how many were stored."""
    stored = 0
    for _ in range(number):
        if admission.admits(next(keys), ROOM):
            admission.record_stored()
            stored += 1
    return stored


@pytest.fixture
def keys() -> Iterator[bytes]:
    return build_keys()


@pytest.fixture
def closed(keys: Iterator[bytes]) -> AnswerAdmission:
    """One whose first answers were not used."""
    admission = AnswerAdmission()
    assert store(admission, keys, MAX_CREDIT) == MAX_CREDIT
    return admission


def test_the_first_answers_are_stored(closed: AnswerAdmission, keys: Iterator[bytes]) -> None:
    assert store(closed, keys, 1_000) == 0


def test_each_used_answer_pays_for_two(closed: AnswerAdmission, keys: Iterator[bytes]) -> None:
    for _ in range(10):
        closed.record_used()
    assert store(closed, keys, 1_000) == 20


def test_each_miss_is_stored_while_half_of_the_answers_are_used(keys: Iterator[bytes]) -> None:
    admission = AnswerAdmission()
    for _ in range(10_000):
        assert store(admission, keys, 2) == 2
        admission.record_used()


def test_uses_of_long_ago_do_not_pay_for_ever(
    closed: AnswerAdmission, keys: Iterator[bytes]
) -> None:
    for _ in range(100_000):
        closed.record_used()
    assert store(closed, keys, 1_000) == MAX_CREDIT


def test_the_second_miss_is_stored(closed: AnswerAdmission) -> None:
    assert not closed.admits(b"one", ROOM)
    assert not closed.admits(b"two", ROOM)
    assert closed.admits(b"one", ROOM)
    assert closed.admits(b"two", ROOM)


def test_a_recorded_key_is_stored_at_once(closed: AnswerAdmission) -> None:
    closed.record(b"one", ROOM)
    assert closed.admits(b"one", ROOM)


def test_half_of_the_room_is_remembered(closed: AnswerAdmission, keys: Iterator[bytes]) -> None:
    assert not closed.admits(b"one", ROOM)
    store(closed, keys, ROOM // 2)
    assert closed.admits(b"one", ROOM)


def test_more_than_the_room_is_forgotten(closed: AnswerAdmission, keys: Iterator[bytes]) -> None:
    assert not closed.admits(b"one", ROOM)
    store(closed, keys, ROOM)
    assert not closed.admits(b"one", ROOM)


@pytest.mark.parametrize("room", [0, 1, 2])
def test_a_cache_without_room_for_two_remembers_the_last_key(
    closed: AnswerAdmission, room: int
) -> None:
    assert not closed.admits(b"one", room)
    assert closed.admits(b"one", room)
