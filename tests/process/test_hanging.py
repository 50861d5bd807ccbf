"""A test that hangs fails, and the run ends: the settings of the suite, tried on one that does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.process.commands import ROOT
from tests.programs import HANGS_SECONDS

HANGING = """\
import asyncio, pytest

@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}

@pytest.mark.timeout(100)
def test_short():
    pass

async def test_hanging():
    while True:
        await asyncio.sleep(0.01)
"""


def test_an_asynchronous_test_that_hangs_ends_with_its_stack(tmp_path: Path) -> None:
    file = tmp_path / "test_hanging.py"
    file.write_text(HANGING)
    options = ("-c", str(ROOT / "pyproject.toml"), "--noconftest", "-p", "no:cacheprovider")
    # A test that may take longer comes before it.
    watched = ("-v", "-p", "no:randomly", "-p", "tests.hanging", "-o", "timeout=1")
    command = (sys.executable, "-m", "pytest", *options, *watched, str(file))

    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False, cwd=ROOT
    )

    assert "test_short PASSED" in done.stdout
    assert done.returncode != 0
    assert "Timeout" in done.stderr + done.stdout
    assert "run_test" in done.stderr + done.stdout
