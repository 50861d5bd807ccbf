"""Starts docgraph commands from a process that has imported everything already.

A new interpreter needs most of a second of CPU to import the server, and tests start hundreds of
them. This one imports docgraph once, starts it a few times without a database, and forks for each
command; then it has no thread, no event loop and nothing of the test run. The fork goes on as
`python -m docgraph ...` would, or as `python -c ...`: its own working directory, environment,
standard streams, signal handlers and exit. Only what an interpreter does last is left out: giving
back every object would first copy all memory that forks share.

    test ── arguments, environment, streams, socket ──▶ this process ── fork ──▶ docgraph
    test ◀──────── process id, then exit status ─────── this process
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_LARGEST_ORDER = 1 << 20
_STREAMS = 3
_STARTS = 8  # after so many calls the interpreter has made a function faster; forks share that
_NOWHERE = "mongodb://127.0.0.1:9/"
_first_modules: set[str] = set()
# Not imported before the commands are known: a server says where its processes count together
# before it imports what counts, and few commands need the large library of traces.
_PACKAGES = ("docgraph", "docgraph_workbench", "docgraph_migrate")
_LEFT_OUT = (
    "docgraph.__main__",
    "docgraph.observe.meters",
    "docgraph.observe.otel.",
)
# Those libraries, by the command or the section that needs them.
_RARE = {
    "otel": (
        "opentelemetry.exporter.otlp.proto.http.metric_exporter",
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    ),
}
# Imported by prometheus_client, by the server and by the check of passwords when they begin.
_LATE = ("gzip", "wsgiref.simple_server", "uvloop", "zxcvbn")


def main() -> None:
    """Take orders on the socket whose number is the argument; return in the forked command."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    # Worker processes are new interpreters: whatever PYTHONDONTWRITEBYTECODE says, not each of
    # them shall compile all modules again, which takes as long as everything else they do.
    sys.dont_write_bytecode = False
    gc.disable()  # what is imported stays
    _import_everything()
    asyncio.run(_start_often())
    gc.enable()
    _first_modules.update(sys.modules)
    # At its end a command looks for garbage among all objects that it does not know for lasting.
    gc.collect()
    gc.freeze()
    orders.send(b"ready")
    sys.dont_write_bytecode = sys.flags.dont_write_bytecode == 1
    order = _serve(orders)
    if order is not None:
        _become(order)


def _import_everything() -> None:
    for name in _LATE:
        importlib.import_module(name)
    for package in _PACKAGES:
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            if not module.name.startswith(_LEFT_OUT):
                importlib.import_module(module.name)


def _import_rare(arguments: Sequence[str]) -> None:
    """What such a command imports, once, before the first of them is forked."""
    words = {word for one in arguments for word in one.split("/")}
    for word in _RARE.keys() & words:
        for name in _RARE.pop(word):
            importlib.import_module(name)
        gc.collect()
        gc.freeze()


async def _start_often() -> None:
    """Have ready what every command looks up once: options of all sections, needs of plugins."""
    from docgraph.cli.application import open_application
    from docgraph.config.sources import ConfigSources
    from docgraph.server.prepare import load_tree, prepare

    for _ in range(_STARTS):
        sources = ConfigSources(environ={}, directory=Path("/nonexistent"))
        async with open_application(prepare(load_tree(sources)), _NOWHERE):
            pass


def _serve(orders: socket.socket) -> dict[str, Any] | None:
    """Fork for each order until nobody orders any more: None; in a fork: its order."""
    answers: dict[int, tuple[int, socket.socket]] = {}  # by descriptor of the process
    with selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not orders:
                    selector.unregister(key.fileobj)
                    _report_exit(key.fd, *answers.pop(key.fd))
                    continue
                text, descriptors, _, _ = socket.recv_fds(orders, _LARGEST_ORDER, _STREAMS + 1)
                if not text:
                    return None
                streams, answer = descriptors[:_STREAMS], socket.socket(fileno=descriptors[-1])
                order = json.loads(text)
                if order["code"] is None:
                    _import_rare(order["arguments"])
                pid = os.fork()
                if pid == 0:
                    answer.close()
                    orders.close()
                    for fd, (_, other) in answers.items():
                        os.close(fd)
                        other.close()
                    return {**order, "streams": streams}
                for one in streams:
                    os.close(one)
                process = os.pidfd_open(pid)
                answers[process] = pid, answer
                selector.register(process, selectors.EVENT_READ)
                answer.sendall(f"{pid}\n".encode())


def _report_exit(process: int, pid: int, answer: socket.socket) -> None:
    _, status = os.waitpid(pid, 0)
    os.close(process)
    try:
        answer.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    except OSError:  # the test has lost interest in the process
        pass
    finally:
        answer.close()


def _become(order: dict[str, Any]) -> None:
    """Be the ordered command from here on, to its end."""
    if order["session"]:
        os.setsid()
    for number, stream in enumerate(order["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
        for number, mode in enumerate(("r", "w", "w"))
    )
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.default_int_handler if one is signal.SIGINT else signal.SIG_DFL)
    if order["files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (order["files"], order["files"]))
    try:
        _run(order["code"], order["arguments"])
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise  # the interpreter prints it
        _end(end.code or 0)
    _end(0)


def _run(code: str | None, arguments: Sequence[str]) -> None:
    if code is None:
        sys.argv = ["docgraph", *arguments]
        runpy.run_module("docgraph", run_name="__main__", alter_sys=True)
    else:
        for name in sys.modules.keys() - _first_modules:
            del sys.modules[name]  # what a rare command needed before
        sys.argv = ["-c", *arguments]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102


def _end(code: int) -> None:
    """End as an interpreter does: threads, functions registered for the end, streams."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except OSError:
        sys.exit(code)  # the interpreter says what it thinks of it
    os._exit(code)


if __name__ == "__main__":
    main()
