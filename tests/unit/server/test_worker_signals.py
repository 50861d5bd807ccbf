"""Signals that reach a worker process while it starts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from docgraph.server.process import workers

RELOADS = {signal.SIGHUP: False, signal.SIGUSR1: True}  # whether it is about log files alone


@pytest.fixture
def ignored_hangup() -> Iterator[None]:
    """As in the process that forks the workers."""
    before = {one: signal.getsignal(one) for one in (*RELOADS, signal.SIGTERM)}
    for one in RELOADS:
        signal.signal(one, signal.SIG_IGN)
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.usefixtures("ignored_hangup")
@pytest.mark.parametrize("number", RELOADS)
def test_a_signal_while_the_application_is_built_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The log files are open by then, and may have been renamed since."""
    reloads: list[bool] = []

    def build() -> Any:
        os.kill(os.getpid(), number)

    async def await_reload(*_: object) -> None:
        async with asyncio.timeout(30):
            while not reloads:  # noqa: ASYNC110 - of a signal, which wakes nobody else
                await asyncio.sleep(0.01)

    monkeypatch.setattr(workers, "serve_process", await_reload)
    server: Any = SimpleNamespace(reload=lambda *, logs_only: reloads.append(logs_only))
    ours, theirs = Pipe()
    with ours, theirs, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(workers._serve(build, lambda _: server, [], theirs))

    assert reloads == [RELOADS[number]]
