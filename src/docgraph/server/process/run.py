"""`serve`: start a server from its settings, in this process or in several.

Only the line with the addresses is written to stdout.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from itertools import count

from docgraph import __version__
from docgraph.observe import emit
from docgraph.observe.events import ServerStarted, ServerStopped, ServerStopping
from docgraph.server.http.exchanges import Application
from docgraph.server.process.reload import Reload
from docgraph.server.process.serving import HttpServer, Stop, serve_process
from docgraph.server.process.sockets import ListeningSocket, open_listeners
from docgraph.server.process.tls import build_context
from docgraph.server.process.workers import ProcessHooks, Supervisor, WorkerForker, new_loop
from docgraph.server.settings import ServerSettings

MakeApplication = Callable[[int], Application]
OnReady = Callable[[Sequence[str], str], None]


def announce(urls: Sequence[str], missing: str = "") -> None:
    """Print the line that programs wait for; `missing` follows the addresses."""
    print("docgraph ready", *urls, *([f"({missing})"] if missing else ()), flush=True)


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

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hangup)
    await serve_process(application, server, listeners, stop, on_ready)
