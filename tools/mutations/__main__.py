"""Mutation testing of the modules that decide what a caller may see and do.

    python -m tools.mutations map               record which lines each test runs (once)
    python -m tools.mutations run --count 400   try a sample of mutants, write a report

`run` exits with 1 when fewer than nine of ten mutants are killed, or when one survives that
`accepted.yml` does not give a reason for. A mutant costs a fork and the tests of its lines, with a
mongod that all mutants of a lane share. Libraries for mutation testing have not been tried here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import yaml
from tests.databases import data_directory
from tools.mutations.mutants import Mutant, find_mutants, is_valid
from tools.mutations.recorder import VARIABLE
from tools.mutations.selection import Selection

from docgraph.embedded import EmbeddedMongo, MongodOptions

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "src/docgraph", *sorted(ROOT.glob("*/src/docgraph_*")))
BUILD = ROOT / "build" / "mutations"
MAP = BUILD / "map"
RESULTS = BUILD / "results.jsonl"
ACCEPTED = Path(__file__).with_name("accepted.yml")
GOAL = 0.9
_TESTS = ("tests/unit", "tests/http", "tests/properties", "workbench/tests", "migrate/tests")
_BUDGET_SECONDS = 12.0  # of tests for one mutant, as long as they took for the record
_PATIENCE = 4.0  # so many times as long as recorded may they take, and a start
_START_SECONDS = 60.0
_MONGOD = MongodOptions(cache_gb=0.5, oplog_mb=64, journal_ms=100, test_commands=True)
_DEAD = ("killed", "timeout")
_CONTROL_EACH = 25  # one of so many runs is without a mutation: its tests must pass


@dataclass(frozen=True)
class Result:
    """How a mutant fared."""

    mutant: Mutant
    outcome: str  # killed, timeout, survived, untested, error
    by: str = ""  # the test that failed
    output: str = ""


class Lane:
    """A process that tries mutants, with a mongod of its own."""

    def __init__(self, files: Sequence[str]) -> None:
        self.uri = ""
        command = [sys.executable, "-m", "tools.mutations.lane", *files]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._orders, self._replies = self._process.stdin, self._process.stdout

    def order(
        self, tests: Sequence[str], seconds: float, mutant: Mutant | None, forked: bool
    ) -> dict[str, str]:
        """Have the tests run, with a mutation or without."""
        source = ""
        if mutant is not None:
            source = mutant.apply((ROOT / mutant.file).read_bytes()).decode()
        order = {
            "tests": list(tests),
            "file": mutant.file if mutant else "",
            "source": source,
            "forked": forked,
            "mongo": self.uri,
            "seconds": seconds * _PATIENCE + _START_SECONDS,
        }
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        reply: dict[str, str] = json.loads(self.read())
        return reply

    def read(self) -> str:
        """The next line of the process."""
        line = self._replies.readline()
        if not line:
            raise RuntimeError("a process that tries mutants has ended")
        return line

    def close(self) -> None:
        """End the process, which has no orders left."""
        self._orders.close()
        self._process.wait()


class Run:
    """A sample of mutants, tried by several lanes."""

    def __init__(self, selection: Selection, arguments: argparse.Namespace) -> None:
        self._selection = selection
        self._arguments = arguments
        self._deadline = time.monotonic() + arguments.minutes * 60
        self._waiting: SimpleQueue[Mutant] = SimpleQueue()
        self.results: list[Result] = []
        self.false_alarms: list[str] = []
        self.controls = 0

    def try_all(self, mutants: Iterable[Mutant]) -> None:
        """Try each, until the time is over."""
        for mutant in mutants:
            self._waiting.put(mutant)
        with ThreadPoolExecutor(self._arguments.lanes) as threads:
            for lane in [threads.submit(self._serve) for _ in range(self._arguments.lanes)]:
                lane.result()

    def _serve(self) -> None:
        lane = Lane(self._selection.files)
        lane.read()
        while self._has_time():
            with data_directory() as directory, EmbeddedMongo(directory, options=_MONGOD) as uri:
                lane.uri = f"{uri}&connectTimeoutMS=30000"
                while self._has_time():
                    result = self._try(lane, self._waiting.get())
                    self._record(result)
                    if result.outcome == "timeout":
                        break  # tests that were ended have left a failpoint, maybe
        lane.close()

    def _has_time(self) -> bool:
        return not self._waiting.empty() and time.monotonic() < self._deadline

    def _try(self, lane: Lane, mutant: Mutant) -> Result:
        tests = self._selection.choose(mutant, self._arguments.budget)
        if not tests:
            return Result(mutant, "untested")
        seconds = sum(self._selection.seconds[one] for one in tests)
        if len(self.results) % _CONTROL_EACH == 0:
            self._control(lane, tests, seconds)
        forked = not self._selection.runs_when_imported(mutant)
        reply = lane.order(tests, seconds, mutant, forked)
        by = reply["by"]
        if by and not by.startswith("tests/unit"):
            # On a busy machine a test may fail by itself.
            again = lane.order([by], self._selection.seconds.get(by, 1.0), None, True)
            if again["outcome"] != "survived":
                self.false_alarms.append(by)
                return Result(mutant, "error", by, again["output"])
        return Result(mutant, reply["outcome"], by, reply["output"])

    def _control(self, lane: Lane, tests: Sequence[str], seconds: float) -> None:
        self.controls += 1
        reply = lane.order(tests, seconds, None, True)
        if reply["outcome"] != "survived":
            self.false_alarms.append(reply["by"] or reply["output"][-200:])

    def _record(self, result: Result) -> None:
        self.results.append(result)
        place = f"{result.mutant.file}:{result.mutant.line}"
        print(
            f"{len(self.results):4} {result.outcome:9} {place} {result.mutant.change}", flush=True
        )
        with RESULTS.open("a", encoding="utf-8") as file:
            about = {"key": result.mutant.key, "line": result.mutant.line}
            words = {"outcome": result.outcome, "by": result.by, "output": result.output[-400:]}
            file.write(json.dumps({**about, **words}) + "\n")


def read_killed() -> set[str]:
    """The keys of mutants that were killed when they were last tried."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    last = {result["key"]: result["outcome"] for result in map(json.loads, lines)}
    return {key for key, outcome in last.items() if outcome in _DEAD}


