"""Repeat tests: run every test file many times, each time in another random order.

A test that depends on another one, on timing or on leftovers passes most of the time. Each run is
recorded, so that an interrupted repetition continues where it stopped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "build" / "repeat"
PASSED = {0, 5}  # 5: the file has no tests
AREAS = (
    "tests/unit",
    "tests/http",
    "tests/properties",
    "tests/process",
    "tests/docs",
    "workbench/tests",
    "migrate/tests",
)


def list_runs(paths: list[str], times: int) -> Iterator[tuple[str, int]]:
    """Every file with every seed; all files once before any file again."""
    files = [
        str(file.relative_to(ROOT))
        for path in paths
        for file in (sorted((ROOT / path).rglob("test_*.py")) or [ROOT / path])
    ]
    return ((file, seed) for seed in range(1, times + 1) for file in files)


def read_finished(record: Path) -> dict[str, int]:
    """The exit codes of the runs that are over, by file and seed."""
    lines = record.read_text().splitlines() if record.exists() else []
    return {name: int(code) for name, _, code in (line.rpartition(" ") for line in lines)}


def run(file: str, seed: int) -> int:
    """Run one file; keep the output if a test failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--randomly-seed={seed}", file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in PASSED:
        name = f"{file.replace('/', '.')}-{seed}.log"
        (RECORD / name).write_text(done.stdout + done.stderr)
        print(f"failed: {file} with --randomly-seed={seed}, see build/repeat/{name}", flush=True)
    return done.returncode


def main() -> int:
    """Repeat; return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=AREAS, help="files or directories")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--again", action="store_true", help="forget the runs that are over")
    options = parser.parse_args()
    RECORD.mkdir(parents=True, exist_ok=True)
    record = RECORD / "finished.txt"
    if options.again:
        record.unlink(missing_ok=True)
    finished = read_finished(record)
    for file, seed in list_runs(list(options.paths), options.times):
        if f"{file} {seed}" not in finished:
            finished[f"{file} {seed}"] = run(file, seed)
            with record.open("a") as lines:
                lines.write(f"{file} {seed} {finished[f'{file} {seed}']}\n")
    failed = [name for name, code in finished.items() if code not in PASSED]
    print(f"{len(finished)} runs, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
