"""A process that tries mutants, one after the other, each in a fork of itself.

It imports docgraph and the tests once; a fork replaces the code of the functions that a mutant
changes and runs the tests chosen for it, which costs a second instead of ten. What that cannot
reach (constants of modules, functions that have run when modules were imported) is tried in a new
interpreter, which imports the changed file in place of the real one (`replaced.py`).

    python -m tools.mutations.lane FILE...    orders and results: one JSON object a line
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from tools.mutations import replaced

ROOT = Path(__file__).parents[2]
OPTIONS = ["-x", "-q", "--no-header", "--tb=line", "-p", "no:randomly", "-p", "no:cacheprovider"]
_POLL_SECONDS = 0.02


class Known:
    """The tests that there are; the record may name others, which were renamed since."""

    def __init__(self) -> None:
        self.tests: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.tests.update(item.nodeid for item in session.items)


class Witness:
    """Remembers the first test that fails, for the process that waits."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._path.stat().st_size:
            self._path.write_text(report.nodeid, encoding="utf-8")


def main() -> None:
    """Import everything, then serve until nobody orders any more."""
    os.chdir(ROOT)
    replies = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what pytest says
    known = Known()
    pytest.main(["--collect-only", "-qq", *OPTIONS, *sys.argv[1:]], plugins=[known])
    os.write(replies, b"ready\n")
    for line in sys.stdin:
        order = json.loads(line)
        order["tests"] = [one for one in order["tests"] if one in known.tests]
        result = _try(order) if order["tests"] else {"outcome": "untested", "by": "", "output": ""}
        os.write(replies, json.dumps(result).encode() + b"\n")


def _try(order: dict[str, Any]) -> dict[str, str]:
    """How a mutant fares: killed by a test, or too slow, or alive, or not tried for a reason."""
    with tempfile.TemporaryDirectory() as directory:
        witness, output = Path(directory, "witness"), Path(directory, "output")
        witness.touch()
        source = Path(directory, "source.py")
        source.write_text(order.get("source") or "", encoding="utf-8")
        code = None
        if order["forked"]:
            code = _await(_fork(order, source, witness, output), order["seconds"])
            if code == replaced.IMPOSSIBLE:
                code = None
        if code is None:
            code = _await(_start(order, source, witness, output), order["seconds"])
        by = witness.read_text(encoding="utf-8")
        said = output.read_text(encoding="utf-8", errors="replace")
        return {"outcome": _read_outcome(code, by, said), "by": by, "output": said[-2000:]}


def _read_outcome(code: int, by: str, said: str) -> str:
    if code == -1:
        return "timeout"
    if code == 0:
        return "survived"
    # An import failed, with an exception that is shown; and not the options or names of tests.
    is_broken = code in (2, 4) and "\nE   " in said and "not found" not in said
    return "killed" if by or code == 1 or is_broken else "error"


def _fork(order: dict[str, Any], source: Path, witness: Path, output: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code: int = replaced.IMPOSSIBLE
    try:
        os.setsid()
        for descriptor in (1, 2):
            os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
        os.environ["DOCGRAPH_TEST_MONGO"] = order["mongo"]
        if not order["file"] or replace_code(ROOT / order["file"], source.read_text("utf-8")):
            code = int(pytest.main([*OPTIONS, *order["tests"]], plugins=[Witness(witness)]))
    finally:
        os._exit(code)


def _start(order: dict[str, Any], source: Path, witness: Path, output: Path) -> int:
    environment = {
        **os.environ,
        "DOCGRAPH_TEST_MONGO": order["mongo"],
        replaced.FILE: str(ROOT / order["file"]) if order["file"] else "",
        replaced.SOURCE: str(source),
        replaced.WITNESS: str(witness),
    }
    command = [sys.executable, "-m", "pytest", "-p", "tools.mutations.replaced", *OPTIONS]
    with output.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [*command, *order["tests"]],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )
    return process.pid


def _await(pid: int, seconds: float) -> int:
    """The exit code; -1 for a process that took too long, and was ended with its children."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 1
        time.sleep(_POLL_SECONDS)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1


def replace_code(path: Path, source: str) -> bool:
    """Give every function of a file the code that it has in the changed source."""
    old = dict(_walk(compile(path.read_bytes(), str(path), "exec", dont_inherit=True)))
    new = dict(_walk(compile(source, str(path), "exec", dont_inherit=True)))
    by_name = {name: code for (name, _), code in new.items()}
    if len(by_name) != len(new) or len(old) != len(new):
        return False  # two functions of one name: which of them is changed, nobody knows
    gc.unfreeze()
    wanted = str(path)
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == wanted:
            code = function.__code__
            if not code.co_name.startswith("<"):
                try:
                    function.__code__ = by_name[code.co_qualname]
                except (KeyError, ValueError):  # other variables of the functions around it
                    return False
    return True


def _walk(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if not one.co_name.startswith("<"):  # a lambda is part of the function around it
                yield (one.co_qualname, one.co_firstlineno), one
            yield from _walk(one)


if __name__ == "__main__":
    main()
