"""Print what the tests of the last run cost, and check it against `tests/budgets.yml`.

Budgets are about processor time, of the sum of a directory and of each test by itself. A busy
machine and a slower processor need up to twice as much: the check of a whole run of the first tier
prints what exceeds its budget, and fails where that does not explain it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "build" / "test-times"
BUDGETS = ROOT / "tests" / "budgets.yml"
_PHASES = ("setup", "call", "teardown")
_TOP = 25
_SINGLE = 3  # times as much as its budget a single test may take, for it can meet a collection
_BUSY = 2  # times as much processor time the same work may take

Phases = dict[str, tuple[float, float]]


class Times:
    """The records of all processes of a run."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.tests: dict[str, Phases] = {}
        self.fixtures: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        self.second_tier: set[str] = set()
        self.collections = [record["collection"] for record in records]
        self.seconds = max((record["seconds"] for record in records), default=0.0)
        for record in records:
            self.tests.update(record["tests"])
            self.second_tier.update(record["second_tier"])
            for name, sums in record["fixtures"].items():
                self.fixtures[name] = [
                    sum(pair) for pair in zip(self.fixtures[name], sums, strict=True)
                ]

    def sum_by(self, choose: Callable[[str], str]) -> dict[str, list[float]]:
        """Number, seconds and processor time of tests, by a part of their name."""
        sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for test, phases in self.tests.items():
            total = sums[choose(test)]
            total[0] += 1
            for seconds, cpu in phases.values():
                total[1] += seconds
                total[2] += cpu
        return sums


def find_directory(test: str) -> str:
    """`tests/http/rest` for a test below it; two levels are enough elsewhere."""
    parts = test.split("::", maxsplit=1)[0].split("/")[:-1]
    return "/".join(parts[: 3 if parts[1:2] == ["http"] else 2])


def print_table(title: str, rows: dict[str, list[float]], top: int | None = None) -> None:
    """Rows of number, seconds and processor time; the most expensive first."""
    print(f"\n{title}\n{'number':>8}{'seconds':>10}{'cpu':>10}")
    for name, (number, seconds, cpu) in sorted(rows.items(), key=lambda row: -row[1][2])[:top]:
        print(f"{int(number):8}{seconds:10.1f}{cpu:10.1f}  {name}")


def print_report(times: Times) -> None:
    """All tables."""
    print(f"{len(times.tests)} tests, {times.seconds:.0f} s")
    print(f"collection: {[f'{cpu:.1f} s of cpu' for _, cpu in times.collections]}")
    phases = {
        phase: [
            len(times.tests),
            *(sum(one.get(phase, (0, 0))[kind] for one in times.tests.values()) for kind in (0, 1)),
        ]
        for phase in _PHASES
    }
    print_table("phases", phases)
    print_table("directories", times.sum_by(find_directory))
    print_table("files", times.sum_by(lambda test: test.split("::")[0]), _TOP)
    print_table("fixtures", times.fixtures, _TOP)
    print_table("functions", times.sum_by(lambda test: test.split("[")[0]), _TOP)
    print(f"\nsecond tier: {len(times.second_tier)} tests ran")
    for test in sorted({test.split("[")[0] for test in times.second_tier}):
        print(f"  {test}")


def find_excesses(times: Times, budgets: dict[str, Any], factor: int = 1) -> Iterator[str]:
    """One line for each directory and each test above so many times its budget."""
    first = Times([])
    first.tests = {name: one for name, one in times.tests.items() if name not in times.second_tier}
    allowed = budgets["directories"]
    for directory, (_, _, cpu) in sorted(first.sum_by(find_directory).items()):
        if directory not in allowed:
            yield f"{directory}: no budget in {BUDGETS.name}"
        elif cpu > factor * allowed[directory]:
            yield f"{directory}: {cpu:.0f} s of processor time, the budget is {allowed[directory]}"
    for test, phases in sorted(first.tests.items()):
        cpu = phases.get("call", (0, 0))[1]
        if cpu > factor * _SINGLE * budgets["test"] and test.split("[")[0] not in budgets["longer"]:
            yield f"{test}: {cpu:.1f} s of processor time, the budget is {budgets['test']}"


def main() -> int:
    """Print the report, or with `--check` only what exceeds its budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="print what exceeds its budget; 1 if by much"
    )
    options = parser.parse_args()
    times = Times([json.loads(file.read_text()) for file in sorted(RECORDS.glob("*.json"))])
    if not times.tests:
        print("no run of the tests is recorded: run `make test` first")
        return 1
    if not options.check:
        print_report(times)
        return 0
    budgets = yaml.safe_load(BUDGETS.read_text())
    print("\n".join(find_excesses(times, budgets)) or "budgets of the tests kept")
    return 1 if any(find_excesses(times, budgets, _BUSY)) else 0


if __name__ == "__main__":
    sys.exit(main())
