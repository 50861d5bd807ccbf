"""Standard streams that were closed by whoever started the command."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHECK = """
import os, socket, sys
from docgraph.cli.process.stdio import replace_closed_streams
replace_closed_streams()
print("said", file=sys.stderr, flush=True)
print("said", flush=True)
with socket.socket() as first:
    sys.exit(first.fileno() < 3)
"""


@pytest.mark.parametrize("closed", ["", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_fails_nobody_and_its_place_is_not_taken(closed: str) -> None:
    script = f'exec "$0" -c "$1" {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable, CHECK],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert done.stdout == ("" if ">&-" in closed.replace("2>&-", "") else "said\n")
