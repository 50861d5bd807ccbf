"""A definition before and after: the lines that differ, at their numbers, in bounded time."""

from __future__ import annotations

import random
import re

import pytest

from docgraph.exchange import Document
from docgraph.graphql.definition.definition_diff import ChangeKind, find_change


def build(lines: list[str]) -> Document:
    return {"_id": "a", "schema": "\n".join(lines), "mappings": {}}


def diff(old: list[str], new: list[str]) -> list[str]:
    return list(find_change(build(old), build(new), "graphql").diff())


def apply(lines: list[str], old: list[str]) -> list[str]:
    """The text that the lines of a comparison lead to."""
    result: list[str] = []
    at = 0
    for line in lines[2:]:
        if found := re.match(r"@@ -(\d+)(,0)?", line):
            start = int(found[1]) - (0 if found[2] else 1)
            result += old[at:start]
            at = start
        elif line[0] == "+":
            result.append(line[1:])
        else:
            assert old[at] == line[1:]
            result += [line[1:]] if line[0] == " " else []
            at += 1
    return result + old[at:]


@pytest.mark.parametrize("seed", range(200))
def test_the_lines_that_differ_lead_from_the_old_text_to_the_new_one(seed: int) -> None:
    chance = random.Random(seed)
    old = [f"# {chance.choice('abcdef')}" for _ in range(chance.randint(1, 30))]
    new = list(old)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(new))
        match chance.randrange(3):
            case 0 if len(new) > 1:
                del new[place]
            case 1:
                new.insert(place, "# new")
            case _:
                new[place] = "# other"
    assert apply(diff(old, new), old) == new


def test_one_line_of_very_many_is_found_at_its_number() -> None:
    old = [f"# {number % 70}" for number in range(50_000)]
    new = [*old[:40_000], "# other", *old[40_001:]]

    lines = diff(old, new)

    assert lines[2] == "@@ -39999,5 +39999,5 @@"
    assert [line for line in lines[3:] if line[0] != " "] == [f"-{old[40_000]}", "+# other"]


def test_very_many_differences_are_not_told_one_by_one() -> None:
    old = [f"# {number}" for number in range(50_000)]
    change = find_change(build(old), build(old[::-1]), "graphql")

    assert change.kind is ChangeKind.CHANGED
    assert list(change.diff())[-1] == "@@ too many lines differ @@"
