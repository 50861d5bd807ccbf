"""Host process: log and metrics, shared state of the workers, and the embedded database.

The parent process owns the embedded MongoDB and the directory of the instance; they end with it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from docgraph import __version__
from docgraph.config import ConfigTree
from docgraph.embedded.keeper import Keeper
from docgraph.embedded.mongo import EmbeddedMongo
from docgraph.observe import Event, emit, leaving_out, otel, prometheus, subscribe, unsubscribe
from docgraph.observe.event import (
    CertificateLoaded,
    FewDescriptors,
    ReloadFailed,
    WorkerLost,
)
from docgraph.observe.events import (
    DatabaseFound,
    DatabaseLost,
    DatabaseRefused,
    ProbesStarted,
    RightsGranted,
    RightsMissing,
    ServerStopping,
)
from docgraph.observe.log import EventLogger, open_log
from docgraph.observe.sections import Logging, Otel
from docgraph.observe.writer import remember_log_files
from docgraph.runtime import Instance, create_instance
from docgraph.runtime.native import name_lane
from docgraph.runtime.sections import Core
from docgraph.server.app import Docgraph
from docgraph.server.prepare import (
    LoadedConfiguration,
    list_changed,
    prepare,
    require_allower,
)
from docgraph.server.process.health_state import DatabaseCheck, HealthState
from docgraph.server.process.notify import ServiceManager
from docgraph.server.process.probes import ProbeServer
from docgraph.server.process.reload import Reload, reopen_logs
from docgraph.server.process.run import announce, serve
from docgraph.server.process.shutdown import Shutdown
from docgraph.server.process.sockets import open_probe_listener
from docgraph.server.process.workers import ProcessHooks, WorkerForker
from docgraph.server.services.sections import DatabaseProbe
from docgraph.server.settings import ServerSettings
from docgraph.store.driver.client import BlockingPing
from docgraph.store.sections import MClient

Say = Callable[[str], None]

# All workers use the same database, database user and files: one of them reports about these.
_ONCE = (
    *(DatabaseFound, DatabaseLost, DatabaseRefused, RightsMissing, RightsGranted),
    *(CertificateLoaded, ReloadFailed, FewDescriptors),
)


def host(
    tree: ConfigTree,
    *,
    say: Say = lambda text: None,
    on_address: Callable[[str], None] = lambda address: None,
    on_ready: Callable[[Sequence[str], str], None] = announce,
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
    with forking as forker, create_instance() as instance:
        if forker is not None:
            prometheus.prepare_multiprocess(instance.metrics_directory)
        with (
            observing(prepared),
            ending.watching(),
            sending_metrics(prepared, instance),
            manager.hearing_of_stop(),
            marking_stop(instance),
            sharing_disk_state(instance) as on_disk_full,
            marking_ready(instance, telling(manager, on_ready)) as say_ready,
            open_database(prepared, say, ending, on_disk_full) as address,
        ):
            with leaving_out(_ONCE):  # checks here are not yet those of the server
                on_address(address)
            with answering_probes(prepared, forker, address) as health, stopping_in_peace():
                make_application = partial(build, tree, instance, address)
                hooks = ProcessHooks(manager.watchdog, health, reload)
                return serve(settings, make_application, say_ready, forker, hooks)


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
    mongo = EmbeddedMongo(prepared.config.get(Core).data_directory, on_progress=say)
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
    options, probe = prepared.config.get(Core).probe_listener, prepared.config.get(DatabaseProbe)
    if forker is None or not options.is_on:
        yield None
        return
    timeout = probe.timeout_ms / 1000
    check = DatabaseCheck(BlockingPing(address, timeout, probe.dbname), timeout)
    health = HealthState(forker.pulses, check.read)
    render = prometheus.render if options.metrics else None
    listener = open_probe_listener(options)
    server = ProbeServer(listener.socket, health, render, prometheus.CONTENT_TYPE)
    check.start()
    server.start()
    emit(ProbesStarted(listener.url))
    try:
        yield health
    finally:
        server.close()
        check.close()


@contextmanager
def sharing_disk_state(instance: Instance) -> Iterator[Callable[[bool], None]]:
    """Let all workers know whether the disk of the embedded database is full."""
    generations = instance.open_generations()

    def move(is_full: bool) -> None:
        generations.bump("disk")  # from even to odd, or back

    try:
        yield move
    finally:
        generations.close()


@contextmanager
def marking_ready(
    instance: Instance, on_ready: Callable[..., None]
) -> Iterator[Callable[..., None]]:
    """Let all workers know when the instance was announced as ready."""
    generations = instance.open_generations()

    def say_and_mark(*told: Any) -> None:
        on_ready(*told)
        generations.bump("ready")

    try:
        yield say_and_mark
    finally:
        generations.close()


@contextmanager
def marking_stop(instance: Instance) -> Iterator[None]:
    """Let all workers know when the instance was asked to stop."""
    generations = instance.open_generations()

    def mark(event: Event) -> None:
        generations.bump("stopping")

    subscribe(mark, wants=lambda kind: kind is ServerStopping)
    try:
        yield
    finally:
        unsubscribe(mark)
        generations.close()


def telling(
    manager: ServiceManager, on_ready: Callable[[Sequence[str], str], None]
) -> Callable[[Sequence[str], str], None]:
    """Notify the service manager, too, when the instance is ready."""

    def report_ready(urls: Sequence[str], missing: str = "") -> None:
        on_ready(urls, missing)
        manager.notify_ready(" ".join(["ready at", *urls, *([f"({missing})"] if missing else ())]))

    return report_ready


@contextmanager
def stopping_in_peace() -> Iterator[None]:
    """Ignore further signals after serving, so that the database can shut down cleanly."""
    try:
        yield
    finally:
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN)


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
    """Drop the gauges of a worker that has ended."""
    if isinstance(event, WorkerLost):
        prometheus.forget_process(event.pid)


def _observe(prepared: LoadedConfiguration, besides: Collection[type[Event]] = ()) -> EventLogger:
    prometheus.open_metrics(__version__, name_lane())
    return open_log(prepared.config.get(Logging), besides=besides)
