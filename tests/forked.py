"""`pytest -n 4`: collect the tests once, then run them in four forks of this process.

Importing and collecting all tests takes as long as running thousands of them, so one process does
it for all. The forks take the tests from one queue, a module at a time: fixtures of a module are
made once. The modules that take longest come first (`first` in budgets.yml), so that at the end no
fork waits for another.

A fork that dies fails the test that it was running; new forks run the tests that it still had.
"""

from __future__ import annotations

import faulthandler
import itertools
import mmap
import os
import struct
import sys
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.runner import runtestprotocol

from tests import hanging, times
from tests.compiled import compile_tests

_LONG = 0.1  # seconds; a phase that takes longer may be among the slowest
_SHARE = 4  # at least so many parts for each fork
_NUMBER = struct.Struct("i")
_NONE = -1  # no test is running
_BUDGETS = Path(__file__).parent / "budgets.yml"

Report = pytest.TestReport


def add_option(parser: pytest.Parser) -> None:
    """The option `-n`, as in pytest-xdist."""
    group = parser.getgroup("forks")
    group._addoption("-n", dest="forks", type=int, default=0, help="run the tests in so many forks")


def install(config: pytest.Config) -> None:
    """Run the tests in forks if the options say so."""
    if (count := config.getoption("forks")) and not config.option.collectonly:
        config.pluginmanager.register(_Forks(count))


