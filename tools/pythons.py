"""Run the tests with every Python that this machine has, each in a virtual environment of its own.

    python tools/pythons.py [--only all|oldest|newest|ends] [--list] [PYTHON ...]

A PYTHON is a path, a name or a version (3.12). Without any it looks for CPython 3.11 and newer on
PATH, in the usual directories and in pyenv; of several with the same version the first counts. Each
runs `make test` in `.venv-VERSION`, with the ARGS of the make that called. Ends with 1 if a run
failed, with 2 if there is nothing to run.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST = (3, 11)
DESCRIBE = (
    "import platform, sys, ensurepip, venv; "
    "print(sys.implementation.name, platform.python_version(), *sys.version_info[:3])"
)
USUAL = ["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"]
CHOICES: dict[str, Callable[[list[Interpreter]], list[Interpreter]]] = {
    "all": lambda found: found,
    "oldest": lambda found: found[:1],
    "newest": lambda found: found[-1:],
    "ends": lambda found: found[:1] + found[1:][-1:],
}


@dataclass(frozen=True)
class Interpreter:
    """A Python that can run the tests."""

    path: str
    version: str
    order: tuple[int, ...]


def list_candidates() -> Iterator[str]:
    """The paths where a Python may be, the likeliest first; some are shims that lead nowhere."""
    pyenv = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    yield from sorted(glob.glob(f"{pyenv}/versions/3.*/bin/python3"))
    for directory in [*os.get_exec_path(), *USUAL]:
        yield from sorted(glob.glob(f"{directory}/python3.[1-9][0-9]"))
        yield f"{directory}/python3"


def describe(path: str) -> Interpreter | str | None:
    """The Python at that path; a text says why one is of no use, nothing that there is none."""
    try:
        done = subprocess.run(
            [path, "-c", DESCRIBE], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        lacks_venv = "ensurepip" in done.stderr or "venv" in done.stderr
        return (
            "it has no venv module (Debian: apt-get install python3-venv)" if lacks_venv else None
        )
    name, version, *numbers = done.stdout.split()
    order = tuple(map(int, numbers))
    if name != "cpython":
        return f"it is {name}"
    return Interpreter(path, version, order) if order >= OLDEST else None


def find_interpreters(candidates: Iterable[str]) -> list[Interpreter]:
    """The Pythons among the candidates, each version once, the oldest first."""
    found: dict[str, Interpreter] = {}
    seen: set[str] = set()
    for path in candidates:
        real = os.path.realpath(path)
        if not os.access(path, os.X_OK) or real in seen:
            continue
        seen.add(real)
        match describe(path):
            case Interpreter(version=version) as interpreter:
                found.setdefault(version, interpreter)
            case str(reason):
                print(f"not used: {path}: {reason}", file=sys.stderr)
    return sort(found.values())


def choose(name: str, found: Iterable[Interpreter]) -> Interpreter | None:
    """The Python of that path, name (python3.12) or version (3.12, 3.12.1)."""
    described = describe(shutil.which(name) or name)
    if isinstance(described, Interpreter):
        return described
    version = name.removeprefix("python")
    return next((one for one in found if f"{one.version}.".startswith(f"{version}.")), None)


def find_named(names: Iterable[str]) -> list[Interpreter]:
    """The Pythons that are named, the oldest first; ends the program if one is not here."""
    everything = find_interpreters(list_candidates())
    found: dict[str, Interpreter] = {}
    for name in names:
        chosen = choose(name, everything)
        if chosen is None:
            print(f"{name}: no Python 3.11 or newer with the venv module", file=sys.stderr)
            raise SystemExit(2)
        found.setdefault(chosen.version, chosen)
    return sort(found.values())


def sort(found: Iterable[Interpreter]) -> list[Interpreter]:
    """The oldest first."""
    return sorted(found, key=lambda one: (one.order, one.version))


def run_tests(interpreter: Interpreter) -> bool:
    """Run `make test` with that Python, and say whether it passed."""
    print(f"--- Python {interpreter.version}: {interpreter.path}", flush=True)
    command = ["make", "--no-print-directory", "test", f"VENV=.venv-{interpreter.version}"]
    done = subprocess.run([*command, f"PYTHON={interpreter.path}"], check=False)
    return done.returncode == 0


def main() -> int:
    """Find, run, and say how it went."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=CHOICES, default="all")
    parser.add_argument("--list", action="store_true", help="print their paths, run nothing")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    wanted = parser.parse_args()
    found = find_named(wanted.pythons) if wanted.pythons else find_interpreters(list_candidates())
    if not found:
        print("no Python 3.11 or newer with the venv module was found", file=sys.stderr)
        return 2
    chosen = CHOICES[wanted.only](found)
    if wanted.list:
        print("\n".join(one.path for one in chosen))
        return 0
    for one in found:
        print(f"found Python {one.version}: {one.path}")
    outcomes = {one.version: run_tests(one) for one in chosen}
    for version, passed in outcomes.items():
        print(f"Python {version}: {'passed' if passed else 'FAILED'}")
    return 0 if all(outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
