"""W01: the fuzzing client of Autobahn against a real server; it runs on Python 2.7 alone.

    make conformance

Not part of `make test`: it installs an old program with that Python, where there is one. Of the
cases with compression (12 and 13), which take long, one or two of each group run. Of the others
exactly those fail that send messages above the bound of 64 KiB, which are closed with 1009.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.process.harness import run_server

pytestmark = [pytest.mark.usefixtures("preloaded"), pytest.mark.timeout(1200)]

HERE = Path(__file__).parent / "autobahn"
TOOLS = Path(__file__).parents[2] / ".venv-autobahn"
PYTHONS = ("python2.7", "pypy2", "pypy")
PACKAGES = ("virtualenv==20.15.1", "autobahntestsuite==0.8.2")
CASES = 301
ABOVE_THE_BOUND = {
    f"9.{group}.{case}"
    for group, cases in (
        *((group, range(2, 7)) for group in (1, 2)),
        *((group, range(1, 10)) for group in (3, 4)),
        *((group, range(1, 7)) for group in (5, 6)),
    )
    for case in cases
}
COMPRESSED = {
    *("12.1.1", "12.1.4", "12.1.9", "12.2.5", "12.3.6", "12.4.3", "12.5.12"),
    *("13.1.4", "13.2.4", "13.3.4", "13.4.4", "13.5.4", "13.6.4", "13.7.4"),
}
GOOD = {"OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED"}


def run(*command: str | Path, **options: Any) -> bool:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    return done.returncode == 0


def find_python() -> str | None:
    """A Python 2.7 that runs: shims of version managers are found, and fail, without one."""
    managed = sorted(Path.home().glob(".pyenv/versions/*2.7*/bin/python2.7"))
    for candidate in (*map(shutil.which, PYTHONS), *map(str, managed)):
        if candidate and run(candidate, "-c", "import ssl", timeout=60):
            return candidate
    return None


@pytest.fixture(scope="module")
def wstest() -> Path:
    """The program, installed once."""
    program = TOOLS / "env" / "bin" / "wstest"
    if program.exists():
        return program
    python = find_python()
    if python is None:
        pytest.skip("Autobahn's fuzzing client needs a Python 2.7, and there is none")
    maker, suite = PACKAGES
    libraries = {"PYTHONPATH": str(TOOLS / "maker"), "PATH": "/usr/bin:/bin"}
    is_there = (
        run(python, "-m", "pip", "install", "--target", TOOLS / "maker", maker, timeout=600)
        and run(python, "-m", "virtualenv", TOOLS / "env", env=libraries, timeout=300)
        and run(TOOLS / "env" / "bin" / "pip", "install", suite, timeout=600)
    )
    if not is_there:
        pytest.skip("Autobahn's fuzzing client cannot be installed")
    return program


def test_exactly_the_cases_above_the_bound_on_messages_fail(wstest: Path, tmp_path: Path) -> None:
    results, failed = run_cases(wstest, tmp_path, ["*"], ["12.*", "13.*"])
    assert len(results) == CASES
    assert failed == ABOVE_THE_BOUND


def test_messages_are_compressed_as_clients_offer_it(wstest: Path, tmp_path: Path) -> None:
    results, _ = run_cases(wstest, tmp_path, sorted(COMPRESSED), [])
    assert {case: result["behavior"] for case, result in results.items()} == dict.fromkeys(
        COMPRESSED, "OK"
    )


def run_cases(
    wstest: Path, tmp_path: Path, cases: list[str], left_out: list[str]
) -> tuple[dict[str, Any], set[str]]:
    """The results by their case, and the cases that failed."""
    settings = {"core": {"plugins-directory": str(HERE)}}
    with run_server(settings) as server:
        specification = {
            "outdir": str(tmp_path / "reports"),
            "servers": [{"agent": "docgraph", "url": f"ws://127.0.0.1:{server.port}/echo"}],
            "cases": cases,
            "exclude-cases": left_out,
            "exclude-agent-cases": {},
        }
        (tmp_path / "cases.json").write_text(json.dumps(specification))
        command = [str(wstest), "-m", "fuzzingclient", "-s", str(tmp_path / "cases.json")]
        assert run(*command, cwd=tmp_path, timeout=1100)
    results = json.loads((tmp_path / "reports" / "index.json").read_text())["docgraph"]
    failed = {
        case
        for case, result in results.items()
        if not {result["behavior"], result["behaviorClose"]} <= GOOD
    }
    print(f"\nAutobahn: {len(results)} cases, failed: {sorted(failed) or 'none'}")
    return results, failed