def sort_modules(items: list[pytest.Item]) -> None:
    """The modules that take longest come first; the others stay in their order."""
    first = yaml.safe_load(_BUDGETS.read_text())["first"]
    ranks = {name: rank for rank, name in enumerate(first)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


class _Shared:
    """Numbers that this process and its forks see: whether to stop, and the test of each fork."""

    def __init__(self, forks: int) -> None:
        self._memory = mmap.mmap(-1, _NUMBER.size * (1 + forks))

    def __getitem__(self, place: int) -> int:
        number: int = _NUMBER.unpack_from(self._memory, place * _NUMBER.size)[0]
        return number

    def __setitem__(self, place: int, number: int) -> None:
        _NUMBER.pack_into(self._memory, place * _NUMBER.size, number)


_STOP = 0  # its place among the shared numbers; that of fork n is n


class _Forks:
    """Runs the tests of a session in forks, and reports in their place."""

    def __init__(self, count: int) -> None:
        self._count = count

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Compile in all cores what one process is about to import."""
        compile_tests()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None  # collection failed: pytest reports it
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        left = session.items
        while left:
            reported = _Round(session, left, self._count).run()
            left = [item for item in left if item.nodeid not in reported]
        return True


class _Round:
    """Forks that run these tests, until all have a report or a fork has died."""

    def __init__(self, session: pytest.Session, items: Sequence[pytest.Item], count: int) -> None:
        self._session, self._items = session, items
        self._shared = _Shared(count)
        self._parts = list(split(items, count))
        self._queue = _fill_queue(len(self._parts))
        self._reported: set[str] = set()
        faulthandler.cancel_dump_traceback_later()  # a fork would wait for its thread
        self._forks: dict[Connection, tuple[int, int]] = {}
        for number in range(1, count + 1):
            self._start(number)

    def run(self) -> set[str]:
        """Report everything; the names of the tests that have a report."""
        try:
            while self._forks:
                for reader in wait(list(self._forks)):
                    assert isinstance(reader, Connection)
                    self._read(reader)
        finally:
            self._shared[_STOP] = 1
            os.close(self._queue)
            for reader in list(self._forks):
                self._await_end(reader)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)
        return self._reported

    def _start(self, number: int) -> None:
        """Fork, and keep what the fork reports to with its number and process id."""
        reader, writer = Pipe(duplex=False)
        self._shared[number] = _NONE
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if pid := os.fork():
            writer.close()
            self._forks[reader] = number, pid
            return
        for one in (reader, *self._forks):
            one.close()  # only the first process reads: forks notice when it is gone
        code = 1
        try:
            _become_fork(self._session.config, number)
            self._session.config.pluginmanager.register(_Sender(writer, self._shared))
            self._run_items(number)
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            writer.close()
            os._exit(code)

    def _run_items(self, number: int) -> None:
        """Run tests until none is left; a test tears down what the one after it does not need."""
        try:
            for place, following in _look_ahead(self._take()):
                self._shared[number] = place
                item = self._items[place]
                after = None if following is None else self._items[following]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        finally:
            self._session._setupstate.teardown_exact(None)
        self._shared[number] = _NONE
        times.find(self._session.config).pytest_sessionfinish()

    def _take(self) -> Iterator[int]:
        while taken := os.read(self._queue, _NUMBER.size):
            for place in self._parts[_NUMBER.unpack(taken)[0]]:
                if self._shared[_STOP]:
                    return
                yield place

    def _read(self, reader: Connection) -> None:
        try:
            data = reader.recv()
        except EOFError:
            self._end(reader)
            return
        hook = self._session.config.hook
        report = hook.pytest_report_from_serializable(config=self._session.config, data=data)
        self._report(report)

    def _report(self, report: Report) -> None:
        self._reported.add(report.nodeid)
        self._session.config.hook.pytest_runtest_logreport(report=report)
        self._shared[_STOP] = bool(self._session.shouldfail or self._session.shouldstop)

    def _end(self, reader: Connection) -> None:
        """A fork has ended; the test that it was running has failed."""
        number = self._await_end(reader)
        place = self._shared[number]
        if place != _NONE:
            item = self._items[place]
            words = f"the process that ran {item.nodeid} ended"
            self._report(Report(item.nodeid, item.location, {}, "failed", words, "call"))

    def _await_end(self, reader: Connection) -> int:
        number, pid = self._forks.pop(reader)
        reader.close()
        os.waitpid(pid, 0)
        return number


def split(items: Sequence[pytest.Item], forks: int) -> Iterator[list[int]]:
    """The places of the tests of each module; of few tests, smaller parts for all forks."""
    largest = max(1, len(items) // (forks * _SHARE))
    for _, group in itertools.groupby(range(len(items)), lambda place: items[place].path):
        places = list(group)
        for first in range(0, len(places), largest):
            yield places[first : first + largest]


def _fill_queue(count: int) -> int:
    """A pipe that holds the numbers of all parts: who reads one has it alone."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # a pipe holds 16 000 numbers; there is one for each module
    os.write(writing, b"".join(map(_NUMBER.pack, range(count))))
    os.close(writing)
    return reading


def _look_ahead(places: Iterator[int]) -> Iterator[tuple[int, int | None]]:
    """Each of them with the one after it."""
    current = next(places, None)
    while current is not None:
        following = next(places, None)
        yield current, following
        current = following


# Libraries remember `sys.stderr` of their import as a default: it must not be closed.
_CAPTURES: list[Any] = []


def _become_fork(config: pytest.Config, number: int) -> None:
    """Share neither captured output nor temporary files with the other forks."""
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    capture.suspend_global_capture(in_=True)
    _CAPTURES.append(capture._global_capturing)
    capture._global_capturing = None
    capture.start_global_capturing()
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"fork{number}"
    factory._basetemp.mkdir(exist_ok=True)
    hanging.bound_run(config)
    times.find(config).begin_fork(number)


class _Sender:
    """Of a test that passes, a fork sends only that it passed; the rest says nothing.

    Each report is packed, sent, unpacked and printed: for a short test that is much of its cost.
    """

    def __init__(self, writer: Connection, shared: _Shared) -> None:
        self._writer, self._shared = writer, shared

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        hook = item.config.hook
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed or report.duration > _LONG:
                data = hook.pytest_report_to_serializable(config=item.config, report=report)
                try:
                    self._writer.send(data)
                except BrokenPipeError:  # the run was given up or killed: only fixtures still end
                    self._shared[_STOP] = 1
        return True
