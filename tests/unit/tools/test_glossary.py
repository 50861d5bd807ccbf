"""`tools/glossary.py`: vague locals are found wherever they are bound, and become fewer only."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.glossary import compare_vague_locals, find_vague_locals

LOCATION = "rooms/hall.py:{}: the local {} does not say what it holds"


def write(folder: Path, text: str) -> Path:
    """A package `house` with this text in `rooms/hall.py`."""
    module = folder / "house" / "rooms" / "hall.py"
    module.parent.mkdir(parents=True)
    module.write_text(text)
    return folder / "house"


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("def f(x):\n    found = x", 2, "found"),
        ("def f(x):\n    known: int = x", 2, "known"),
        ("def f(x):\n    for one in x:\n        pass", 2, "one"),
        ("def f(x):\n    for key, own in x:\n        pass", 2, "own"),
        ("def f(x):\n    return [one.y for one in x]", 2, "one"),
        ("def f(x):\n    return (here := x)", 2, "here"),
        ("def f(x):\n    match x:\n        case {'y': there}:\n            pass", 3, "there"),
        ("def f(x):\n    with x as found:\n        pass", 2, "found"),
        ("def f(\n    *, known=()\n):\n    pass", 2, "known"),
        ("f = sorted(x, key=lambda one: one.y)", 1, "one"),
    ],
    ids=[
        *("assigned", "annotated", "loop", "unpacked", "comprehension"),
        *("walrus", "case", "with", "parameter", "lambda"),
    ],
)
def test_a_vague_local_is_found_where_it_is_bound(
    tmp_path: Path, text: str, line: int, name: str
) -> None:
    package = write(tmp_path, text)
    assert find_vague_locals(package) == {"house/rooms": [LOCATION.format(line, name)]}


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return x.one + one",
        "def f(x):\n    return x(own=1)",
        "class House:\n    found: int = 0",
        "def f(x):\n    x.known = 1",
        "def f(ones):\n    known_names = ones",
    ],
    ids=["read", "keyword", "field", "attribute", "part-of-a-name"],
)
def test_other_uses_of_these_words_are_allowed(tmp_path: Path, text: str) -> None:
    assert find_vague_locals(write(tmp_path, text)) == {}


def test_more_vague_locals_than_the_budget_are_reported_with_their_locations(
    tmp_path: Path,
) -> None:
    vague = find_vague_locals(write(tmp_path, "def f(one, own):\n    pass"))
    assert list(compare_vague_locals(vague, {"house/rooms": 1})) == [
        LOCATION.format(1, "one"),
        LOCATION.format(1, "own"),
        "house/rooms: 2 vague locals, the budget is 1: name the thing",
    ]


@pytest.mark.parametrize(("text", "left"), [("def f(one):\n    pass", 1), ("", 0)])
def test_a_budget_that_is_too_large_is_reported(tmp_path: Path, text: str, left: int) -> None:
    vague = find_vague_locals(write(tmp_path, text))
    assert list(compare_vague_locals(vague, {"house/rooms": 2})) == [
        f"house/rooms: {left} vague locals, the budget is 2: lower it"
    ]


def test_a_budget_that_is_used_is_kept(tmp_path: Path) -> None:
    vague = find_vague_locals(write(tmp_path, "def f(one):\n    pass"))
    assert list(compare_vague_locals(vague, {"house/rooms": 1})) == []
