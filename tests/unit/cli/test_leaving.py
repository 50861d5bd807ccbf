"""A server whose threads are still at work ends with its own exit code."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import atexit, sys, threading
from docgraph.cli.process.leaving import leave

begun, never = threading.Event(), threading.Event()

def work():
    begun.set()
    never.wait()

atexit.register(print, "closed")
if sys.argv[1] == "busy":
    threading.Thread(target=work).start()  # which the end of Python would wait for
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
    assert run("busy") == (3, ["closed"])


def test_a_process_without_one_ends_as_any_other() -> None:
    assert run("idle") == (0, ["by itself", "closed"])
