"""The part of `drill_bare.py` that runs in the bare system: both commands of the README.

python3 tools/drill_bare_inside.py [PYTEST_ARGUMENT ...]
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parent.parent
CANNOT = 77
START_SECONDS = 900
STOP_SECONDS = 60
TEST_SECONDS = 7200  # a machine that also does other work takes its time
# The command that `make run` prints for people to paste: its address and the body behind -d.
PRINTED = re.compile(r"curl -s (\S+).*?-d '(.*?)'", re.DOTALL)


class Failed(Exception):
    """What a stranger would have seen go wrong."""


def check_bare() -> None:
    """The tree proves nothing if it has what a bare machine lacks."""
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    if "libcurl.so.4 " in known or shutil.which("curl"):
        raise Failed("this system is not bare: it has curl or libcurl.so.4")


def check_registry() -> None:
    """End with a status of its own where packages cannot be had."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        command = [f"{place}/bin/pip", "download", "--quiet", "--no-deps", "-d", place, "click"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"drill-bare cannot run here: no package registry: {said}", file=sys.stderr)
        raise SystemExit(CANNOT)


def run_demo() -> None:
    """`make run` until the query that it prints is answered, then SIGTERM."""
    with subprocess.Popen(
        ["make", "run"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            with deadline(process, START_SECONDS):
                check_answer(*read_printed(process.stdout))
        finally:
            with deadline(process, STOP_SECONDS):
                process.send_signal(signal.SIGTERM)
                for line in process.stdout:
                    print(line, end="", flush=True)
    left = [command for command in list_commands() if "mongod" in command]
    if left:
        raise Failed(f"a mongod outlived make run: {left}")


@contextmanager
def deadline(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """End the process and all that it started if what follows takes longer."""
    timer = threading.Timer(seconds, os.killpg, [process.pid, signal.SIGKILL])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def read_printed(output: IO[str]) -> tuple[str, str]:
    """The address and the body of the query that people are told to paste."""
    text = ""
    for line in output:
        print(line, end="", flush=True)
        text += line
        if "Ctrl-C" in line and (found := PRINTED.search(text)):
            return found[1], found[2]
    raise Failed("make run ended, or took too long, before it printed a query")


def check_answer(address: str, body: str) -> None:
    """Ask the printed query, as curl would."""
    request = urllib.request.Request(  # noqa: S310 - of loopback
        address, body.encode(), {"Content-Type": "application/json"}, method="POST"
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=30) as reply:
        answer = json.load(reply)
    if "errors" in answer or not all(answer["data"].values()):
        raise Failed(f"the printed query was answered with {answer}")
    print(f"the printed query was answered: {json.dumps(answer)[:100]}", flush=True)


def list_commands() -> list[str]:
    """The command lines of every process in this namespace."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(Path("/proc", number, "cmdline").read_text().replace("\0", " "))
        except OSError:  # it ended in the meantime
            continue
    return [command for command in found if command]


def run_tests(arguments: list[str]) -> None:
    """`make test`, all of it or what was chosen."""
    chosen = [f"ARGS={' '.join(arguments)}"] if arguments else []
    done = subprocess.run(["make", "test", *chosen], cwd=ROOT, timeout=TEST_SECONDS, check=False)
    if done.returncode:
        raise Failed(f"make test ended with {done.returncode}")


def main(arguments: list[str]) -> int:
    """Both commands, in the order of the README."""
    try:
        check_bare()
        check_registry()
        run_demo()
        run_tests(arguments)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        print(f"drill-bare failed: {error}", file=sys.stderr)
        return 1
    print("drill-bare: make run and make test work on a bare machine")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
