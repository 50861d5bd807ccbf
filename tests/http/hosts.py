"""Applications that live for a whole module, each in an event loop and a thread of its own.

A test has a loop of its own, too, which ends with it: whatever happens to a test, the application
of its module and the other tests go on. `Service.there` leads from one loop to the other.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Literal, TypeVar

import pytest
import uvloop

from tests.leaks import Snapshot, living_applications

T = TypeVar("T")
_PATIENCE = 60.0  # seconds that a start or an end may take on a very busy machine


@contextmanager
def hosted(application: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """What `application` yields, entered and left in a loop of its own.

    It leaves nothing behind; where a younger one outlives it, nobody can tell what is whose.
    """
    before, older = Snapshot.take(), frozenset(living_applications)
    host = _Host(application)
    thread = threading.Thread(target=host.run, name="application", daemon=True)
    thread.start()
    living_applications.add(host)
    try:
        yield host.started.result(_PATIENCE)
    finally:
        host.stop()
        thread.join(_PATIENCE)
        living_applications.discard(host)
        assert not thread.is_alive(), "the application does not end"
    if host.failure is not None:
        raise host.failure
    if living_applications <= older:
        before.check()


class _Host:
    """The thread's side: enters the application, waits to be stopped, leaves it."""

    def __init__(self, application: AbstractAsyncContextManager[Any]) -> None:
        self.started: Future[Any] = Future()
        self.failure: BaseException | None = None
        self._application = application
        self._loop = uvloop.new_event_loop()
        self._stopped = asyncio.Event()

    def run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    def stop(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopped.set)

    async def _live(self) -> None:
        try:
            async with self._application as value:
                self.started.set_result(value)
                await self._stopped.wait()
        except BaseException as error:  # the test's own thread raises it
            if self.started.done():
                self.failure = error
            else:
                self.started.set_exception(error)


def module_application(function: Callable[..., AsyncIterator[Any]]) -> Any:
    """Make an asynchronous generator a fixture of its module that lives in a loop of its own."""
    enter = asynccontextmanager(function)

    @functools.wraps(function)
    def fixture(served_by: str, **fixtures: Any) -> Iterator[Any]:
        with hosted(enter(**fixtures)) as value:
            yield value

    # A module that runs with two protocols has an application for each of them.
    own = inspect.Parameter("served_by", inspect.Parameter.KEYWORD_ONLY)
    signature = inspect.signature(function)
    parameters = [*signature.parameters.values(), own]
    fixture.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return pytest.fixture(scope=_choose_scope)(fixture)


def _choose_scope(fixture_name: str, config: pytest.Config) -> Literal["function", "module"]:
    """`make test ARGS=--alone` finds the tests that live on what others have left behind."""
    return "function" if config.getoption("alone") else "module"
