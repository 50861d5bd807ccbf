"""Tests run in forks as in one process: all of them, each once, with its own output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.process.commands import ROOT
from tests.programs import HANGS_SECONDS

CONFTEST = """\
import pathlib, pytest
from tests import forked, times

times.DIRECTORY = pathlib.Path(__file__).parent / "times"

def pytest_addoption(parser):
    forked.add_option(parser)

def pytest_configure(config):
    times.install(config)
    forked.install(config)

@pytest.fixture(scope="session", autouse=True)
def noted():
    with (pathlib.Path(__file__).parent / "noted").open("ab", buffering=0) as file:
        file.write(b"begun ")
        yield
        file.write(b"ended ")
"""
DYING = """\
import os

def test_first(): pass
def test_dying(): os._exit(3)
def test_last(): pass
"""
FAILING = """\
import pytest

@pytest.mark.parametrize("number", range(8))
def test_even(number, tmp_path):
    (tmp_path / "file").write_text("")
    print(f"said {number}")
    assert number % 2 == 0
"""


def _run(directory: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in {"conftest": CONFTEST, **files}.items():
        (directory / f"{name}.py").write_text(text)
    quiet = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist")
    return subprocess.run(
        (sys.executable, "-m", "pytest", "-c", "/dev/null", *quiet, *options, str(directory)),
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
        cwd=ROOT,
    )


def test_a_fork_that_dies_fails_its_test_and_the_others_run(tmp_path: Path) -> None:
    done = _run(tmp_path, "-n", "2", test_dying=DYING, test_failing=FAILING)

    assert done.returncode == 1, done
    assert "test_dying ended" in done.stdout
    assert "5 failed, 6 passed" in done.stdout
    assert [done.stdout.count(f"said {number}\n") for number in range(8)] == [0, 1] * 4


def test_the_fixtures_of_a_run_that_stops_early_end_in_every_fork(tmp_path: Path) -> None:
    done = _run(tmp_path, "-n", "3", "-x", test_failing=FAILING)

    assert done.returncode == 1, done
    assert "stopping after" in done.stdout
    noted = (tmp_path / "noted").read_text().split()
    assert noted.count("begun") == noted.count("ended") > 0
