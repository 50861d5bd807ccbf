"""Forkers: processes that fork workers, with everything imported and without threads.

    parent ──── order, descriptors ────▶ forker ──── fork ────▶ process
    parent ◀── its id, its exit code ─── forker
    parent ──── order ─────────────────▶ spare ───── fork ────▶ forker, when the forker is killed

A forked process runs immediately, while a new interpreter would import everything again; it shares
the memory of the imports. The parent cannot fork by then: it has threads. So there are two forkers,
and each can replace the other one. They ignore signals to the process group, because they have to
report how the others ended; they end when their parent closes them or ends.

Processes outlive their forker. Without it no process reports their end: the parent then checks. A
forker that does not follow an order or report an end (it was stopped, for instance) is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, Final, NamedTuple, NoReturn, Self

from docgraph.exchange import StartupError

# The work of a forked process: the arguments of its order, and the descriptors sent with it.
ForkedWork = Callable[[Sequence[Any], Sequence[int]], None]

_FORKERS: Final = 2  # each can replace the other
_FORK_SECONDS: Final = 10.0  # to follow an order
_END_SECONDS: Final = 0.3  # for a forker
_CHECK_SECONDS: Final = 0.005


class ForkedProcess:
    """A process that a forker has started; `sentinel` is readable when either has ended."""

    def __init__(self, pid: int, sentinel: Connection, forker: int) -> None:
        self.pid = pid
        self.forker = forker  # its id
        self.sentinel = sentinel
        self.is_orphan = False  # its forker has ended
        self.exit_code: int | None = None  # negative for a signal; None: it runs, or is unknown
        self._is_over = False

    def is_over(self) -> bool:
        if not self._is_over and not self.is_orphan and self.sentinel.poll():
            try:
                self.exit_code = self.sentinel.recv()
                self._is_over = True
            except (EOFError, OSError):
                self.is_orphan = True
        if not self._is_over and self.is_orphan:
            self._check_orphan()
        return self._is_over

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if not self.is_over():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def close(self) -> None:
        self.sentinel.close()

    def _check_orphan(self) -> None:
        """Check a process whose parent is now this one, as process 1, or a stranger."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._is_over, self.exit_code = True, os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                self._is_over = True


class _Running(NamedTuple):
    """The forker's record of a process: its id, and where to report its end."""

    pid: int
    report: Connection


class _Line(NamedTuple):
    """The parent's connection to one forker."""

    orders: Connection
    pid: int


class Forker:
    """The parent's side; create it before the parent has threads."""

    def __init__(self, work: ForkedWork) -> None:
        self._lines: list[_Line] = []
        self._lost: list[int] = []  # ids of forkers that did not follow an order
        for _ in range(_FORKERS):
            ours, theirs = Pipe()
            pid = os.fork()
            if pid == 0:
                for inherited in (ours, *(line.orders for line in self._lines)):
                    inherited.close()
                _run(work, theirs)
            theirs.close()
            self._lines.append(_Line(ours, pid))

    @property
    def connections_to_forkers(self) -> list[Connection]:
        """Readable when a forker has ended: call `restore` then."""
        return [line.orders for line in self._lines]

    def fork(self, arguments: Sequence[Any], descriptors: Sequence[int]) -> ForkedProcess:
        """Start a process that works with these arguments and copies of the descriptors."""
        return self._order(pickle.dumps(arguments), descriptors)

    def kill(self, *pids: int) -> None:
        """Kill forkers that hang, all of them without an id; call `restore` for others."""
        for line in self._lines:
            if not pids or line.pid in pids:
                _kill(line.pid)

    def restore(self) -> list[int]:
        """Replace a forker that has ended; returns the ids of those that had ended."""
        lost = [line for line in self._lines if line.orders.poll()]  # they send nothing else
        for line in lost:
            self._drop(line)
        while len(self._lines) < _FORKERS:
            ours, theirs = Pipe()
            with theirs:
                forker = self._order(None, [theirs.fileno()])
            forker.close()  # its line tells when it ends
            self._lines.append(_Line(ours, forker.pid))
        pids, self._lost = [*self._lost, *(line.pid for line in lost)], []
        return pids

    def _order(self, order: bytes | None, descriptors: Sequence[int]) -> ForkedProcess:
        while self._lines:
            line = self._lines[0]
            sentinel, report = Pipe(duplex=False)
            try:
                with report:
                    line.orders.send((order, len(descriptors)))
                    for descriptor in (report.fileno(), *descriptors):
                        send_handle(line.orders, descriptor, line.pid)
                if sentinel.poll(_FORK_SECONDS):
                    return ForkedProcess(sentinel.recv(), sentinel, line.pid)
                _kill(line.pid)
            except (EOFError, OSError):
                pass  # it has ended
            sentinel.close()
            self._lost.append(line.pid)
            self._drop(line)
        raise StartupError("the processes that start the workers have ended")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the forkers; the processes that they have forked continue."""
        for line in tuple(self._lines):
            self._drop(line)

    def _drop(self, line: _Line) -> None:
        self._lines.remove(line)
        line.orders.close()
        until = time.monotonic() + _END_SECONDS
        with contextlib.suppress(ChildProcessError):  # forked by the other forker
            while not os.waitpid(line.pid, os.WNOHANG)[0]:
                if time.monotonic() > until:
                    _kill(line.pid)
                time.sleep(_CHECK_SECONDS)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _run(work: ForkedWork, orders: Connection) -> NoReturn:
    """Run the forker until the parent ends."""
    try:
        atexit._clear()  # the exit handlers of the parent
        ignored = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        gc.freeze()  # otherwise garbage collection in forked processes would copy all of it
        _follow_orders(work, orders)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _follow_orders(work: ForkedWork, orders: Connection) -> None:
    running: dict[Connection, _Running] = {}  # by the pipe that closes when a process ends
    while True:
        ready = wait([orders, *running])
        for ended in [pipe for pipe in running if pipe in ready]:
            _report_exit(ended, running.pop(ended))
        if orders not in ready:
            continue
        try:
            order, count = orders.recv()
            report, *descriptors = (recv_handle(orders) for _ in range(1 + count))
        except (EOFError, OSError):  # the parent has ended
            return
        ended, alive = Pipe(duplex=False)
        pid = _fork(ignores_stop=order is None)
        if pid == 0:
            for inherited in (
                orders,
                ended,
                *running,
                *(process.report for process in running.values()),
            ):
                inherited.close()
            os.close(report)  # and keeps `alive` open until the end
            if order is None:
                _run(work, Connection(descriptors[0]))
            _be_forked(work, order, descriptors)
        alive.close()
        for descriptor in descriptors:
            os.close(descriptor)
        running[ended] = _Running(pid, Connection(report, readable=False))
        with contextlib.suppress(OSError):  # the parent has ended
            running[ended].report.send(pid)


def _fork(*, ignores_stop: bool) -> int:
    """Fork; no signal is lost between the forker, which ignores it, and the new process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = os.fork()
    if pid == 0 and not ignores_stop:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    return pid


def _report_exit(ended: Connection, process: _Running) -> None:
    ended.close()
    _, status = os.waitpid(process.pid, 0)
    with process.report as report, contextlib.suppress(OSError):  # the parent has closed its side
        report.send(os.waitstatus_to_exitcode(status))


def _be_forked(work: ForkedWork, order: bytes, descriptors: Sequence[int]) -> NoReturn:
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
