"""Worker processes behind the same sockets, and the parent that supervises them.

The parent opens the sockets and passes them to each worker, which `forker.py` forks. A pipe
connects them: the worker reports on it that it is ready, or its error; the worker stops when the
pipe closes, because the parent has ended. A worker that exits is replaced, after a pause that
doubles while workers exit early; one that cannot start the first time ends the whole start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any, NamedTuple

from docgraph.exchange import StartupError
from docgraph.observe import emit
from docgraph.observe.engine_events import ForkerLost, SignalIgnored, WorkerLost, WorkerStarted
from docgraph.observe.events import ServerStopping
from docgraph.runtime.backoff import GrowingPauses
from docgraph.runtime.shared_memory import share_numbers
from docgraph.server.http.connection_limits import Cells, forget_worker, make_cells
from docgraph.server.http.exchanges import Application
from docgraph.server.process.forker import ForkedProcess, Forker
from docgraph.server.process.lifecycle import WORKER_MARGIN, Reload, Watchdog
from docgraph.server.process.probes import HealthState
from docgraph.server.process.serving import HttpServer, Stop, serve_process
from docgraph.server.process.sockets import ListeningSocket
from docgraph.server.process.tls import SharedPair
from docgraph.server.settings import ServerSettings

_find_pauses = partial(GrowingPauses, 0.1, 30.0, least=1)
_STABLE_AFTER = 60.0  # seconds; after so long, an exit was not caused by the start
_ORPHAN_CUTS, _ORPHAN_LEAVES = 0.5, 1.8  # seconds after the end of the parent
_ORPHAN_CHECK = 0.1  # seconds between two checks of a process whose forker has ended
_REPORT_SECONDS = 5.0  # from the end of a worker to the report of its forker
_STOP_MARGIN = WORKER_MARGIN + 0.3  # seconds beyond the grace until a worker is killed


def new_loop() -> asyncio.AbstractEventLoop:
    """Create the event loop of every serving process."""
    import uvloop

    return uvloop.new_event_loop()


class WorkerFailure(StartupError):
    """A worker could not start: its error and exit code."""

    def __init__(self, message: str, hint: str | None, exit_code: int) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code  # type: ignore[misc]


@dataclass(slots=True)
class _Worker:
    """A worker by number, and its current process."""

    number: int
    process: ForkedProcess | None = None
    channel: Connection | None = None
    is_ready: bool = False
    missing: str = ""
    started: float = 0.0
    closed: float = 0.0  # when its channel closed
    due: float = 0.0  # when the next process is to be started
    pauses: GrowingPauses = field(default_factory=_find_pauses)

    @property
    def is_cut_off(self) -> bool:
        """Whether the supervisor must check for the end of the process: its forker has ended."""
        return self.process is not None and self.process.is_orphan and self.channel is None


class WorkerForker(Forker):
    """Forks workers that count their connections together, and show that their loops run."""

    def __init__(self, workers: int) -> None:
        self.connections = make_cells(workers)
        self.pulses = share_numbers("L", workers)
        super().__init__(partial(_work, self.connections, self.pulses, SharedPair()))


class ProcessHooks(NamedTuple):
    """Hooks of a process besides serving: watchdog, health checks, reload.

    The `watchdog` is notified while serving continues, `health` gets the workers that are ready,
    and `reload` is what SIGHUP does.
    """

    watchdog: Watchdog | None = None
    health: HealthState | None = None
    reload: Reload | None = None


class Supervisor:
    """The parent of the workers."""

    def __init__(
        self,
        settings: ServerSettings,
        make_application: Callable[[int], Application],
        listeners: Sequence[ListeningSocket],
        forker: WorkerForker,
        hooks: ProcessHooks,
    ) -> None:
        self._settings = settings
        self._make_application = make_application
        self._listeners = listeners
        self._forker = forker
        self._watchdog, self._health = hooks.watchdog, hooks.health
        self._reload = hooks.reload or Reload()
        self._must_reload = False
        self._others: set[int] = set()  # signals that do not stop it
        self._workers = [_Worker(number + 1) for number in range(settings.core.workers)]
        self._signals: list[signal.Signals] = []
        self._is_serving = False

    def run(self, on_ready: Callable[[str], None]) -> None:
        """Run until a signal has stopped all workers; raises the error of a first start."""
        with self._record_signals() as wakeup_r:
            try:
                for worker in self._workers:
                    self._spawn(worker)
                while not self._signals:
                    self._watch(wakeup_r)
                    self._forward_reload()
                    if self._health is not None:
                        self._health.ready = self._find_ready()
                    if not self._is_serving and all(worker.is_ready for worker in self._workers):
                        self._is_serving = True
                        on_ready(
                            next((worker.missing for worker in self._workers if worker.missing), "")
                        )
                    # Workers that are being replaced do not count for the watchdog.
                    if self._watchdog is not None and self._is_serving:
                        pulses = self._forker.pulses
                        self._watchdog.check(
                            {number: pulses[number - 1] for number in self._find_ready()}
                        )
                emit(ServerStopping(self._signals[0].name))
            finally:
                if self._health is not None:
                    self._health.is_stopping = True
                self._stop(wakeup_r)

    @contextlib.contextmanager
    def _record_signals(self) -> Iterator[socket.socket]:
        """Record signals, and make the yielded socket readable, so that `wait` returns."""
        wakeup_r, wakeup_w = socket.socketpair()
        wakeup_r.setblocking(False)
        wakeup_w.setblocking(False)
        signals = (signal.SIGTERM, signal.SIGINT)
        before = {
            signum: signal.signal(
                signum, lambda number, _: self._signals.append(signal.Signals(number))
            )
            for signum in signals
        }
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._on_hangup)
        for signum in (signal.SIGUSR1, signal.SIGUSR2):
            before[signum] = signal.signal(signum, lambda number, _: self._others.add(number))
        previous = signal.set_wakeup_fd(wakeup_w.fileno(), warn_on_full_buffer=False)
        try:
            yield wakeup_r
        finally:
            signal.set_wakeup_fd(previous)
            for number, handler in before.items():
                signal.signal(number, handler)
            wakeup_r.close()
            wakeup_w.close()

    def _on_hangup(self, number: int, frame: FrameType | None) -> None:
        if not self._reload.must_stop():
            self._must_reload = True
        elif not self._signals:  # it comes twice, and the second would not be graceful
            self._signals.append(signal.SIGHUP)

    def _forward_reload(self) -> None:
        """Let all workers reload, too; one that is starting reads everything anyway."""
        if self._must_reload:
            self._must_reload = False
            self._reload.start()
            self._signal_all(signal.SIGHUP)
        if signal.SIGUSR1 in self._others:
            self._others.discard(signal.SIGUSR1)
            self._reload.start(logs_only=True)
            self._signal_all(signal.SIGUSR1)
        if signal.SIGUSR2 in self._others:
            self._others.discard(signal.SIGUSR2)
            emit(SignalIgnored(signal.SIGUSR2.name))

    def _spawn(self, worker: _Worker) -> None:
        ours, theirs = Pipe()
        schemes = [listener.scheme for listener in self._listeners]
        descriptors = [listener.socket.fileno() for listener in self._listeners]
        with theirs:
            worker.process = self._forker.fork(
                (worker.number, self._settings, self._make_application, schemes),
                (theirs.fileno(), *descriptors),
            )
        worker.channel, worker.is_ready = ours, False
        worker.started = time.monotonic()

    def _watch(self, wakeup_r: socket.socket) -> None:
        """Wait for the next signal, message, exit or restart that is due, and handle it."""
        happened = wait(self._find_watched(wakeup_r), timeout=self._find_pause())
        with contextlib.suppress(BlockingIOError):
            wakeup_r.recv(64)
        for pid in self._forker.restore():
            emit(ForkerLost(pid))
        for worker in self._workers:
            if worker.channel in happened:
                self._read_message(worker)
            process = worker.process
            may_be_over = process and (process.sentinel in happened or worker.is_cut_off)
            if process is not None and may_be_over and process.is_over():
                self._on_exit(worker, process)
            self._check_forker(worker)
            if worker.process is None and time.monotonic() >= worker.due and not self._signals:
                self._spawn(worker)

    def _check_forker(self, worker: _Worker) -> None:
        """Kill the forker of a worker that has ended, if it does not report that: it hangs."""
        process = worker.process
        if process is None or process.is_orphan or worker.channel is not None:
            return
        if time.monotonic() - worker.closed > _REPORT_SECONDS:
            self._forker.kill(process.forker)

    def _find_watched(self, wakeup_r: socket.socket) -> list[Any]:
        watched: list[Any] = [wakeup_r, *self._forker.connections_to_forkers]
        for worker in self._workers:
            if worker.process is not None and not worker.process.is_orphan:
                watched.append(worker.process.sentinel)
            if worker.channel is not None:
                watched.append(worker.channel)
        return watched

    def _find_pause(self) -> float | None:
        """Return the seconds until something is due; None if nothing is."""
        now = time.monotonic()
        dues = [worker.due - now for worker in self._workers if worker.process is None]
        dues += [
            _ORPHAN_CHECK for worker in self._workers if worker.process and worker.channel is None
        ]
        if self._is_serving and self._watchdog and self._watchdog.seconds_left is not None:
            dues.append(self._watchdog.seconds_left)
        return max(0.0, min(dues)) if dues else None

    def _find_ready(self) -> list[int]:
        return [worker.number for worker in self._workers if worker.process and worker.is_ready]

    def _read_message(self, worker: _Worker) -> None:
        assert worker.channel is not None  # noqa: S101 - only open channels are watched
        assert worker.process is not None  # noqa: S101 - a channel ends with its process
        try:
            message = worker.channel.recv()
        except (EOFError, OSError):
            worker.channel.close()
            worker.channel, worker.closed = None, time.monotonic()
            return
        if isinstance(message, str):  # it is ready; the text is what its requests will lack
            worker.is_ready, worker.missing = True, message
            emit(WorkerStarted(worker.number, worker.process.pid))
        elif not self._is_serving:
            raise WorkerFailure(*message)

    def _on_exit(self, worker: _Worker, process: ForkedProcess) -> None:
        """Report a worker that exited by itself, and schedule its replacement."""
        if worker.channel is not None and worker.channel.poll():
            self._read_message(worker)  # its error, which may have arrived together with its exit
        code = process.exit_code
        self._release(worker, process)
        if not self._is_serving and not self._signals:
            raise StartupError(f"worker {worker.number} ended with code {code} before it was ready")
        killed = signal.Signals(-code).name if code is not None and code < 0 else None
        emit(WorkerLost(worker.number, process.pid, code, killed))
        if time.monotonic() - worker.started > _STABLE_AFTER:
            worker.pauses.reset()
        worker.due = time.monotonic() + next(worker.pauses)

    def _release(self, worker: _Worker, process: ForkedProcess) -> None:
        process.close()
        worker.process = None
        forget_worker(self._forker.connections, worker.number - 1)
        if worker.channel is not None:
            worker.channel.close()
            worker.channel = None

    def _stop(self, wakeup_r: socket.socket) -> None:
        """Ask all workers to finish; a second signal, or a timeout, kills them."""
        for listener in self._listeners:
            listener.socket.close()
        self._signal_all(signal.SIGTERM)
        bound = self._settings.limits.longest_stop + _STOP_MARGIN
        deadline = time.monotonic() + bound
        while running := self._running():
            if len(self._signals) > 1 or time.monotonic() > deadline:
                self._signal_all(signal.SIGKILL)
                if time.monotonic() > deadline:
                    self._forker.kill()  # one that hangs reports no end
            sentinels = [process.sentinel for _, process in running if not process.is_orphan]
            wait([*sentinels, wakeup_r], timeout=0.1)
            with contextlib.suppress(BlockingIOError):
                wakeup_r.recv(64)
            for worker, process in running:
                if process.is_over():
                    self._release(worker, process)

    def _running(self) -> list[tuple[_Worker, ForkedProcess]]:
        return [(worker, worker.process) for worker in self._workers if worker.process is not None]

    def _signal_all(self, number: signal.Signals) -> None:
        for _, process in self._running():
            process.send_signal(number)


def _work(
    cells: Cells,
    pulses: memoryview,
    shared_pair: SharedPair,
    order: tuple[Any, ...],
    descriptors: Sequence[int],
) -> None:
    # Ctrl-C reaches all processes; the parent decides. The forker ignores it, and so do workers.
    number, settings, make_application, schemes = order
    channel = Connection(descriptors[0])

    def move_pulse() -> None:
        pulses[number - 1] += 1

    def make_server(application: Application) -> HttpServer:
        return HttpServer(application, settings, cells, number - 1, move_pulse, shared_pair)

    listeners = [
        ListeningSocket(socket.socket(fileno=descriptor), scheme)
        for descriptor, scheme in zip(descriptors[1:], schemes, strict=True)
    ]
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(partial(make_application, number), make_server, listeners, channel))
    except StartupError as error:
        with contextlib.suppress(OSError):  # the parent has ended
            channel.send((error.message, error.hint, error.exit_code))
        raise SystemExit(error.exit_code) from None


async def _serve(
    make_application: Callable[[], Application],
    make_server: Callable[[Application], HttpServer],
    listeners: Sequence[ListeningSocket],
    channel: Connection,
) -> None:
    stop = Stop()
    stop.on_signals(signal.SIGTERM)
    loop = asyncio.get_running_loop()

    def parent_is_gone() -> None:
        """Stop without a grace period: the parent no longer supervises this worker."""
        loop.remove_reader(channel.fileno())
        leaving = threading.Timer(_ORPHAN_LEAVES, os._exit, (1,))
        leaving.daemon = True
        leaving.start()
        stop.request("the parent process has ended")
        loop.call_later(_ORPHAN_CUTS, stop.request, "the parent process has ended")

    def reload(logs_only: bool) -> None:
        server.reload(logs_only=logs_only)

    loop.add_reader(channel.fileno(), parent_is_gone)
    # Before log files are opened: no later rotation is missed. It runs when `server` exists.
    loop.add_signal_handler(signal.SIGHUP, reload, False)
    loop.add_signal_handler(signal.SIGUSR1, reload, True)
    application = make_application()
    server = make_server(application)
    await serve_process(application, server, listeners, stop, channel.send)
