"""Forker: a process that forks workers, with everything imported and without threads.

    parent ──── order, descriptors ────▶ forker ──── fork ────▶ process
    parent ◀── its id, its exit code ─── forker

A forked process runs immediately, while a new interpreter would import everything again; it shares
the memory of the imports. The parent cannot fork by then: it has threads. The forker ignores
signals to the process group, because it has to report how the others ended; it ends when its parent
closes it or ends.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple, NoReturn, Self

from docgraph.exchange import StartupError

__all__ = ["ForkedProcess", "Forker"]

# The work of a forked process: the arguments of its order, and the descriptors sent with it.
Work = Callable[[Sequence[Any], Sequence[int]], None]


class ForkedProcess:
    """A process that the forker has started; `sentinel` is readable when it has ended."""

    def __init__(self, pid: int, sentinel: Connection) -> None:
        self.pid = pid
        self.sentinel = sentinel
        self._is_over = False
        self._exit_code: int | None = None

    def is_over(self) -> bool:
        """Return whether it has ended, as reported by the forker."""
        if not self._is_over and self.sentinel.poll():
            self.join()
        return self._is_over

    def join(self) -> int | None:
        """Wait for its end; returns the exit code, negative for a signal, None if unknown."""
        if not self._is_over:
            with contextlib.suppress(EOFError, OSError):  # the forker has ended
                self._exit_code = self.sentinel.recv()
            self._is_over = True
        return self._exit_code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if not self.is_over():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def close(self) -> None:
        """Release its resources."""
        self.sentinel.close()


class _Running(NamedTuple):
    """The forker's record of a process: its id, and where to report its end."""

    pid: int
    report: Connection


class Forker:
    """The parent's side; create it before the parent has threads."""

    def __init__(self, work: Work) -> None:
        self._orders, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._orders.close()
            _run(work, theirs)
        theirs.close()

    def fork(self, arguments: Sequence[Any], descriptors: Sequence[int]) -> ForkedProcess:
        """Start a process that works with these arguments and copies of the descriptors."""
        sentinel, report = Pipe(duplex=False)
        try:
            with report:
                self._orders.send((pickle.dumps(arguments), len(descriptors)))
                for one in (report.fileno(), *descriptors):
                    send_handle(self._orders, one, self._pid)
            return ForkedProcess(sentinel.recv(), sentinel)
        except (EOFError, OSError) as error:
            sentinel.close()
            raise StartupError("the process that starts the workers is gone") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the forker; the processes that it has forked continue."""
        self._orders.close()
        with contextlib.suppress(ChildProcessError):  # something else has waited for it
            os.waitpid(self._pid, 0)


def _run(work: Work, orders: Connection) -> NoReturn:
    """Run the forker until the parent ends."""
    try:
        atexit._clear()  # the exit handlers of the parent
        for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        gc.freeze()  # otherwise garbage collection in forked processes would copy all of it
        _follow_orders(work, orders)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _follow_orders(work: Work, orders: Connection) -> None:
    running: dict[Connection, _Running] = {}  # by the pipe that closes when a process ends
    while True:
        ready = wait([orders, *running])
        for ended in [one for one in running if one in ready]:
            _report_exit(ended, running.pop(ended))
        if orders not in ready:
            continue
        try:
            order, count = orders.recv()
            report, *descriptors = (recv_handle(orders) for _ in range(1 + count))
        except (EOFError, OSError):  # the parent has ended
            return
        ended, alive = Pipe(duplex=False)
        pid = _fork()
        if pid == 0:
            for inherited in (orders, ended, *running, *(one.report for one in running.values())):
                inherited.close()
            os.close(report)
            _be_forked(work, order, descriptors)  # and keeps `alive` open until the end
        alive.close()
        for descriptor in descriptors:
            os.close(descriptor)
        running[ended] = _Running(pid, Connection(report, readable=False))
        with contextlib.suppress(OSError):  # the parent has ended
            running[ended].report.send(pid)


def _fork() -> int:
    """Fork; no signal is lost between the forker, which ignores it, and the new process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    return pid


def _report_exit(ended: Connection, process: _Running) -> None:
    ended.close()
    _, status = os.waitpid(process.pid, 0)
    with process.report as report, contextlib.suppress(OSError):  # the parent has closed its side
        report.send(os.waitstatus_to_exitcode(status))


def _be_forked(work: Work, order: bytes, descriptors: Sequence[int]) -> NoReturn:
    """Do the work and exit like an interpreter, without returning to the parent's stack."""
    code = 1
    try:
        work(pickle.loads(order), descriptors)  # noqa: S301 - the parent has written it
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else code
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
