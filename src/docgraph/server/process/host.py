"""Host process: log and metrics, shared state of the workers, embedded database, serving.

The parent process owns the embedded MongoDB and the directory of the instance; they end with it.
It serves alone, or by workers. Only the line with the addresses is written to stdout.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count

from docgraph import __version__
from docgraph.config import ConfigTree
from docgraph.embedded import EmbeddedMongo, Keeper, MongodOptions
from docgraph.observe import Event, emit, leaving_out, otel, prometheus, subscribe, unsubscribe
from docgraph.observe.engine_events import (
    CertificateExpiring,
    CertificateLoaded,
    FewDescriptors,
    ReloadFailed,
    SignalIgnored,
    WorkerLost,
)
from docgraph.observe.events import (
    ConfigWarning,
    DatabaseFound,
    DatabaseLost,
    DatabaseRefused,
    ProbesStarted,
    RightsGranted,
    RightsMissing,
    ServerStarted,
    ServerStopped,
    ServerStopping,
)
from docgraph.observe.log import EventLogger, open_log
from docgraph.observe.sections import Logging, Otel
from docgraph.observe.writer import remember_log_files
from docgraph.runtime import Generations, Instance, create_instance
from docgraph.runtime.native import name_lane
from docgraph.runtime.sections import Core
from docgraph.server.app import Docgraph
from docgraph.server.host_gate import HostGate
from docgraph.server.http.exchanges import Application
from docgraph.server.prepare import LoadedConfiguration, list_changed, prepare, require_allower
from docgraph.server.process.lifecycle import (
    Reload,
    ServiceManager,
    Shutdown,
    hearing_of_stop,
    reopen_logs,
)
from docgraph.server.process.probes import DatabaseCheck, HealthState, ProbeServer
from docgraph.server.process.serving import HttpServer, Stop, serve_process
from docgraph.server.process.sockets import ListeningSocket, open_listeners, open_probe_listener
from docgraph.server.process.tls import build_context
from docgraph.server.process.workers import ProcessHooks, Supervisor, WorkerForker, new_loop
from docgraph.server.proxies import TrustedProxies
from docgraph.server.services.sections import DatabaseProbe
from docgraph.server.settings import ServerSettings
from docgraph.store.driver.client import BlockingPing, find_longest_wait
from docgraph.store.sections import MClient

Say = Callable[[str], None]
MakeApplication = Callable[[int], Application]
OnReady = Callable[[Sequence[str], str], None]

# All workers use the same database, database user and files: one of them reports about these.
_ONCE = (
    *(DatabaseFound, DatabaseLost, DatabaseRefused, RightsMissing, RightsGranted),
    *(CertificateLoaded, CertificateExpiring, ReloadFailed, FewDescriptors, ConfigWarning),
)


def announce(urls: Sequence[str], missing: str = "") -> None:
    """Print the ready line, which programs wait for; `missing` follows the addresses."""
    print("docgraph ready", *urls, *([f"({missing})"] if missing else ()), flush=True)


def host(
    tree: ConfigTree,
    *,
    say: Say = lambda text: None,
    on_address: Callable[[str], None] = lambda address: None,
    on_ready: OnReady = announce,
    load_again: Callable[[], ConfigTree] | None = None,
) -> int:
    """Serve a configuration until a signal; returns the exit code.

    `on_address` gets the connection string of the database before the first request is answered.
    `load_again` reads the sources of the configuration again, on SIGHUP.
    """
    remember_log_files()
    prepared = prepare(tree)
    require_allower(prepared)
    core = prepared.config.get(Core)
    is_supervised = core.workers > 1 or core.probe_listener.is_on
    # Before this process opens a log or a database, which start threads.
    forking = WorkerForker(core.workers) if is_supervised else nullcontext()
    settings = ServerSettings.from_sections(prepared.config.sections)
    manager = ServiceManager.from_environment(os.environ)
    ending = Shutdown(settings.limits.longest_stop)
    reload = Reload(lambda: list_changed(prepared, load_again()) if load_again else ())
    with (
        forking as forker,
        create_instance() as instance,
        closing(instance.open_generations()) as generations,
    ):
        if forker is not None:
            prometheus.prepare_multiprocess(instance.metrics_directory)
        marks = _InstanceMarks(generations, manager, on_ready)
        with (
            observing(prepared),
            ending.watching(),
            sending_metrics(prepared, instance),
            hearing_of_stop(marks.set_stopping),
            open_database(prepared, say, ending, marks.change_disk) as address,
        ):
            with leaving_out(_ONCE):  # checks here are not yet those of the server
                on_address(address)
            with answering_probes(prepared, forker, address) as health, ignoring_signals():
                make_application = partial(build, tree, instance, address)
                hooks = ProcessHooks(manager.watchdog, health, reload)
                return serve(settings, make_application, marks.set_ready, forker, hooks)


@dataclass(frozen=True, slots=True)
class _InstanceMarks:
    """State of the instance that is announced to workers and the service manager."""

    generations: Generations
    manager: ServiceManager
    on_ready: OnReady

    def set_ready(self, urls: Sequence[str], missing: str) -> None:
        self.on_ready(urls, missing)
        status = f"ready at {' '.join(urls)}"
        self.manager.notify_ready(f"{status} ({missing})" if missing else status)
        self.generations.bump("ready")

    def set_stopping(self, event: Event) -> None:
        self.manager.notify("STOPPING=1", "STATUS=stopping")
        self.generations.bump("stopping")

    def change_disk(self, is_full: bool) -> None:
        """Announce that the disk of the embedded database is full, or no longer full."""
        self.generations.bump("disk")  # from even to odd, or back


def build(tree: ConfigTree, instance: Instance, address: str, worker: int) -> Docgraph:
    """Build the application of one process. A worker process opens its own log and metrics."""
    prepared = prepare(tree)
    if worker:
        reopen_logs()  # renamed since the forker was started
        prometheus.join_multiprocess(instance.metrics_directory)
        _observe(prepared, besides=_ONCE if worker > 1 else ())
    return Docgraph(prepared, instance.for_worker(worker), address)


@contextmanager
def open_database(
    prepared: LoadedConfiguration,
    say: Say = lambda text: None,
    ending: Shutdown | None = None,
    on_disk_full: Callable[[bool], None] = lambda is_full: None,
) -> Iterator[str]:
    """Open the configured database, or the embedded one for the duration of the block."""
    configured = prepared.config.get(MClient).connection_string
    if configured is not None:
        yield configured
        return
    core = prepared.config.get(Core)
    options = MongodOptions(port=core.embedded_port)
    mongo = EmbeddedMongo(core.data_directory, options=options, on_progress=say)
    keeper = Keeper(mongo, on_disk_full)
    if ending is not None:
        ending.database = keeper
    with mongo as address:
        try:
            with keeper:
                yield address
        finally:
            if ending is not None and ending.left is not None:
                mongo.stop(ending.left)


@contextmanager
def answering_probes(
    prepared: LoadedConfiguration, forker: WorkerForker | None, address: str
) -> Iterator[HealthState | None]:
    """Answer health checks in this process, if configured."""
    core, probe = prepared.config.get(Core), prepared.config.get(DatabaseProbe)
    options = core.probe_listener
    if forker is None or not options.is_on:
        yield None
        return
    timeout, core = probe.timeout_ms / 1000, prepared.config.get(Core)
    longest = find_longest_wait(prepared.config.get(MClient), address, core.wait_timeout_ms)
    check = DatabaseCheck(BlockingPing(address, timeout, probe.dbname, longest), timeout)
    health = HealthState(forker.pulses, check.read)
    render = prometheus.render if options.metrics else None
    listener = open_probe_listener(options)
    gate = HostGate(core, TrustedProxies(core.trusted_proxies))
    check_host = partial(gate.check, listener=options.host)
    server = ProbeServer(listener.socket, health, render, prometheus.CONTENT_TYPE, check_host)
    check.start()
    server.start()
    emit(ProbesStarted(listener.url))
    try:
        yield health
    finally:
        server.close()
        check.close()


@contextmanager
def ignoring_signals() -> Iterator[None]:
    """Ignore further signals after serving, so that the database can shut down cleanly."""
    try:
        yield
    finally:
        for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"):
            signal.signal(signal.Signals[name], signal.SIG_IGN)


@contextmanager
def observing(prepared: LoadedConfiguration) -> Iterator[None]:
    """Log and count the events of this process."""
    log = _observe(prepared)
    subscribe(_forget_lost_worker, wants=lambda kind: kind is WorkerLost)
    try:
        yield
    finally:
        unsubscribe(_forget_lost_worker)
        prometheus.close_metrics()
        log.close()


@contextmanager
def sending_metrics(prepared: LoadedConfiguration, instance: Instance) -> Iterator[None]:
    """Export the metrics of all processes of the instance to a collector, if configured."""
    options = prepared.config.get(Otel)
    if not otel.is_wanted(options) or not options.metrics:
        yield
        return
    sender = otel.load("metrics").MetricsSender(options, instance.secret("otel"), __version__)
    try:
        yield
    finally:
        sender.close()


def _forget_lost_worker(event: Event) -> None:
    if isinstance(event, WorkerLost):
        prometheus.forget_process(event.pid)


def _observe(prepared: LoadedConfiguration, besides: Collection[type[Event]] = ()) -> EventLogger:
    prometheus.open_metrics(__version__, name_lane())
    return open_log(prepared.config.get(Logging), besides=besides)


def serve(
    settings: ServerSettings,
    make_application: MakeApplication,
    on_ready: OnReady = announce,
    forker: WorkerForker | None = None,
    hooks: ProcessHooks | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. Raises `StartupError`.

    `make_application` gets the number of the worker, from 1, or 0 when this process serves alone. A
    `forker` starts the workers, and it is called in each of them, so it must be picklable.
    `on_ready` gets the addresses once all workers are ready, and what is missing for the first
    request to succeed: nothing, unless there is a problem with the database.
    """
    hooks = hooks or ProcessHooks()
    if settings.https_listener.enabled:
        build_context(settings.https_listener)  # a mistake is found before anything is started
    listeners = open_listeners(settings)
    started = time.monotonic()
    urls = [listener.url for listener in listeners]

    def emit_started(missing: str) -> None:
        emit(ServerStarted(" ".join(urls), settings.core.workers, __version__))
        on_ready(urls, missing)

    try:
        if forker is not None:
            supervisor = Supervisor(settings, make_application, listeners, forker, hooks)
            supervisor.run(emit_started)
        else:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(_serve_alone(settings, make_application, listeners, emit_started, hooks))
    finally:
        for listener in listeners:
            listener.close()
    emit(ServerStopped(time.monotonic() - started))
    return 0


async def _serve_alone(
    settings: ServerSettings,
    make_application: MakeApplication,
    listeners: Sequence[ListeningSocket],
    on_ready: Callable[[str], None],
    hooks: ProcessHooks,
) -> None:
    watchdog, reload = hooks.watchdog, hooks.reload or Reload()
    stop = Stop(on_stop=lambda reason: emit(ServerStopping(reason)))
    stop.on_signals(signal.SIGTERM, signal.SIGINT)
    application = make_application(0)
    sweeps = count()

    def check() -> None:
        if watchdog is not None:
            watchdog.check({0: next(sweeps)})

    server = HttpServer(application, settings, on_sweep=check)

    def on_hangup() -> None:
        if not reload.must_stop():
            reload.start()
            server.reload()
        elif not stop.gentle.is_set():  # it comes twice, and the second would not be graceful
            stop.request(signal.SIGHUP.name)

    def on_rotation() -> None:
        reload.start(logs_only=True)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    loop.add_signal_handler(signal.SIGUSR1, on_rotation)
    loop.add_signal_handler(signal.SIGUSR2, emit, SignalIgnored("SIGUSR2"))
    await serve_process(application, server, listeners, stop, on_ready)
