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


@pytest.fixture
def ignored_hangup() -> Iterator[None]:
    """As in the process that forks the workers."""
    before = {one: signal.getsignal(one) for one in (signal.SIGHUP, signal.SIGTERM)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.usefixtures("ignored_hangup")
def test_a_hangup_while_the_application_is_built_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log files are open by then, and may have been renamed since."""
    reloads: list[str] = []

    def build() -> Any:
        os.kill(os.getpid(), signal.SIGHUP)

    async def await_reload(*_: object) -> None:
        async with asyncio.timeout(30):
            while not reloads:  # noqa: ASYNC110 - of a signal, which wakes nobody else
                await asyncio.sleep(0.01)

    monkeypatch.setattr(workers, "serve_process", await_reload)
    server: Any = SimpleNamespace(reload=lambda: reloads.append("reloaded"))
    ours, theirs = Pipe()
    with ours, theirs, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(workers._serve(build, lambda _: server, [], theirs))

    assert reloads == ["reloaded"]
