"""The process of a command: its own exit code, and streams that are closed."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading, time
from docgraph.cli.process import leave, prepare_to_leave

prepare_to_leave()
begun, never = threading.Event(), threading.Event()

def work():
    begun.set()
    never.wait()

atexit.register(print, "closed")
atexit.register(time.sleep, 1.5)  # what takes its time is given it
if sys.argv[1] != "idle":
    threading.Thread(target=work, daemon=sys.argv[1] == "busy").start()
    begun.wait()
leave(3)
print("by itself")
"""


def run(state: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, state],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.split("\n")[:-1]


def test_a_process_with_a_thread_at_work_does_not_wait_for_it() -> None:
    assert run("busy") == (3, ["by itself", "closed"])


def test_nor_for_a_thread_that_python_would_wait_for() -> None:
    assert run("stubborn") == (3, ["by itself"])


def test_a_process_without_one_ends_as_any_other() -> None:
    assert run("idle") == (0, ["by itself", "closed"])


# --- standard streams that are closed -------------------------------------------------------------

CHECK = """
import os, socket, sys
from docgraph.cli.process import guard_streams
guard_streams(is_server=True)
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
