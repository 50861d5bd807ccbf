"""The mutants of a source, their sample, and how code is replaced (`make drill-mutations`)."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from tools.mutations.lane import replace_code
from tools.mutations.mutants import Mutant, find_mutants, is_valid
from tools.mutations.selection import Selection

SOURCE = '''"""A docstring is no code."""

LIMIT: int = 3


def choose(values, wanted=None, *, strict=True):
    """Nor is this one."""
    if not values:
        raise ValueError("none")
    found = [one for one in sorted(values) if one <= LIMIT and one != wanted]
    values.append(0)
    return found[0] if strict else reversed(found)
'''
EXPECTED = {
    "`3` → `(4)`",
    "`True` → `(False)`",
    "`not values` → `(values)`",
    '`raise ValueError("none")` → `pass`',
    "`[one for one in sorted(values) if one <= LIMIT and one != wanted]` → "
    "`([one for one in sorted(values)])`",
    "`sorted(values)` → `(values)`",
    "`one <= LIMIT and one != wanted` → `(one <= LIMIT or one != wanted)`",
    "`one <= LIMIT and one != wanted` → `(one != wanted)`",
    "`one <= LIMIT and one != wanted` → `(one <= LIMIT)`",
    "`one <= LIMIT` → `(one < LIMIT)`",
    "`one != wanted` → `(one == wanted)`",
    "`values.append(0)` → `pass`",
    "`0` → `(1)`",
    "`return found[0] if strict else reversed(found)` → `return None`",
    "`found[0] if strict else reversed(found)` → `(found[0] if not strict else reversed(found))`",
    "`reversed(found)` → `(found)`",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sample.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("sample", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find(path: Path, change: str) -> Mutant:
    return next(one for one in find_mutants(path.parent, path) if one.change == change)


def test_every_expression_that_decides_something_is_changed(file: Path) -> None:
    mutants = find_mutants(file.parent, file)

    assert {one.change for one in mutants} == EXPECTED
    assert all(is_valid(file.parent, one) for one in mutants)


def test_only_what_runs_in_a_function_can_be_replaced_in_place(file: Path) -> None:
    inside = {one.change: one.is_inside for one in find_mutants(file.parent, file)}

    assert [change for change, is_inside in inside.items() if not is_inside] == [
        "`3` → `(4)`",
        "`True` → `(False)`",
    ]


def test_changes_that_no_test_could_notice_are_left_out(file: Path) -> None:
    file.write_text(
        "KINDS = frozenset({list, dict})\n\n\n"
        "async def run(left, right):\n"
        "    await asyncio.sleep(0)\n"
        "    pairs = zip(left, right, strict=True)\n",
        encoding="utf-8",
    )

    assert find_mutants(file.parent, file) == []


def test_a_sample_does_not_move_with_the_lines_above(file: Path) -> None:
    before = find(file, "`sorted(values)` → `(values)`")
    file.write_text(SOURCE.replace("LIMIT: int", "OTHER = 1\nLIMIT: int"), encoding="utf-8")
    after = find(file, "`sorted(values)` → `(values)`")

    assert (before.key, before.rank(7)) == (after.key, after.rank(7))
    assert before.rank(7) != before.rank(8)


def test_a_function_that_is_imported_already_gets_the_changed_code(file: Path) -> None:
    choose = load(file).choose
    assert choose([2, 1]) == 1

    source = find(file, "`sorted(values)` → `(values)`").apply(file.read_bytes()).decode()

    assert replace_code(file, source)
    assert choose([2, 1]) == 2


def test_a_slow_test_does_not_take_the_time_of_others() -> None:
    selection = Selection.__new__(Selection)
    selection.seconds = {"slow": 9.0, "a[1]": 1.0, "a[2]": 1.0, "b": 1.0, "late": 40.0}
    lines = Counter({"slow": 100, "late": 90, "a[1]": 3, "a[2]": 2, "b": 1})

    assert selection._fill(selection.seconds, 10.0, lines) == ["a[1]", "b", "a[2]"]
    assert selection._fill(["slow", "b"], 10.0, lines) == ["b", "slow"]
    assert selection._fill(["late"], 10.0, lines) == ["late"]