def read_accepted() -> dict[str, str]:
    """Reasons by the keys of mutants that may survive."""
    listed: list[dict[str, Any]] = yaml.safe_load(ACCEPTED.read_text(encoding="utf-8")) or []
    return {key: group["reason"] for group in listed for key in group["mutants"]}


def take_sample(arguments: argparse.Namespace) -> list[Mutant]:
    """The mutants of a seed, spread over the whole source; or those of some files."""
    paths = sorted(
        path
        for package in PACKAGES
        for path in package.rglob("*.py")
        if any(part in path.as_posix() for part in arguments.only or [""])
    )
    mutants = [one for path in paths for one in find_mutants(ROOT, path)]
    mutants.sort(key=lambda one: one.rank(arguments.seed))
    if arguments.again:
        wanted = set(arguments.again.read_text(encoding="utf-8").splitlines())
        mutants = [one for one in mutants if one.key in wanted]
    sample: list[Mutant] = []
    for mutant in mutants:
        if len(sample) == arguments.count:
            break
        if is_valid(ROOT, mutant):
            sample.append(mutant)
    return sample


def write_report(run: Run, wanted: int) -> bool:
    """Whether enough were killed, and every survivor has a reason."""
    accepted = read_accepted()
    counted = Counter(one.outcome for one in run.results)
    killed = counted["killed"] + counted["timeout"]
    tried = killed + counted["survived"] + counted["untested"]
    share = killed / tried if tried else 0.0
    alive = [one for one in run.results if one.outcome in ("survived", "untested")]
    unexplained = [one for one in alive if one.mutant.key not in accepted]
    lines = [
        f"{tried} of {wanted} mutants tried, {killed} killed ({share:.1%}; the goal is {GOAL:.0%})",
        f"{counted['timeout']} of them by time, {counted['error']} without a result",
        f"{run.controls} runs without a mutation; tests that failed by themselves: "
        + (", ".join(run.false_alarms) or "none"),
        f"{len(alive)} survived, {len(unexplained)} of them without a reason in accepted.yml",
        *(
            f"- {one.mutant.key} (line {one.mutant.line}, {one.outcome}): "
            f"{accepted.get(one.mutant.key, 'NO REASON')}"
            for one in sorted(alive, key=lambda one: one.mutant.key)
        ),
    ]
    text = "\n".join(lines)
    (BUILD / "report.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    return share >= GOAL and not unexplained


def record_map(arguments: argparse.Namespace) -> None:
    """Run the tests once, and record which lines each of them runs."""
    if not arguments.add:
        shutil.rmtree(MAP, ignore_errors=True)
    MAP.mkdir(parents=True, exist_ok=True)
    settings = BUILD / "coverage.toml"
    settings.write_text(
        f'[run]\nsource = ["src/docgraph", "workbench/src", "migrate/src"]\n'
        f'patch = ["subprocess", "fork", "_exit"]\n'
        f'data_file = "{MAP / ".coverage"}"\n',
        encoding="utf-8",
    )
    coverage = [sys.executable, "-m", "coverage"]
    options = [f"--rcfile={settings}"]
    pytest = ["-m", "pytest", "-q", "-n", str(arguments.testers)]
    environment = {**os.environ, VARIABLE: str(MAP), "DOCGRAPH_TEST_SECONDS": "14400"}
    plugin = ["-p", "no:randomly", "-p", "tools.mutations.recorder"]
    tests = arguments.tests or _TESTS
    # Tests that fail are left out of the record.
    subprocess.run(
        [*coverage, "run", *options, *pytest, *plugin, *tests],
        cwd=ROOT,
        env=environment,
        check=False,
    )
    subprocess.run([*coverage, "combine", "--append", *options], cwd=ROOT, check=True)


def main() -> int:
    """Make the record, or use it."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutations")
    commands = parser.add_subparsers(dest="command", required=True)
    mapping = commands.add_parser("map")
    mapping.add_argument("--testers", type=int, default=4)
    mapping.add_argument("--add", action="store_true", help="to the record that exists")
    mapping.add_argument("tests", nargs="*")
    running = commands.add_parser("run")
    running.add_argument("--count", type=int, default=400)
    running.add_argument("--seed", type=int, default=29)
    running.add_argument("--minutes", type=float, default=60)
    running.add_argument("--lanes", type=int, default=2)
    running.add_argument("--budget", type=float, default=_BUDGET_SECONDS)
    running.add_argument("--only", nargs="*", help="parts of the paths of the changed files")
    running.add_argument("--resume", action="store_true", help="those killed before stay killed")
    running.add_argument("--again", type=Path, help="a file with keys of mutants, one a line")
    arguments = parser.parse_args()
    if arguments.command == "map":
        record_map(arguments)
        return 0
    selection, sample = Selection(ROOT, MAP), take_sample(arguments)
    run = Run(selection, arguments)
    BUILD.mkdir(parents=True, exist_ok=True)
    killed = read_killed() if arguments.resume else set()
    if not arguments.resume:
        RESULTS.unlink(missing_ok=True)
    run.results += [Result(one, "killed") for one in sample if one.key in killed]
    run.try_all(one for one in sample if one.key not in killed)
    return 0 if write_report(run, len(sample)) else 1


if __name__ == "__main__":
    sys.exit(main())
