"""Admission of answers: the first miss leaves a mark, and the second one is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docgraph.graphql.cache.answer_store import AnswerAdmission, AnswerStore
from docgraph.runtime.shared_memory import Generations, create_generations

ROOM = 1_000


def build(room: int = ROOM) -> AnswerAdmission:
    return AnswerAdmission(lambda: room)


def mark_others(admission: AnswerAdmission, number: int) -> None:
    """Mark so many other keys, none of them twice."""
    for key in (b"other %d" % one for one in range(number)):
        assert admission.mark(key)


def test_the_second_miss_finds_the_mark_of_the_first_one() -> None:
    admission = build()
    assert admission.mark(b"one")
    assert admission.mark(b"two")
    assert not admission.mark(b"one")
    assert not admission.mark(b"two")


def test_a_mark_that_was_removed_is_needed_again() -> None:
    admission = build()
    admission.mark(b"one")
    admission.remove(b"one")
    assert admission.mark(b"one")
    assert not admission.mark(b"one")


def test_half_of_the_room_is_remembered() -> None:
    admission = build()
    admission.mark(b"one")
    mark_others(admission, ROOM // 2)
    assert not admission.mark(b"one")
    admission.remove(b"one")  # of whatever generation it is
    assert admission.mark(b"one")


def test_more_than_the_room_is_forgotten() -> None:
    admission = build()
    admission.mark(b"one")
    mark_others(admission, ROOM)
    assert admission.mark(b"one")


@pytest.mark.parametrize("room", [0, 1, 2])
def test_a_cache_without_room_for_two_remembers_the_last_key(room: int) -> None:
    admission = build(room)
    assert admission.mark(b"one")
    assert not admission.mark(b"one")


def test_the_marks_are_bounded() -> None:
    admission = build(10**9)
    keys = (b"%d" % one for one in count())
    for _ in range(300_000):
        admission.mark(next(keys))
    assert len(admission._recent) + len(admission._previous) <= 1 << 17


def test_marks_follow_the_room() -> None:
    room = 100
    admission = AnswerAdmission(lambda: room)
    mark_others(admission, 100)
    room = 10
    for one in range(100, 200):  # the next generation has the room of then
        admission.mark(b"other %d" % one)
    assert len(admission._recent) + len(admission._previous) <= 10


# --- the store ------------------------------------------------------------------------------------


class QuietWatch:
    """A watch that hears of no change."""

    def is_current(self, db: str) -> bool:
        return True

    def register(self, *_: Any) -> Any:
        return SimpleNamespace(bytes=0, release=lambda: None)


READ = ("blog.posts", "blog.users")


@pytest.fixture
def generations(tmp_path: Path) -> Iterator[Generations]:
    create_generations(tmp_path / "generations")
    opened = Generations(tmp_path / "generations")
    yield opened
    opened.close()


def put(answers: AnswerStore, size: int = 1, writes: Sequence[int] | None = None) -> bool:
    mark: Any = None
    dependencies: Any = [SimpleNamespace(namespace=one) for one in READ]
    return answers.put(b"key", b"x" * size, mark, writes or answers.begin(b"key"), dependencies)


@pytest.mark.parametrize(
    ("written", "is_found"),
    [("blog.posts", False), ("blog.users", False), ("blog", False), ("shop", True)],
)
def test_an_answer_is_not_found_after_a_write_to_what_it_read(
    generations: Generations, written: str, is_found: bool
) -> None:
    """A whole database is written to when it is dropped."""
    watch: Any = QuietWatch()
    answers = AnswerStore(watch, generations, 100_000)
    before = answers.begin(b"key")
    assert put(answers)
    assert answers.find(b"key", None) is not None

    generations.record_writes((written,))

    assert (answers.find(b"key", None) is not None) == is_found
    assert put(answers, writes=before) == is_found


def test_an_answer_needs_an_eighth_of_the_room_at_most(generations: Generations) -> None:
    watch: Any = QuietWatch()
    answers = AnswerStore(watch, generations, 80_000)

    assert [put(answers, size) for size in (9_001, 9_000)] == [False, True]
    assert answers.bytes == 10_000
