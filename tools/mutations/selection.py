"""Which tests are run for a mutant: those that run its lines, quick and different ones first."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

from coverage import CoverageData
from tools.mutations.mutants import Mutant

_ASSIGNED = re.compile(r"(\w+)\s*(?::[^=]*)?=\s")
_SLOW_SHARE = 5  # a test that takes a fifth of the time is slow
_NAMES = "tests/unit/server/test_builtin_names.py"  # the names of plugins are constants of classes
_OUTSIDE = ""  # the context of what runs outside of tests, when modules are imported


class Selection:
    """The record of a run with `recorder.py`."""

    def __init__(self, root: Path, directory: Path) -> None:
        self._root = root
        self.seconds = dict(_read_seconds(directory))
        self._data = CoverageData(str(directory / ".coverage"), no_disk=False)
        self._data.read()
        self._lines: dict[str, dict[int, list[str]]] = {}

    @property
    def files(self) -> list[str]:
        """The files of all tests of the record."""
        return sorted({_file_of(test) for test in self.seconds})

    def choose(self, mutant: Mutant, budget: float) -> list[str]:
        """Tests for a mutant, in an order that keeps those of a file together.

        Unit tests are quick and close to the code: all of them, as far as half of the time goes.
        Of the others those first that run most of the changed file.
        """
        tests = [one for one in self._find_tests(mutant) if one in self.seconds]
        lines = Counter(test for found in self._read_lines(mutant.file).values() for test in found)
        near = [one for one in tests if one.startswith("tests/unit")]
        far = [one for one in tests if not one.startswith("tests/unit")]
        chosen = self._fill(near, budget / 2, lines)
        spent = sum(self.seconds[one] for one in chosen)
        chosen += self._fill(far, budget - spent, lines)
        took: dict[str, float] = defaultdict(float)
        for test in chosen:
            took[_file_of(test)] += self.seconds[test]
        return sorted(chosen, key=lambda test: (took[_file_of(test)], _file_of(test)))

    def _fill(self, tests: Iterable[str], budget: float, lines: Counter[str]) -> list[str]:
        """One test of each function, then the second of each, until the time is used up.

        Slow tests come last, so that none of them takes the time of all others.
        """
        groups: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda one: (-lines[one], self.seconds[one], one)):
            groups[re.sub(r"\[.*", "", test, flags=re.DOTALL)].append(test)
        rows = [one for row in zip_longest(*groups.values()) for one in row if one is not None]
        rows.sort(key=lambda test: self.seconds[test] > budget / _SLOW_SHARE)
        chosen: list[str] = []
        for test in rows:
            if self.seconds[test] <= budget:
                budget -= self.seconds[test]
                chosen.append(test)
        return chosen or rows[:1]

    def runs_when_imported(self, mutant: Mutant) -> bool:
        """Whether its lines run before the first test, or only there."""
        if not mutant.is_inside:
            return True
        lines = self._read_lines(mutant.file)
        return any(_OUTSIDE in lines.get(one, ()) for one in _lines_of(mutant))

    def _find_tests(self, mutant: Mutant) -> set[str]:
        lines = self._read_lines(mutant.file)
        wanted: Iterable[int] = _lines_of(mutant) if mutant.is_inside else self._find_uses(mutant)
        found = {test for one in wanted for test in lines.get(one, ())} - {_OUTSIDE}
        if not found and mutant.is_inside:  # a line in the middle of a statement
            near = [one for one in lines if mutant.line - 3 <= one <= mutant.last_line]
            found = {test for one in near for test in lines[one]} - {_OUTSIDE}
        if not found and not mutant.is_inside:
            found = {test for tests in lines.values() for test in tests} - {_OUTSIDE}
        if not mutant.is_inside:
            found |= {test for test in self.seconds if _file_of(test) == _NAMES}
        return found

    def _find_uses(self, mutant: Mutant) -> list[int]:
        """The lines that name the constant which a mutant changes."""
        if mutant.function:  # an attribute of a class, or a default: it is used anywhere
            return []
        text = (self._root / mutant.file).read_text(encoding="utf-8").splitlines()
        above = reversed(text[: mutant.line])
        name = next((found[1] for line in above if (found := _ASSIGNED.match(line))), None)
        if name is None:
            return []
        return [number for number, line in enumerate(text, 1) if re.search(rf"\b{name}\b", line)]

    def _read_lines(self, file: str) -> dict[int, list[str]]:
        if file not in self._lines:
            path = str(self._root / file)
            self._lines[file] = self._data.contexts_by_lineno(path)
        return self._lines[file]


def _lines_of(mutant: Mutant) -> range:
    return range(mutant.line, mutant.last_line + 1)


def _file_of(test: str) -> str:
    return test.split("::", 1)[0]


def _read_seconds(directory: Path) -> Iterable[tuple[str, float]]:
    for path in directory.glob("tests-*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            test, seconds = json.loads(line)
            yield test, seconds
