"""docgraph's commands as processes of their own, started from one that is preloaded.

A `Process` is what `subprocess.Popen` would give, as far as tests use it; `preload.py` says why it
is not one. Where the system lacks what that needs (macOS), a new interpreter is started instead.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tests.programs import HANGS_SECONDS, open_terminal

ROOT = Path(__file__).parents[2]
_PYTHON = (sys.executable, "-m", "docgraph")
_CAN_PRELOAD = hasattr(os, "pidfd_open") and hasattr(socket, "SOCK_SEQPACKET")


class Process:
    """A running command; its output is text."""

    def __init__(self, pid: int, answers: IO[str], streams: Sequence[IO[str]]) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: int | None = None
        self._answers = answers

    def poll(self) -> int | None:
        """The exit code, if it is over."""
        return self._read_exit(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it is over."""
        code = self._read_exit(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"docgraph ({self.pid})", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing happens to a process that is over."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended: not we are told of it first
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(15)

    def kill(self) -> None:
        self.send_signal(9)

    def communicate(
        self, input: str | None = None, timeout: float = HANGS_SECONDS
    ) -> tuple[str, str]:
        """Everything that it writes until its end; also closes the streams."""
        if self.stdout.closed:
            return "", ""
        deadline = time.monotonic() + timeout
        with ThreadPoolExecutor(2) as readers:
            texts = [readers.submit(one.read) for one in (self.stdout, self.stderr)]
            with suppress(BrokenPipeError):  # it need not read its input
                if input:
                    self.stdin.write(input)
                self.stdin.close()
            try:
                self.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill()  # or the readers would wait for its output
                raise
            stdout, stderr = (one.result() for one in texts)
        self.close()
        return stdout, stderr

    def close(self) -> None:
        """Close our ends of its streams."""
        for stream in (self.stdin, self.stdout, self.stderr, self._answers):
            with suppress(BrokenPipeError):  # what was written too late for it
                stream.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        self.close()

    def _read_exit(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._answers], [], [], timeout)[0]:
            self.returncode = int(self._answers.readline())
        return self.returncode


def start(
    *arguments: str,
    cwd: Path = ROOT,
    files: int | None = None,
    environment: Mapping[str, str] | None = None,
    code: str | None = None,
    preloaded: bool = True,
    outputs: Sequence[int | None] = (None, None),
) -> Process:
    """`docgraph` with these arguments, or this Python code; `files` is its limit of open files.

    A test of what a command imports starts it in a new interpreter, not `preloaded`. `outputs` are
    descriptors for stdout and stderr in place of pipes that the test reads.
    """
    merged = _merge(environment)
    if not (_CAN_PRELOAD and preloaded):
        limit = ["prlimit", f"--nofile={files}"] if files else []
        program = _PYTHON if code is None else (sys.executable, "-c", code)
        streams = [subprocess.PIPE if one is None else one for one in (None, *outputs)]
        return _start_new([*limit, *program, *arguments], cwd, merged, streams)
    pipes = [os.pipe() for _ in range(3)]
    theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
    given = [
        *theirs[:1],
        *(one if new is None else new for one, new in zip(theirs[1:], outputs, strict=True)),
    ]
    ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
    order = {"arguments": arguments, "cwd": str(cwd), "files": files, "environment": merged}
    try:
        return _order({**order, "code": code, "session": False}, given, ours)
    finally:
        for one in theirs:
            os.close(one)


@contextmanager
def start_at_terminal(
    *arguments: str, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[int, Process]]:
    """`docgraph` with these arguments at a terminal of its own: our end of it, and the process.

    The process is told to end with the block, and its last words are read.
    """
    ours, theirs = open_terminal()
    merged = _merge(environment)
    order = {"arguments": arguments, "cwd": str(cwd), "files": None, "environment": merged}
    try:
        if _CAN_PRELOAD:
            own = [os.dup(ours) for _ in range(3)]
            process = _order({**order, "code": None, "session": True}, [theirs] * 3, own)
        else:
            process = _start_new([*_PYTHON, *arguments], cwd, merged, [theirs] * 3)
    finally:
        os.close(theirs)
    try:
        yield ours, process
    finally:
        process.terminate()
        with suppress(OSError):  # the last process that had the terminal is gone
            while os.read(ours, 4096):
                pass  # a terminal that nobody reads would hold the process
        process.wait(HANGS_SECONDS)
        process.close()
        os.close(ours)


def _merge(environment: Mapping[str, str] | None) -> dict[str, str]:
    """Our environment with these variables, and without those of the suite: docgraph has none."""
    own = {name: one for name, one in os.environ.items() if not name.startswith("DOCGRAPH_TEST_")}
    return {**own, **(environment or {})}


def _order(order: object, theirs: Sequence[int], ours: Sequence[int]) -> Process:
    """Have a command started with these streams, of which we have the other ends."""
    answers, answering = socket.socketpair()
    with answers, answering:
        _preloaded.order(order, [*theirs, answering.fileno()])
        reader = answers.makefile()
    pid = int(reader.readline())
    streams = [open(fd, mode) for fd, mode in zip(ours, ("w", "r", "r"), strict=True)]  # noqa: SIM115
    return Process(pid, reader, streams)


def run(
    *arguments: str,
    cwd: Path = ROOT,
    input: str | None = None,
    environment: Mapping[str, str] | None = None,
    code: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """`docgraph` with these arguments, or this Python code, when it is over."""
    process = start(*arguments, cwd=cwd, environment=environment, code=code)
    stdout, stderr = process.communicate(input)
    assert process.returncode is not None
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


class _Preloaded:
    """The one process of this test run that forks commands."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    def order(self, order: object, descriptors: Sequence[int]) -> None:
        """Have a command started with these streams, and the socket for answers."""
        assert self._orders is not None, "the fixture of tests/process/conftest.py starts it"
        socket.send_fds(self._orders, [json.dumps(order).encode()], list(descriptors))

    def start(self) -> None:
        """Start it, where the system can have it."""
        if not _CAN_PRELOAD:
            return
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.process.preload", str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )
        assert self._orders.recv(16) == b"ready"

    def stop(self) -> None:
        """End it; commands that still run go on."""
        if self._orders is not None and self._process is not None:
            self._orders.close()
            self._process.wait(60)
            self._orders = self._process = None


_preloaded = _Preloaded()
start_preloaded, stop_preloaded = _preloaded.start, _preloaded.stop


class _New(subprocess.Popen[str]):
    """A new interpreter, where none can be preloaded."""

    def close(self) -> None:
        """Close our ends of its streams."""
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def _start_new(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], streams: Sequence[int]
) -> Process:
    stdin, stdout, stderr = streams
    # All that tests use of a `Process` it has, too, but it is none by its type.
    return _New(  # type: ignore[return-value]
        command,
        cwd=cwd,
        env=environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=stdin != subprocess.PIPE,
    )
