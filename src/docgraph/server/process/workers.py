"""Several worker processes behind the same sockets, and the parent that looks after them.

The parent makes the sockets and hands them to each worker. A pipe joins them: the worker says on
it that it listens, or why it cannot; its end tells a worker that the parent is gone. A worker that
dies is replaced, later each time it dies young; one that cannot even start for the first time ends
the whole start.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import socket
import time
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import RawArray
from typing import Any

from docgraph.exchange import StartupError
from docgraph.observe import emit
from docgraph.observe.events import ServerStopping, WorkerLost, WorkerStarted
from docgraph.server.http.asgi import Application
from docgraph.server.process.serving import HttpServer, Stop, serve_process
from docgraph.server.process.sockets import Listener
from docgraph.server.settings import ServerSettings

__all__ = ["Supervisor", "new_loop"]

_context = multiprocessing.get_context("spawn")

_READY = "ready"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_GROWN_UP = 60.0  # a worker that lived so long did not die of its start
_PATIENCE = 10.0  # seconds beyond the bound of a gentle stop; writes are finished in them


def new_loop() -> asyncio.AbstractEventLoop:
    """The event loop of every serving process."""
    import uvloop

    return uvloop.new_event_loop()


class WorkerFailure(StartupError):
    """A worker could not start; its own error with its own exit code."""

    def __init__(self, message: str, hint: str | None, exit_code: int) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code  # type: ignore[misc]


@dataclass(slots=True)
class _Worker:
    """One place among the workers, and the process that fills it now."""

    number: int
    process: Any = None
    channel: Connection | None = None
    is_ready: bool = False
    started: float = 0.0
    due: float = 0.0  # when the next process is to be started
    pause: float = field(default=_FIRST_PAUSE)


class Supervisor:
    """The parent of the workers."""

    def __init__(
        self,
        settings: ServerSettings,
        make_application: Callable[[int], Application],
        listeners: Sequence[Listener],
    ) -> None:
        self._settings = settings
        self._make_application = make_application
        self._listeners = listeners
        self._counts = RawArray("i", settings.core.workers)
        self._workers = [_Worker(number + 1) for number in range(settings.core.workers)]
        self._signals: list[signal.Signals] = []
        self._is_serving = False

    def run(self, on_ready: Callable[[], None]) -> None:
        """Until a signal has stopped all workers. Raises what a worker could not start with."""
        with self._hear_signals() as bell:
            try:
                for worker in self._workers:
                    self._spawn(worker)
                while not self._signals:
                    self._watch(bell)
                    if not self._is_serving and all(one.is_ready for one in self._workers):
                        self._is_serving = True
                        on_ready()
                emit(ServerStopping(self._signals[0].name))
            finally:
                self._stop(bell)

    # --- signals ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _hear_signals(self) -> Iterator[socket.socket]:
        """Signals are noted, and ring a bell that `wait` listens to."""
        bell, clapper = socket.socketpair()
        bell.setblocking(False)
        clapper.setblocking(False)
        signals = (signal.SIGTERM, signal.SIGINT)
        before = {
            one: signal.signal(one, lambda number, _: self._signals.append(signal.Signals(number)))
            for one in signals
        }
        wakeup = signal.set_wakeup_fd(clapper.fileno(), warn_on_full_buffer=False)
        try:
            yield bell
        finally:
            signal.set_wakeup_fd(wakeup)
            for one, handler in before.items():
                signal.signal(one, handler)
            bell.close()
            clapper.close()

    # --- life and death ---------------------------------------------------------------------------

    def _spawn(self, worker: _Worker) -> None:
        ours, theirs = _context.Pipe()
        self._counts[worker.number - 1] = 0
        worker.process = _context.Process(
            target=_work,
            name=f"docgraph-worker-{worker.number}",
            args=(
                worker.number,
                self._settings,
                self._make_application,
                [(listener.socket, listener.scheme) for listener in self._listeners],
                self._counts,
                theirs,
            ),
        )
        worker.process.start()
        theirs.close()
        worker.channel, worker.is_ready = ours, False
        worker.started = time.monotonic()

    def _watch(self, bell: socket.socket) -> None:
        """Wait for the next thing to happen, and see to it."""
        now = time.monotonic()
        dues = [one.due - now for one in self._workers if one.process is None]
        watched: list[Any] = [bell]
        for one in self._workers:
            if one.process is not None:
                watched.append(one.process.sentinel)
            if one.channel is not None:
                watched.append(one.channel)
        happened = wait(watched, timeout=max(0.0, min(dues)) if dues else None)
        with contextlib.suppress(BlockingIOError):
            bell.recv(64)
        for one in self._workers:
            if one.channel in happened:
                self._hear(one)
            if one.process is not None and one.process.sentinel in happened:
                self._bury(one)
            if one.process is None and time.monotonic() >= one.due and not self._signals:
                self._spawn(one)

    def _hear(self, worker: _Worker) -> None:
        assert worker.channel is not None  # noqa: S101 - only channels that are there are watched
        try:
            message = worker.channel.recv()
        except (EOFError, OSError):
            worker.channel.close()
            worker.channel = None
            return
        if message == _READY:
            worker.is_ready = True
            emit(WorkerStarted(worker.number, worker.process.pid))
        elif not self._is_serving:
            raise WorkerFailure(*message)

    def _bury(self, worker: _Worker) -> None:
        """A worker ended without being asked to."""
        if worker.channel is not None and worker.channel.poll():
            self._hear(worker)  # its last words, which may have come with its end
        worker.process.join()  # its end is seen a moment before its exit code
        pid, code = worker.process.pid, worker.process.exitcode
        self._dismiss(worker)
        if not self._is_serving:
            raise StartupError(f"worker {worker.number} ended with code {code} before it was ready")
        killed = signal.Signals(-code).name if code is not None and code < 0 else None
        emit(WorkerLost(worker.number, pid, code, killed))
        if time.monotonic() - worker.started > _GROWN_UP:
            worker.pause = _FIRST_PAUSE
        worker.due = time.monotonic() + worker.pause
        worker.pause = min(worker.pause * 2, _LONGEST_PAUSE)

    def _dismiss(self, worker: _Worker) -> None:
        worker.process.join()
        worker.process.close()
        worker.process = None
        self._counts[worker.number - 1] = 0
        if worker.channel is not None:
            worker.channel.close()
            worker.channel = None

    def _stop(self, bell: socket.socket) -> None:
        """Ask all workers to finish; a second signal, or too long a time, ends them."""
        for listener in self._listeners:
            listener.socket.close()
        for one in self._workers:
            if one.process is not None:
                one.process.terminate()
        bound = self._settings.connection_options.shutdown_timeout_ms / 1000 + _PATIENCE
        deadline = time.monotonic() + bound
        while living := [one for one in self._workers if one.process is not None]:
            hurried = len(self._signals) > 1 or time.monotonic() > deadline
            if hurried:
                for one in living:
                    one.process.kill()
            wait([one.process.sentinel for one in living] + [bell], timeout=0.5)
            with contextlib.suppress(BlockingIOError):
                bell.recv(64)
            for one in living:
                if one.process.exitcode is not None:
                    self._dismiss(one)


def _work(
    number: int,
    settings: ServerSettings,
    make_application: Callable[[int], Application],
    sockets: Sequence[tuple[socket.socket, str]],
    counts: MutableSequence[int],
    channel: Connection,
) -> None:
    """A worker process, from its first line to its last."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us all; the parent decides
    listeners = [Listener(*pair) for pair in sockets]
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(number, settings, make_application, listeners, counts, channel))
    except StartupError as error:
        with contextlib.suppress(OSError):  # nobody is left to hear it
            channel.send((error.message, error.hint, error.exit_code))
        raise SystemExit(error.exit_code) from None


async def _serve(
    number: int,
    settings: ServerSettings,
    make_application: Callable[[int], Application],
    listeners: Sequence[Listener],
    counts: MutableSequence[int],
    channel: Connection,
) -> None:
    stop = Stop()
    stop.on_signals(signal.SIGTERM)
    loop = asyncio.get_running_loop()

    def parent_is_gone() -> None:
        loop.remove_reader(channel.fileno())
        stop.ask("the parent process is gone")

    loop.add_reader(channel.fileno(), parent_is_gone)
    application = make_application(number)
    server = HttpServer(application, settings, counts, number - 1)
    await serve_process(application, server, listeners, stop, lambda: channel.send(_READY))
